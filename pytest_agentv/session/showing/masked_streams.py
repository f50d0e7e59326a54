"""Masks secrets on standard output and error under `-s`, where pytest captures nothing."""

import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import harmless_in_ci
from pytest_agentv.session.showing.logs import current_log

_NAMES: Final = ("stdout", "stderr")


class MaskedStream:
    """Passes on what Python code prints, text by text, with secrets masked. It cannot see the output of processes."""

    def __init__(self, stream: TextIO, masker: Masker) -> None:
        self._stream = stream
        self._masker = masker

    def write(self, text: str) -> int:
        masked = self._masker.mask(text)
        self._stream.write(masked if current_log.get() is None else harmless_in_ci(masked))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class MaskedStreams:
    """Replaces the real streams by masked ones for the duration of a run."""

    def __init__(self, config: pytest.Config, masker: Masker) -> None:
        self._is_needed = config.getoption("capture", default=None) == "no"
        self._masker = masker
        self._ours: dict[str, tuple[TextIO, MaskedStream]] = {}

    def install(self) -> None:
        for name in _NAMES if self._is_needed else ():
            stream: TextIO = getattr(sys, name)
            self._ours[name] = stream, MaskedStream(stream, self._masker)
            setattr(sys, name, self._ours[name][1])

    def remove(self) -> None:
        """Restore the real streams, unless other code has replaced them meanwhile."""
        for name, (stream, ours) in self._ours.items():
            if getattr(sys, name) is ours:
                setattr(sys, name, stream)
        self._ours.clear()
