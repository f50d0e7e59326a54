"""Answers in files, written only if reading them back gives the same answer, and the keys of their names."""

import hashlib
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.engine.targets.waiting import NUMBER, VERSION
from pytest_agentv.errors import AgentvError, FileError
from pytest_agentv.models.answers import candidate_answer, is_null
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.finish_reasons import incomplete_reason
from pytest_agentv.models.masking.secrets import Masker, masked
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.trace_files import read_trace
from pytest_agentv.runtime.files import write_atomically

_LOGGER: Final = logging.getLogger(__name__)
_RUN: Final = "run_id"


def what_is_asked(request: ProviderRequest) -> JsonObject:
    """Return everything of a request that affects the answer, as plain data, with hashes in place of files."""
    asked: JsonObject = {
        "eval_id": request.eval_id,
        "prompt": request.prompt.in_words().to_plain(),
        "system_prompt": request.system_prompt,
        "guidelines": len(request.guideline_paths),
        "files": [_hash_file(path) for path in request.file_paths],
    }
    # The first answer keeps the key that it has without repeats, reruns and equal questions.
    numbers = {"answer": request.answer, "reruns": request.reruns, "occurrence": list(request.occurrence)}
    return {**asked, **{name: number for name, number in numbers.items() if number}}


def digest_of(value: Json) -> str:
    """Return the hash of plain data, in which the order of keys does not count."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def cached_file(folder: Path, question: Json) -> Path:
    """Return the file of a cache in which the answer to a question is kept."""
    key = digest_of(question)
    return folder / key[:2] / f"{key}.json"


def read_answer(path: Path, run_id: str | None = None) -> ProviderResponse | None:
    """Return a kept response; None if it is missing or cannot be read, or if another run than `run_id` kept it.

    None as well if it names a trace file, as those of older versions do: the file may hold another trace by now.
    """
    try:
        kept = json.loads(path.read_text("utf-8"))
        if not isinstance(kept, dict) or "raw" not in kept:  # else any mapping would be read as an empty answer
            return None
        kept_by, _, _ = (kept.pop(note, None) for note in (_RUN, VERSION, NUMBER))
        is_ours = run_id in (None, kept_by) and kept.get("trace_ref") is None
        return ProviderResponse.from_plain(kept) if is_ours else None
    except (OSError, ValueError, RecursionError):
        return None


def keep_answer(
    path: Path, response: ProviderResponse, masker: Masker, run_id: str | None = None, notes: JsonObject | None = None
) -> FileError | None:
    """Write an answer in one step, for later runs to judge, beside its run and `notes`. Logs why it cannot be kept.

    Returns the error of a file that cannot be written. Failed and incomplete answers are not kept. Those that hold a
    secret are not either: it would be masked on disk, so that a later run would judge another answer.
    """
    is_whole = response.error is None and incomplete_reason(response.finish_reason) is None
    is_whole = is_whole and not is_null(response.output_messages, response.trace)
    if not is_whole or response.output_messages == ():  # the provider did not wait for the answer
        return None
    try:
        response = _with_trace(response)
        text = _to_json(response, masker, {**(notes or {}), **({} if run_id is None else {_RUN: run_id})})
    except (AgentvError, TypeError, ValueError, RecursionError) as error:
        _LOGGER.warning("the answer cannot be kept for later runs: %s", masker.mask(str(error)))
        return None
    return None if text is None else write_entry(path, text)


def write_entry(path: Path, text: str) -> FileError | None:
    """Write a file in one step. Logs and returns the error if it cannot be written, and leaves no empty folder then."""
    try:
        write_atomically(path, text)
    except FileError as error:
        _LOGGER.warning("the answer cannot be kept for later runs: %s", masked(str(error)))
        with suppress(OSError):  # it may hold other files
            path.parent.rmdir()
        return error
    return None


def _with_trace(response: ProviderResponse) -> ProviderResponse:
    """Return the answer with its trace in place of the trace file, which the next call may write anew."""
    if response.trace_ref is None:
        return response
    trace = read_trace(Path(response.trace_ref)) if response.trace is None else response.trace
    return response.replace(trace=trace, trace_ref=None)


def _to_json(response: ProviderResponse, masker: Masker, run: JsonObject) -> str | None:
    """Return the text that keeps an answer; None, with a log, if reading it back would give another answer."""
    plain = response.to_plain()
    debugging = masker.mask_plain(plain.pop("raw", {}))  # not judged, so it may be masked
    if masker.mask_plain(plain) != plain:
        _LOGGER.info("the answer holds a secret, and is not kept for later runs")
        return None
    text = json.dumps({**plain, "raw": debugging, **run}, ensure_ascii=True)
    if not _is_same_answer(ProviderResponse.from_plain(json.loads(text)), response):
        _LOGGER.warning("the answer is not kept for later runs: JSON cannot hold it as it is")
        return None
    return text


def _is_same_answer(first: ProviderResponse, second: ProviderResponse) -> bool:
    """Whether two responses are judged alike. Compares texts too, because 1 and 1.0 are equal but read differently."""
    first = first.replace(raw=second.raw)
    return first == second and candidate_answer(first.output_messages) == candidate_answer(second.output_messages)


def _hash_file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"
