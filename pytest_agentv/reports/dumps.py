"""What a run writes beside its results: prompts and traces, and the logs and prints of cases."""

import hashlib
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import JsonObject, pretty_json
from pytest_agentv.model.messages import TraceEvent, TraceSummary
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import harmless_in_ci
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.writers import recordable

# Writes prompts and traces of single cases to files, for debugging.

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


# Keeps what a case prints and logs for the report of its item, whatever runs in its process at that time.

STREAMS: Final = ("stdout", "stderr")
_LONGEST_LOG: Final = 20_000


@dataclass(slots=True, eq=False)
class CaseLog:
    """What a case logged and printed."""

    lines: list[str] = field(default_factory=list)
    printed: dict[str, deque[str]] = field(default_factory=lambda: {name: deque() for name in STREAMS})
    """By the name of the stream, what nobody has taken."""

    @property
    def text(self) -> str:
        text = "\n".join(self.lines)
        return text if len(text) <= _LONGEST_LOG else f"...\n{text[-_LONGEST_LOG:]}"

    def take(self, name: str, *, whole_lines: bool = False) -> str:
        """Take what the case printed since the last call. Threads of the case may print meanwhile."""
        kept, taken = self.printed[name], list[str]()
        with suppress(IndexError):
            while True:
                taken.append(kept.popleft())
        text = "".join(taken)
        size = text.rfind("\n") + 1 if whole_lines else len(text)
        if size < len(text):
            kept.appendleft(text[size:])
        return text[:size]

    def print_again(self) -> None:
        """Print what the case printed. Called while pytest captures the output of the case's item."""
        for name in STREAMS:
            if text := self.take(name):
                stream: TextIO = getattr(sys, name)
                encoding = getattr(stream, "encoding", None) or "utf-8"
                stream.write(harmless_in_ci(text).encode(encoding, "backslashreplace").decode(encoding))


current_log: ContextVar[CaseLog | None] = ContextVar("agentv_case_log", default=None)
"""The log of the case that the running task belongs to. Tasks and threads of a case inherit it."""


class CaseHandler(logging.Handler):
    """Keeps what cases log, with secrets masked."""

    def __init__(self, masker: Masker) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"))
        self._masker = masker

    def emit(self, record: logging.LogRecord) -> None:
        log = current_log.get()
        if log is not None:
            log.lines.append(self._masker.mask(self.format(record)))


class CaseStream:
    """Stands for `sys.stdout` or `sys.stderr`. Keeps what cases print, and passes on the rest with secrets masked."""

    def __init__(self, name: str, below: TextIO, masker: Masker, *, is_live: bool = False, masks: bool = True) -> None:
        """Wrap a stream. With `is_live`, whole lines of cases are passed on. Without `masks`, a test reads the rest."""
        self.below = below
        self.masker = masker
        self._name = name
        self._is_live = is_live
        self._masks = masks

    def write(self, text: str) -> int:
        log = current_log.get()
        if log is not None and isinstance(text, str):
            log.printed[self._name].append(text)
            if self._is_live and "\n" in text:
                self._pass_on(log.take(self._name, whole_lines=True), is_foreign=True)
        elif self._masks:  # a thread that does not know its case may print texts of models
            self._pass_on(text, is_foreign=threading.current_thread() is not threading.main_thread())
        else:
            self.below.write(text)
        return len(text)

    def _pass_on(self, text: str, *, is_foreign: bool) -> None:
        self.masker.look_again()
        masked = self.masker.mask(text)
        self.below.write(harmless_in_ci(masked) if is_foreign else masked)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)
