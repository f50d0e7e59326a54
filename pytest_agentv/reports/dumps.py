"""Writes prompts and traces of single cases to files, for debugging."""

import hashlib
import re
from pathlib import Path
from typing import Final

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.messages import TraceEvent, TraceSummary
from pytest_agentv.model.secrets import Masker
from pytest_agentv.model.text import pretty_json
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.writers import recordable

_LONGEST_NAME: Final = 100
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+|^\.")


def dump_prompt(
    folder: Path,
    eval_id: str,
    prompt: Prompt,
    *,
    guideline_paths: tuple[str, ...],
    masker: Masker,
    qualifier: str | None = None,
) -> Path:
    """Write the prompt of a case, as sent, to `<eval_id>.json` and return the path. Raises `FileError`.

    Source: eval-cli-2026-01, "Dump prompts enabled".
    """
    payload = {
        "eval_id": eval_id,
        "question": prompt.question,
        "guidelines": prompt.guidelines,
        "guideline_paths": guideline_paths,
    }
    return _dump(folder / f"{file_name(eval_id, qualifier)}.json", payload, masker)


def dump_trace(
    folder: Path,
    eval_id: str,
    *,
    attempt: int,
    answer: int = 0,
    reruns: int = 0,
    target: str,
    trace: tuple[TraceEvent, ...] | None,
    trace_summary: TraceSummary | None,
    masker: Masker,
    qualifier: str | None = None,
) -> Path:
    """Write the trace of one attempt (counted from 1) to `<eval_id>_attempt-<n>.json` and return the path.

    The second answer of a case that is asked several times goes to `<eval_id>_answer-2_attempt-<n>.json`, and so on.
    The first rerun goes to `<eval_id>_rerun-1_attempt-<n>.json`, because the trace of the failure before is wanted too.
    Raises `FileError`. Source: eval-cli-2026-01, "Dump traces enabled".
    """
    payload = {
        "eval_id": eval_id,
        "attempt": attempt,
        "target": target,
        "trace": None if trace is None else [event.to_plain() for event in trace],
        "trace_summary": None if trace_summary is None else trace_summary.to_plain(),
    }
    which = (f"_rerun-{reruns}" if reruns else "") + (f"_answer-{answer + 1}" if answer else "")
    return _dump(folder / f"{file_name(eval_id, qualifier)}{which}_attempt-{attempt}.json", payload, masker)


def file_name(eval_id: str, qualifier: str | None = None) -> str:
    """Return an id as a file name, or as the start of one.

    An id that is not a valid file name gets `~` and a hash at its end, so that `a/b` and `a:b` stay two files. An id
    with a qualifier gets one too. The qualifier separates cases with the same id, for example by their eval file.
    """
    if qualifier is None and len(eval_id) <= _LONGEST_NAME and _SAFE_NAME.fullmatch(eval_id):
        return eval_id
    identity = f"{eval_id}\0{qualifier or ''}".encode("utf-8", "surrogatepass")
    readable = _UNSAFE_CHARACTERS.sub("_", eval_id)[:_LONGEST_NAME]
    return f"{readable}~{hashlib.sha256(identity).hexdigest()[:8]}"


def _dump(path: Path, payload: JsonObject, masker: Masker) -> Path:
    write_atomically(path, pretty_json(recordable(payload, masker)) + "\n")
    return path
