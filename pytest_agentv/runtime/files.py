"""Writes files safely: appends whole records under a lock between processes, and replaces texts in one step.

There is no fsync. Written data survives a crash of the process, but not of the machine.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import FileIO
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError, locate
from pytest_agentv.runtime.locks import OpenFile, ProcessLock

_TEMPORARY: Final = ".agentv-"
_LEFT_SECONDS: Final = 3600.0
"""No write takes so long. Older leftovers are from killed processes."""
_LOCK_SECONDS: Final = 30.0
"""A process that holds the lock for longer hangs. The run must not hang with it."""


_LISTENER: Final[ContextVar[Callable[[Path], None] | None]] = ContextVar("agentv_written_files", default=None)


def listen_to_writing(listener: Callable[[Path], None]) -> None:
    """Call a function for each file that the current task, or its subtasks and threads, write.

    It may run in any thread.
    """
    _LISTENER.set(listener)


def tell_of_written(path: Path) -> None:
    """Call the listener, if there is one, for a complete file."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(path)


class LockedAppender:
    """Appends whole records to a file to which other threads and processes append too.

    The first record creates the file, its folder and the lock beside it (`.<name>.lock`). If somebody deletes the
    file, the next record creates it again with its old content. If a writer died within a line, the next record
    starts on a new line.

    Source: delta-parallel-2025-11, "Thread-Safe Output Writing".
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = lock_of(path)
        self._thread_lock = threading.Lock()
        self._process_lock = ProcessLock(self._lock_path)
        self._file: OpenFile | None = None
        self._end: int | None = None
        """The offset at which the last record ended."""

    def append(self, data: bytes) -> None:
        """Append one or more records at once. Each record ends with a newline.

        Raises `FileError` with path and reason. The file then holds no part of `data`, and the lock is free.
        """
        with self._writing():
            self._append(data)

    def probe(self) -> None:
        """Check that the file can be appended to, and leave it as it is. Raises like `append`.

        Opening a file on a full device succeeds, so this writes a newline and removes it from a regular file.
        """
        with self._writing():
            file, end = self._open()
            _append_whole(file.raw, end, b"\n")
            if file.is_regular:
                file.raw.truncate(end)

    def rewrite(self, pieces: Callable[[], Iterable[bytes]]) -> None:
        """Replace the whole file in one step, while nobody appends to it. Raises like `append`; so may `pieces`.

        The appenders of other threads and processes go on with the new file.
        """
        with self._writing():
            write_pieces_atomically(self._path, pieces())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the locks. Turns errors within the block into `FileError`."""
        try:
            with self._thread_lock, self._process_lock.hold(_LOCK_SECONDS):
                yield
        except TimeoutError as error:
            reason = f"its lock {locate(self._lock_path, None)} could not be taken within {_LOCK_SECONDS:g} s"
            raise FileError(self._path, f"cannot be written: {reason}") from error
        except OSError as error:
            raise _write_error(self._path, error) from error

    def close(self) -> None:
        """Close the file. A later `append` opens it again."""
        with self._thread_lock:
            self._process_lock.close()
            if self._file is not None:
                self._file.raw.close()
                self._file = None

    def _append(self, data: bytes) -> None:
        file, end = self._open()
        # A writer that appended part of a line moved the end.
        if end != self._end and _is_torn(file.raw, end):
            data = b"\n" + data
        self._end = _append_whole(file.raw, end, data)

    def _open(self) -> tuple[OpenFile, int]:
        """Return the open file and its size."""
        if self._file is None:
            self._file = OpenFile.make(self._path, "a+")
        end = self._file.size_at(self._path)
        if end is None:
            self._file, end = _replace_file(self._file, self._path)
            self._end = None
        return self._file, end


def lock_of(path: Path) -> Path:
    """Return the lock that a `LockedAppender` makes beside its file."""
    return path.with_name(f".{path.name}.lock")


def write_atomically(path: Path, text: str) -> None:
    """Write a text as UTF-8 in one step: readers see the old file or the new one, never a part. Creates parents.

    An existing file keeps its mode, and a link to it stays a link.
    Raises `FileError` with path and reason. The old file is then unchanged.
    """
    write_pieces_atomically(path, (text.encode(),))


def write_pieces_atomically(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file as `write_atomically` does, piece by piece. What `pieces` raises leaves the old file unchanged.

    A device or a pipe is written into: nothing may take its place.
    """
    temporary: Path | None = None
    try:
        if _is_device(path):
            path.write_bytes(b"".join(pieces))
            return
        real = path.resolve() if path.is_symlink() else path
        temporary = real.with_name(f"{_TEMPORARY}{os.urandom(8).hex()}.tmp")
        real.parent.mkdir(parents=True, exist_ok=True)
        _write_new(temporary, pieces, mode=_mode(real))
        temporary.replace(real)
        tell_of_written(path)
    except (OSError, RuntimeError) as error:  # the latter for a loop of links
        raise _write_error(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove what `write_atomically` left in a folder if its process was killed before the last step.

    A writer cannot do so itself. Files that may still be written stay.
    """
    with suppress(OSError):
        for path in folder.glob(f"{_TEMPORARY}{'[0-9a-f]' * 16}.tmp"):
            if path.stat().st_mtime < time.time() - _LEFT_SECONDS:
                path.unlink()


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _mode(path: Path) -> int | None:
    """Return the permissions of a file; None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _write_new(path: Path, pieces: Iterable[bytes], mode: int | None) -> None:
    """Write a new file. With a `mode`, nobody else can read the file until it has that mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
        file.writelines(pieces)
    if mode is not None:
        path.chmod(mode)


def _append_whole(file: FileIO, end: int, data: bytes) -> int:
    """Append at the known end of a file and return the new end."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:  # a full disk, or Ctrl-C between two writes: remove the partial record
        with suppress(OSError):
            file.truncate(end)
        raise
    return end + len(data)


def _replace_file(old: OpenFile, path: Path) -> tuple[OpenFile, int]:
    """Open the file that is at a path now, and return it with its size.

    If the old file was deleted, its open handle still has the records; this writes them again.
    """
    file = FileIO(path, "a+")
    try:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            old.raw.seek(0)
            end = _append_whole(file, end, old.raw.read())
    except BaseException:
        file.close()
        raise
    old.raw.close()
    return OpenFile(file), end


def _is_torn(file: FileIO, end: int) -> bool:
    if end == 0:
        return False
    file.seek(end - 1)
    return file.read(1) != b"\n"


def _write_error(path: Path, error: OSError | RuntimeError) -> FileError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # by mkdir
        reason = f"{error.filename} is a file, not a folder"
    return FileError(path, f"cannot be written: {reason}")
