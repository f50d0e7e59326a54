"""Keeps answers on disk, so that the same question to the same target costs once."""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.engine.answers import timed
from pytest_agentv.engine.waiting import NUMBER, VERSION
from pytest_agentv.errors import AgentvError, FileError
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.messages import candidate_answer, incomplete_reason, is_null
from pytest_agentv.model.secrets import Masker, masked
from pytest_agentv.providers.base import (
    Adapter,
    BatchProvider,
    ProviderRequest,
    ProviderResponse,
    one_for_each,
    read_trace,
)
from pytest_agentv.runtime.files import write_atomically

# Answers in files, written only if reading them back gives the same answer, and the keys of their names.

_LOGGER: Final = logging.getLogger(__name__)
_RUN: Final = "run_id"


def what_is_asked(request: ProviderRequest) -> JsonObject:
    """Return everything of a request that affects the answer, as plain data, with hashes in place of files."""
    asked: JsonObject = {
        "eval_id": request.eval_id,
        "prompt": request.prompt.in_words().to_plain(),
        "system_prompt": request.system_prompt,  # a schema goes with it
        "guidelines": len(request.guideline_paths),
        "files": [_hash_file(path) for path in request.file_paths],
    }
    # The first answer keeps the key that it has without repeats, reruns and equal questions.
    numbers = {"answer": request.answer, "reruns": request.reruns, "occurrence": list(request.occurrence)}
    return {**asked, **{name: number for name, number in numbers.items() if number}}


def _hash_file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


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
    except (OSError, ValueError):
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
        if response.trace_ref is not None:  # the next call may write that file anew
            trace = read_trace(Path(response.trace_ref)) if response.trace is None else response.trace
            response = response.replace(trace=trace, trace_ref=None)
        text = _to_json(response, masker, {**(notes or {}), **({} if run_id is None else {_RUN: run_id})})
    except (AgentvError, TypeError, ValueError) as error:
        _LOGGER.warning("the answer cannot be kept for later runs: %s", masker.mask(str(error)))
        return None
    return None if text is None else write_entry(path, text)


def _to_json(response: ProviderResponse, masker: Masker, run: JsonObject) -> str | None:
    """Return the text that keeps an answer; None, with a log, if reading it back would give another answer."""
    plain = response.to_plain()
    debugging = masker.mask_plain(plain.pop("raw", {}))  # not judged, so it may be masked
    if masker.mask_plain(plain) != plain:
        _LOGGER.info("the answer holds a secret, and is not kept for later runs")
        return None
    text = json.dumps({**plain, "raw": debugging, **run}, ensure_ascii=True)
    kept = ProviderResponse.from_plain(json.loads(text)).replace(raw=response.raw)
    # Compares texts too, because 1 and 1.0 are equal but read differently.
    if kept != response or candidate_answer(kept.output_messages) != candidate_answer(response.output_messages):
        _LOGGER.warning("the answer is not kept for later runs: JSON cannot hold it as it is")
        return None
    return text


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


# The cache of a target (`--agentv-cache`).

_VERSION: Final = 3
"""Part of every key. Incremented when the format of the entries changes."""


class CachedProvider:
    """Calls the provider behind it only for requests that are not in the cache.

    `keep_answer` says which answers are kept. The key covers everything that affects an answer: the fingerprint of the
    target, the prompt, the system prompt, the case's id, the numbers of the answer, of the rerun and among equal
    questions of the case, and the content of the files. Entries are written in one step, so any number of processes may
    share the folder.
    """

    def __init__(
        self,
        provider: Adapter,
        fingerprint: str,
        folder: Path,
        masker: Masker,
        as_at_home: Callable[[JsonObject], JsonObject] = dict,
        *,
        tell: Callable[[FileError], None] | None = None,
    ) -> None:
        """Take a provider, the fingerprint of its target and the folder of the cache.

        `as_at_home` gives keys the paths that the process of the run would have, wherever the files lie. `tell` hears
        why an answer cannot be written.
        """
        self.mode: PromptMode = provider.mode
        self.keeps_limits: bool = getattr(provider, "keeps_limits", False)
        self.embed = getattr(provider, "embed", None)
        """Embeddings have a cache of their own."""
        if isinstance(provider, BatchProvider):
            self._batch_provider = provider
            self.invoke_batch = self._invoke_batch
        self._provider = provider
        self._target = fingerprint
        self._folder = folder
        self._masker = masker
        self._as_at_home = as_at_home
        self._tell = tell

    async def check(self) -> None:
        await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        path = self.place(request)
        known = read_answer(path)
        if known is not None:
            return known.replace(cached=True)
        started = time.perf_counter()
        response = timed(await self._provider.invoke(request), started)
        self._keep(path, response)
        return response

    def forget(self, request: ProviderRequest) -> None:
        """Delete the answer to a request, which was of no use."""
        with suppress(OSError):
            self.place(request).unlink(missing_ok=True)

    async def close(self) -> None:
        await self._provider.close()

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Ask the requests that are not in the cache in one call, if there are any."""
        paths = [self.place(request) for request in requests]
        kept = [None if known is None else known.replace(cached=True) for known in map(read_answer, paths)]
        missing = [number for number, known in enumerate(kept) if known is None]
        started = time.perf_counter()
        wanted = [requests[number] for number in missing]
        asked = one_for_each(wanted, await self._batch_provider.invoke_batch(wanted) if missing else [])
        responses = dict(zip(missing, [timed(response, started) for response in asked], strict=True))
        for number, response in responses.items():
            self._keep(paths[number], response)
        return [known or responses[number] for number, known in enumerate(kept)]

    def _keep(self, path: Path, response: ProviderResponse) -> None:
        error = keep_answer(path, response, self._masker)
        if error is not None and self._tell is not None:
            self._tell(error)

    def place(self, request: ProviderRequest) -> Path:
        """Return the file of the answer to a request."""
        question = {"version": _VERSION, "target": self._target, **what_is_asked(request)}
        return cached_file(self._folder, self._as_at_home(question))
