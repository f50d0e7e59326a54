"""What a coding agent's program writes, read while it runs: its events, its log, and what else it said."""

import json
from collections.abc import Iterator
from typing import Final, Literal

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.providers.agents.events import as_text
from pytest_agentv.providers.agents.log import StreamLog, as_json

MOST_KEPT: Final = 256 * 2**20
"""Bytes of events; a program that writes more is not read any further."""
_LONGEST_LINE: Final = 64 * 2**20
"""Bytes; a longer line is passed over."""
_LONGEST_REPORT: Final = 2000
"""Characters kept of what is no event; the end, where programs say what went wrong."""
_SHOWN_EVENTS: Final = 3


class LineSplitter:
    """Cuts a stream into lines at newlines only: events hold raw U+2028, where `splitlines` would cut."""

    def __init__(self, longest: int = _LONGEST_LINE) -> None:
        self._longest = longest
        self._pending = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete; of one that is too long, a remark."""
        # Only what is new is searched: lines of many megabytes come in hundreds of pieces.
        first, *others = data.split(b"\n")
        self._keep(first)
        for piece in others:
            yield from self.rest()
            self._keep(piece)

    def rest(self) -> Iterator[bytes]:
        """Yield what the program wrote last without ending the line."""
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
        """Types of events that are neither kept nor logged."""
        self._unread = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(skipped))
        """How their lines begin as a rule: most of the output, which is not worth parsing."""
        self._room = most_kept
        """Bytes of events that may still come."""
        self._lines = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._said = {"stdout": "", "stderr": ""}

    @property
    def overflowed(self) -> bool:
        """It wrote more events than are kept."""
        return self._room < 0

    @property
    def stdout(self) -> str:
        """The end of standard output, without secrets: of what was no event, or of the events."""
        if self.noise:
            return self.noise
        return masked("\n".join(map(as_json, self.events[-_SHOWN_EVENTS:])))[-_LONGEST_REPORT:]

    @property
    def stderr(self) -> str:
        """The end of standard error, without secrets."""
        return self._said["stderr"].strip()

    @property
    def noise(self) -> str:
        """The end of what was no event on standard output, without secrets."""
        return self._said["stdout"].strip()

    def listen(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take what the program wrote."""
        for line in self._lines[stream].feed(data):
            self._take(stream, line)

    def end(self) -> None:
        """Take what is left, and end the log."""
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
        if as_text(event.get("type")) in self._skipped:
            return
        self._room -= len(line)
        if not self.overflowed:
            self.events.append(event)
            self._log.write_event(event)


def parse_event(line: bytes) -> JsonObject | None:
    """Return the JSON object that a line holds; None for anything else."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
