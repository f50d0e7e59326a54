"""Locks that processes share: one cheap enough to be taken for every record, and one on a folder."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

with suppress(ImportError):
    import fcntl  # not on Windows, where commands that only read and write files work, and no run gets here

_POLL_SECONDS: Final = 0.01
"""How often a lock held by another process is asked for; an append takes far less."""
_FOLDER_POLL_SECONDS: Final = 0.05


class OpenFile:
    """An unbuffered file, with what is asked of it for every record.

    Each call of the system lets another thread have the interpreter, for milliseconds in a busy process: few are made.
    """

    def __init__(self, raw: FileIO) -> None:
        self.raw = raw
        self.descriptor = raw.fileno()
        self._opened = os.fstat(self.descriptor)

    def size_at(self, path: Path) -> int | None:
        """Return the size in bytes of the file at a path; None when another file is there, or none."""
        try:
            found = os.stat(path)  # noqa: PTH116 - pathlib takes as long again
        except FileNotFoundError:
            return None
        return found.st_size if os.path.samestat(self._opened, found) else None


class ProcessLock:
    """A file that one process at a time has locked; made by the first of them, and anew when somebody deletes it.

    The same lock as that of the package `filelock`, which takes ten times as long as it takes to write a record.
    Threads of one process need a lock of their own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: OpenFile | None = None

    @contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Wait for the lock. Raises `TimeoutError` after so many seconds, or `OSError` when there can be no file."""
        deadline = time.monotonic() + seconds
        while (file := self._locked()) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._path} is locked")
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(file.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; a later `hold` opens it again."""
        if self._file is not None:
            self._file.raw.close()
            self._file = None

    def _locked(self) -> "OpenFile | None":
        """Return the locked file, None when another has it. A file that was deleted meanwhile locks nobody out."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = OpenFile(self._path.open("ab", buffering=0))
        try:
            fcntl.flock(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if self._file.size_at(self._path) is not None:
            return self._file
        self.close()
        return self._locked()


class FolderLock:
    """A folder that one holder at a time has locked, in all processes and in this one; nothing is written for it.

    The system opens the lock when its holder dies, however that happens.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Lock the folder, unless somebody else has. Raises `OSError`."""
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

    def release(self) -> None:
        """Open the lock, if this object holds it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@asynccontextmanager
async def hold_folder(folder: Path) -> AsyncIterator[FolderLock]:
    """Wait until a folder, made if it is not there, is locked by nobody else. Raises `OSError`."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a short call, as all of this
    lock = FolderLock(folder)
    while not lock.acquire():  # noqa: ASYNC110 - another process tells nobody that it is done
        await asyncio.sleep(_FOLDER_POLL_SECONDS)
    try:
        yield lock
    finally:
        lock.release()
