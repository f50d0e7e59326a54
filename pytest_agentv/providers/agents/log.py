"""Stream logs of coding agents: the output of a program with times, for people to read (agentv-formats 5.3)."""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.options.defaults import LOGS_FOLDER
from pytest_agentv.models.records import record
from pytest_agentv.providers.base import TargetEnvironment
from pytest_agentv.runtime.files import tell_of_written

_LOGGER: Final = logging.getLogger(__name__)
_OFF: Final = frozenset({"false", "0", "off", "no"})
_LONGEST_NAME: Final = 80
"""The most characters of a target's name and of a case's id in a file name."""


class StreamLog:
    """The log of one call. If it cannot be written, that is only a warning, because the answer matters more."""

    def __init__(self, path: Path | None, header: str, summarize: Callable[[JsonObject], str | None] | None) -> None:
        """Create the file, and its folder.

        Args:
            path: The file; None: no log is written.
            header: The beginning of the file.
            summarize: Returns the line of an event, or None for one without a line; None: events are logged in full.
        """
        self.path: Path | None = None
        self._summarize = summarize
        self._started = time.monotonic()
        self._file: IO[str] | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("x", encoding="utf-8", errors="replace", buffering=1)
        except OSError as error:
            _LOGGER.warning("no stream log %s: %s", path, error.strerror)
            return
        self.path = path
        self._write(header)

    def write_event(self, event: JsonObject) -> None:
        """Write an event, as a line or in full."""
        if self._file is None:
            return
        if self._summarize is None:
            self._write_line("stdout", as_json(event, indent=2))
        elif summary := self._summarize(event):
            self._write_line("stdout", " ".join(masked(summary).split()))

    def write_text(self, stream: str, text: str) -> None:
        """Write a line that is not an event."""
        self._write_line(stream, text)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # text that was held back because the disk was full
                self._file.close()
            self._file = None
            if self.path is not None:
                tell_of_written(self.path)

    def _write_line(self, stream: str, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours:02}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        self._write(f"[+{clock}] [{stream}] {text}\n")

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(masked(text))
        except OSError as error:
            _LOGGER.warning("the stream log %s ends here: %s", self.path, error.strerror)
            self.close()


@record
class StreamLogs:
    """The logs of a target's calls."""

    title: str
    """The name of the program at the beginning of a log."""
    kind: str
    target: str
    folder: Path
    summarize: Callable[[JsonObject], str | None] | None
    """See `StreamLog`."""
    is_on: bool = True

    def open(self, eval_id: str, attempt: int) -> StreamLog:
        """Open `<time>_<target>_<eval id>_attempt-<n>_<8 hex>.log`; `attempt` is 0-based."""
        if not self.is_on:
            return StreamLog(None, "", None)
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        time_part = started.replace(":", "-").replace(".", "-")
        name = f"{time_part}_{_safe(self.target)}_{_safe(eval_id)}_attempt-{attempt + 1}_{secrets.token_hex(4)}.log"
        facts = {
            "target": self.target,
            "eval": " ".join(eval_id.split()),
            "attempt": attempt + 1,
            "started": started,
        }
        head = [f"# {self.title} stream log", *(f"# {key}: {value}" for key, value in facts.items())]
        return StreamLog(self.folder / name, "\n".join(head) + "\n\n", self.summarize)


def stream_logs(
    title: str,
    kind: str,
    environment: TargetEnvironment,
    *,
    folder: str | None,
    summarize: Callable[[JsonObject], str | None] | None,
) -> StreamLogs:
    """Return the logs of a target, in its log folder or in `.agentv/logs/<kind>` below the working directory.

    The environment variable `AGENTV_<KIND>_STREAM_LOGS` turns them off with `false`, `0`, `off` or `no`.
    """
    switch = f"AGENTV_{kind.upper().replace('-', '_')}_STREAM_LOGS"
    return StreamLogs(
        title,
        kind,
        environment.name,
        Path(folder) if folder else Path.cwd() / LOGS_FOLDER / kind,
        summarize,
        is_on=environment.variables.get(switch, "").strip().lower() not in _OFF,
    )


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:_LONGEST_NAME]


def as_json(event: JsonObject, indent: int | None = None) -> str:
    """Return an event as JSON, for people."""
    try:
        return json.dumps(event, indent=indent, ensure_ascii=False)
    except RecursionError:  # writing recurses deeper than reading
        return "(an event that is nested too deeply to be shown)"
