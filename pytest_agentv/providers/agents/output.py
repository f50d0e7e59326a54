"""Reads the output of a coding agent's program while it runs: its events, its log, and other text."""

import json
from collections.abc import Iterator
from typing import Final, Literal

from pytest_agentv.models.base import JsonObject, text_or_none
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.providers.agents.log import StreamLog, as_json

MOST_KEPT: Final = 256 * 2**20
"""In bytes. A program that writes more events is not read any further."""
_LONGEST_LINE: Final = 64 * 2**20
"""In bytes. A longer line is skipped."""
_LONGEST_REPORT: Final = 2000
"""The most characters kept of text outside of events. The end is kept, where programs report errors."""
_SHOWN_EVENTS: Final = 3


class LineSplitter:
    """Splits a stream into lines at newlines only. Events hold raw U+2028, at which `splitlines` would split."""

    def __init__(self, longest: int = _LONGEST_LINE) -> None:
        self._longest = longest
        self._pending = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete lines, and a remark for a line that is too long."""
        # Searches only the new part: lines of many megabytes come in hundreds of pieces.
        first, *others = data.split(b"\n")
        self._keep(first)
        for piece in others:
            yield from self.rest()
            self._keep(piece)

    def rest(self) -> Iterator[bytes]:
        """Yield the last text if it does not end with a newline."""
        line = b"(a line that is too long)" if self._is_too_long else bytes(self._pending)
        self._pending = bytearray()
        self._is_too_long = False
        if line:
            yield line

    def _keep(self, piece: bytes) -> None:
        self._is_too_long = self._is_too_long or len(self._pending) + len(piece) > self._longest
        if self._is_too_long:
            self._pending = bytearray()
        else:
            self._pending += piece


class AgentOutput:
    """Listens to a program that writes an event per line of standard output."""

    def __init__(self, log: StreamLog, skipped: frozenset[str] = frozenset(), most_kept: int = MOST_KEPT) -> None:
        self.events: list[JsonObject] = []
        self._log = log
        self._skipped = skipped
        """Event types that are neither kept nor logged."""
        self._unread = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(skipped))
        """The usual beginnings of such lines. They are most of the output, and parsing them would be a waste."""
        self._bytes_left = most_kept
        """Bytes of events that may still come."""
        self._lines = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._said = {"stdout": "", "stderr": ""}

    @property
    def overflowed(self) -> bool:
        """Whether the program wrote more events than are kept."""
        return self._bytes_left < 0

    @property
    def stdout(self) -> str:
        """The end of standard output, without secrets: the text outside of events, else the events."""
        if self.noise:
            return self.noise
        return masked("\n".join(map(as_json, self.events[-_SHOWN_EVENTS:])))[-_LONGEST_REPORT:]

    @property
    def stderr(self) -> str:
        """The end of standard error, without secrets."""
        return self._said["stderr"].strip()

    @property
    def noise(self) -> str:
        """The end of the text outside of events on standard output, without secrets."""
        return self._said["stdout"].strip()

    def listen(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Read a piece of the program's output."""
        for line in self._lines[stream].feed(data):
            self._take(stream, line)

    def end(self) -> None:
        """Read the rest, and end the log."""
        for stream, splitter in self._lines.items():
            for line in splitter.rest():
                self._take(stream, line)
        self._log.close()

    def _take(self, stream: str, line: bytes) -> None:
        line = line.strip()
        if not line or self.overflowed or line.startswith(self._unread):
            return
        event = parse_event(line) if stream == "stdout" else None
        if event is None:
            text = masked(line.decode("utf-8", "replace"))
            self._said[stream] = f"{self._said[stream]}{text}\n"[-_LONGEST_REPORT:]
            self._log.write_text(stream, text)
            return
        if text_or_none(event.get("type")) in self._skipped:
            return
        self._bytes_left -= len(line)
        if not self.overflowed:
            self.events.append(event)
            self._log.write_event(event)


def parse_event(line: bytes) -> JsonObject | None:
    """Return the JSON object of a line; None for any other line."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
