"""Locks between processes: a file lock that is cheap enough for every record, and a folder lock."""

import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Final

with suppress(ImportError):
    import fcntl  # missing on Windows, where evals cannot run, but commands may still read and write files

    class _Lock:
        """The system's own lock, for the reason that `OpenFile` tells."""

        flock = staticmethod(fcntl.flock)
        take, free = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN


_POLL_SECONDS: Final = 0.01
"""Interval between attempts to take a lock that another process holds. An append takes far less."""
_FOLDER_POLL_SECONDS: Final = 0.05


class OpenFile:
    """An unbuffered file with the operations that every record needs.

    Each system call can hand the interpreter to another thread, for milliseconds in a busy process. So it makes few.
    All are those of the system: while a record is written, a test may have put a file system of its own in place of
    `os`, `io` and `pathlib`. `FileIO` opens a path itself.
    """

    _fstat, _stat, _samestat = staticmethod(os.fstat), staticmethod(os.stat), staticmethod(os.path.samestat)
    _makedirs = staticmethod(os.makedirs)

    def __init__(self, raw: FileIO) -> None:
        self.raw = raw
        self.descriptor = raw.fileno()
        self._opened = self._fstat(self.descriptor)

    @classmethod
    def make(cls, path: Path, mode: str) -> "OpenFile":
        """Open a file, and create it and its folder if they are missing."""
        try:
            return cls(FileIO(path, mode))
        except (FileNotFoundError, NotADirectoryError):
            cls._makedirs(path.parent, exist_ok=True)
            return cls(FileIO(path, mode))

    def lock(self) -> None:
        """Lock the file for this process. Raises `BlockingIOError` if another one holds the lock."""
        _Lock.flock(self.descriptor, _Lock.take)

    def unlock(self) -> None:
        _Lock.flock(self.descriptor, _Lock.free)

    @property
    def is_regular(self) -> bool:
        """Whether it is neither a device nor a pipe."""
        return stat.S_ISREG(self._opened.st_mode)

    def size_at(self, path: Path) -> int | None:
        """Return the size in bytes of this file at a path; None if the path is missing or is another file."""
        try:
            found = self._stat(path)
        except FileNotFoundError:
            return None
        return found.st_size if self._samestat(self._opened, found) else None


class ProcessLock:
    """A file that one process at a time locks. The first process creates it; a deleted file is created again.

    The lock is compatible with the package `filelock`, which would take ten times as long as writing a record.
    The threads of one process need another lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: OpenFile | None = None

    @contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Wait for the lock. Raises `TimeoutError` after `seconds`, or `OSError` if the file cannot be created."""
        deadline = time.monotonic() + seconds
        while (file := self._locked()) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._path} is locked")
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            file.unlock()

    def close(self) -> None:
        """Close the file. A later `hold` opens it again."""
        if self._file is not None:
            self._file.raw.close()
            self._file = None

    def _locked(self) -> "OpenFile | None":
        """Return the locked file; None if another process holds it. A lock on a deleted file does not count."""
        if self._file is None:
            self._file = OpenFile.make(self._path, "a")
        try:
            self._file.lock()
        except BlockingIOError:
            return None
        if self._file.size_at(self._path) is not None:
            return self._file
        self.close()
        return self._locked()


class FolderLock:
    """A folder that one holder at a time locks, within this process and across processes. Writes no file.

    The operating system releases the lock when its holder dies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Lock the folder unless another holder has it. Return whether it is locked now. Raises `OSError`."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True

    @contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Wait for the lock. Raises `TimeoutError` after `seconds`, or `OSError` if the folder cannot be locked."""
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._folder} is locked")
            time.sleep(_FOLDER_POLL_SECONDS)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock if this object holds it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class InUse:
    """Tells other processes that this one uses a file. Writes no file; several processes may use one.

    The operating system forgets it when the process dies. Processes that code of users forks do not use the file.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def begin(self, path: Path) -> None:
        """Tell it until `end`. Without effect where the system cannot."""
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY)
            _close_in_children()
            _HELD.add(self._descriptor)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def end(self) -> None:
        if self._descriptor is not None:
            _HELD.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


_HELD: Final[set[int]] = set()
"""The descriptors by which this process uses files. The copies of a child that lives on would go on doing so."""


@cache
def _close_in_children() -> None:
    """Close them in each process that is forked from this one."""

    def close() -> None:
        while _HELD:
            os.close(_HELD.pop())

    os.register_at_fork(after_in_child=close)


def is_in_use(path: Path) -> bool:
    """Whether a process says that it uses a file, by `InUse`."""
    try:
        with path.open("rb", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@asynccontextmanager
async def hold_folder(folder: Path) -> AsyncIterator[FolderLock]:
    """Create a folder if it is missing, wait for its lock and hold it. Raises `OSError`."""
    import asyncio  # noqa: PLC0415 - already imported by code that waits; the controller of an xdist run without evals never waits

    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a short system call, like all others here
    lock = FolderLock(folder)
    while not lock.acquire():  # noqa: ASYNC110 - another process cannot notify this one
        await asyncio.sleep(_FOLDER_POLL_SECONDS)
    try:
        yield lock
    finally:
        lock.release()
