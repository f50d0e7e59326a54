"""Results that workers keep until the run has written them, and whether the run is still there."""

import fcntl
import json
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.runtime.files import write_atomically

# Keeps results of workers in files until the run has written them.

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
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


# Tells foreign workers that the run has ended, or that one of their jobs must end.
#
# The process of the run locks a file in a folder that all workers see. The operating system releases the lock when the
# process dies. Such a lock belongs to one process: forked children do not hold it.

_NAME: Final = "run.lock"
_STOP: Final = ".stop"


class Leash:
    """The end of the leash in the process of the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = (folder / _NAME).open("w", encoding="utf-8")
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.write(process_name())
        self._file.flush()

    def stop(self, ticket: str) -> None:
        """Tell a job to end."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").touch()

    def forget(self, ticket: str) -> None:
        """Withdraw `stop`, because the job has ended."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").unlink()

    def release(self) -> None:
        """Tell all jobs to end, and all workers to close their resources."""
        if self._file is not None:
            with suppress(OSError):
                (self._folder / _NAME).unlink()
            self._file.close()
            self._file = None


def clear_leash(folder: Path) -> None:
    """Remove the leash of a killed run. The leash of a running run stays."""
    if (folder / _NAME).exists() and LeashEnd(folder).is_cut():
        for path in (folder / _NAME, *folder.glob(f"*{_STOP}")):
            with suppress(OSError):
                path.unlink()


class LeashEnd:
    """The end of the leash that a worker watches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder: str | None = None

    def is_cut(self) -> bool:
        """Whether the run is over, or its process is gone."""
        path = self._folder / _NAME
        try:
            holder = path.read_text("utf-8")
            self._holder = self._holder or holder
            if holder != self._holder:
                return True  # another run has resumed the results of this one
            if holder == process_name():
                return False  # our own process holds the lock, and closing the file again would release it
            with path.open("a", encoding="utf-8") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def is_stopped(self, ticket: str) -> bool:
        """Whether a job must end."""
        return (self._folder / f"{ticket}{_STOP}").exists()


def process_name() -> str:
    """Return a unique name of this process."""
    return f"{socket.gethostname()} {os.getpid()}"


# Records which clusters may keep results of a run, beside its results file and before the first job.

_CLUSTERS_NAME: Final = "clusters"


@dataclass(frozen=True, slots=True)
class LeftRun(Record):
    """A run on a cluster whose workers may keep results."""

    address: str
    run: str


class LeftRuns:
    """The runs of a results file that did not end normally, in a file beside other kept data."""

    def __init__(self, kept_folder: Path) -> None:
        self._path = kept_folder / _CLUSTERS_NAME

    @property
    def path(self) -> Path:
        return self._path

    def all(self) -> list[LeftRun]:
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        return list(_parsed(lines))

    def add(self, left: LeftRun) -> None:
        """Add a run before its first job. Raises `FileError`."""
        self._write([*self.all(), left])

    def remove(self, runs: Collection[str]) -> None:
        """Remove runs without kept results."""
        with suppress(OSError):
            self._write([left for left in self.all() if left.run not in runs])

    def _write(self, lefts: list[LeftRun]) -> None:
        if lefts:
            write_atomically(self._path, "".join(json.dumps(left.to_plain()) + "\n" for left in lefts))
        else:
            self._path.unlink(missing_ok=True)


def _parsed(lines: list[str]) -> Iterator[LeftRun]:
    for line in lines:
        with suppress(ValueError, TypeError):
            yield LeftRun(**json.loads(line))


def missing_text(address: str, error: ModuleNotFoundError) -> str:
    """Return the packages to install for a cluster."""
    return f"{address} needs a package that is not installed ({error.name}): pip install 'pytest-agentv[dask]'"
