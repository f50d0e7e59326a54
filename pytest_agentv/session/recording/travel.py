"""Carries the results of xdist workers on other machines in their reports: they cannot write to the run's file."""

import json
import os
import threading
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.writers import ResultSink

RECORDS: Final = "agentv_records"
"""The attribute of a report, and the key of a worker's output, that holds lines of the results file."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@record
class Place(Record):
    """Describes a folder of the controller's machine, so that a worker can tell whether it has the same one."""

    folder: str
    device: int
    inode: int
    machine: str

    @classmethod
    def of(cls, path: Path) -> "Place":
        """Describe the nearest folder above a path that is there."""
        folder = next(folder for folder in path.parents if folder.is_dir())
        found = folder.stat()
        return cls(str(folder), found.st_dev, found.st_ino, _machine())

    def is_here(self) -> bool:
        try:
            found = os.stat(self.folder)  # noqa: PTH116 - as plain as the fields
        except OSError:
            return False
        return (found.st_dev, found.st_ino, _machine()) == (self.device, self.inode, self.machine)


class TravellingSink:
    """Keeps the lines of results until a report carries them."""

    def __init__(self, sink: ResultSink) -> None:
        self._serialized = sink.serialized
        self._lock = threading.Lock()  # guards `_texts`, which the recording thread and the reporting thread use
        self._texts: dict[str | None, list[str]] = {}

    def write(self, *results: EvalResult) -> Sequence[EvalResult]:
        written = [self._serialized(result) for result in results]
        with self._lock:
            for result, text in written:
                self._texts.setdefault(result.node_id, []).append(text)
        return [result for result, _ in written]

    def probe(self) -> None:
        """Do nothing: the file is on another machine, where the controller has checked it."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def pack(self, node_id: str, report: Any) -> None:
        """Attach the lines of an item's results to its report."""
        with self._lock:
            texts = self._texts.pop(node_id, [])
        if texts:
            vars(report)[RECORDS] = json.dumps(texts)

    def rest(self) -> str:
        """Return the lines that no report carried."""
        with self._lock:
            texts = [text for group in self._texts.values() for text in group]
            self._texts.clear()
        return json.dumps(texts)


def unpack(packed: str | None) -> Iterable[str]:
    """Return the lines that `pack` or `rest` gave."""
    texts: list[str] = [] if packed is None else json.loads(packed)
    return texts


def _machine() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return f"{uuid.getnode():x}"
