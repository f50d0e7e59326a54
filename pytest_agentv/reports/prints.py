"""Keeps what a case prints and logs for the report of its item, whatever runs in its process at that time."""

import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import harmless_in_ci

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
