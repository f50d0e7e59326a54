"""Keeps results of workers in files until the run has written them."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.runtime.files import write_atomically

_SUFFIX: Final = ".json"


@record
class KeptResult(Record):
    """A kept result."""

    ticket: str
    result: JsonObject
    answer: int | None
    """The number of the answer; None: the result is that of the whole case."""


class KeptResults:
    """A folder with a file for each result. A killed run leaves it for a resumed run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, kept: KeptResult) -> None:
        """Write a result in one step. Raises `FileError`."""
        data: dict[str, Json] = {"answer": kept.answer, "result": kept.result}
        write_atomically(self._path(kept.ticket), json.dumps(data, ensure_ascii=True))

    def find(self, ticket: str) -> KeptResult | None:
        """Return the result of a job; None if it is not kept."""
        return self._read(self._path(ticket))

    def drop(self, ticket: str) -> None:
        """Delete a result, because the run has written it."""
        with suppress(OSError):
            self._path(ticket).unlink()

    def all(self) -> Iterator[KeptResult]:
        """Yield the kept results, oldest first."""
        with suppress(OSError):
            paths = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name))
            yield from filter(None, map(self._read, paths))

    def close(self) -> None:
        """Remove the folder when nobody writes there any more, unless it holds results."""
        with suppress(OSError):
            for path in self._folder.glob(".*.tmp"):  # of a worker that was killed while it wrote
                path.unlink()
            self._folder.rmdir()

    def _path(self, ticket: str) -> Path:
        return self._folder / f"{ticket}{_SUFFIX}"

    @staticmethod
    def _read(path: Path) -> KeptResult | None:
        try:
            data = json.loads(path.read_text("utf-8"))
            return KeptResult(path.stem, data["result"], data["answer"])
        except (OSError, ValueError, KeyError, TypeError, AgentvError):
            return None
