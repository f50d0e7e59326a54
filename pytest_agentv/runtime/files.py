"""Writes files safely, under locks between processes, and reads what other programs wrote."""

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from pytest_agentv.errors import NO_REGULAR_FILE, FileError, locate

# Locks between processes: a file lock that is cheap enough for every record, and a folder lock.

with suppress(ImportError):
    import fcntl  # missing on Windows, where evals cannot run, but commands may still read and write files

    _flock, _TAKE, _FREE = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN


_POLL_SECONDS: Final = 0.01
"""Interval between attempts to take a lock that another process holds. An append takes far less."""


class OpenFile:
    """An unbuffered file with the operations that every record needs.

    It makes few system calls, because each can hand the interpreter to another thread. All are those of the system: a
    test may have put a file system of its own in place of `os`, `io` and `pathlib`. `FileIO` opens a path itself.
    """

    _fstat, _stat, _samestat = staticmethod(os.fstat), staticmethod(os.stat), staticmethod(os.path.samestat)
    _makedirs, unlink = staticmethod(os.makedirs), staticmethod(os.unlink)

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

    def size_at(self, path: Path) -> int | None:
        """Return the size in bytes of this file at a path; None if the path is missing or is another file."""
        try:
            found = self._stat(path)
        except FileNotFoundError:
            return None
        return found.st_size if self._samestat(self._opened, found) else None


class ProcessLock:
    """A file that one process at a time locks. The last one that closes it removes it. Threads need another lock."""

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
            _flock(file.descriptor, _FREE)

    def close(self) -> None:
        """Close the file, and remove it unless another process holds it. A later `hold` creates it again."""
        if self._file is not None:
            with suppress(OSError):
                _flock(self._file.descriptor, _TAKE)
                if self._file.size_at(self._path) is not None:
                    self._file.unlink(self._path)
            self._file.raw.close()
            self._file = None

    def _locked(self) -> "OpenFile | None":
        """Return the locked file; None if another process holds it. A lock on a deleted file does not count."""
        if self._file is None:
            self._file = OpenFile.make(self._path, "a")
        try:
            _flock(self._file.descriptor, _TAKE)
        except BlockingIOError:
            return None
        if self._file.size_at(self._path) is not None:
            return self._file
        self.close()
        return self._locked()


def flocked(path: Path, *, is_shared: bool = False) -> int | None:
    """Lock an existing file or folder, and return its descriptor; None: another holder has it. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX))
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


class InUse:
    """Keeps other processes from locking a file that this one uses. Several processes may use one."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def begin(self, path: Path) -> None:
        """Tell it until `end`. Without effect where the system cannot."""
        with suppress(OSError):
            self._descriptor = flocked(path, is_shared=True)

    def end(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


# Writing. There is no fsync: written data survives a crash of the process, but not of the machine.

_LOCK_SECONDS: Final = 30.0
"""A process that holds the lock for longer hangs. The run must not hang with it."""


class LockedAppender:
    """Appends whole records to a file to which other threads and processes append too.

    If somebody deletes the file, the next record creates it again with its old content. If a writer died within a
    line, the next record starts on a new line. Source: delta-parallel-2025-11, "Thread-Safe Output Writing".
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = path.with_name(f".{path.name}.lock")
        self._thread_lock = threading.Lock()
        self._process_lock = ProcessLock(self._lock_path)
        self._file: OpenFile | None = None
        self._end: int | None = None
        """The offset at which the last record ended."""

    def append(self, data: bytes) -> None:
        """Append whole records at once. After an error (`FileError`), the file holds no part of `data`."""
        with self._writing():
            file, end = self._open()
            if end not in (0, self._end):  # a writer that appended part of a line moved the end
                file.raw.seek(end - 1)
                if file.raw.read(1) != b"\n":
                    data = b"\n" + data
            self._end = _append_whole(file.raw, end, data)

    def probe(self) -> None:
        """Check that the file can be appended to, by a newline that is removed again. Raises like `append`."""
        with self._writing():
            file, end = self._open()
            _append_whole(file.raw, end, b"\n")
            with suppress(OSError):  # a device or a pipe
                file.raw.truncate(end)

    def rewrite(self, pieces: Callable[[], Iterable[bytes]]) -> None:
        """Replace the whole file in one step, while nobody appends to it. Raises like `append`; so may `pieces`."""
        with self._writing():
            write_pieces_atomically(self._path, pieces())

    def close(self) -> None:
        """Close the file. A later `append` opens it again."""
        with self._thread_lock:
            self._process_lock.close()
            if self._file is not None:
                self._file.raw.close()
                self._file = None

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

    def _open(self) -> tuple[OpenFile, int]:
        if self._file is None:
            self._file = OpenFile.make(self._path, "a+")
        end = self._file.size_at(self._path)
        if end is None:
            self._file, end = _replace_file(self._file, self._path)
            self._end = None
        return self._file, end


def _replace_file(old: OpenFile, path: Path) -> tuple[OpenFile, int]:
    """Open the file that is at a path now, with its size; into a new one, write the records of a deleted one again."""
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


def _append_whole(file: FileIO, end: int, data: bytes) -> int:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:  # a full disk, or Ctrl-C between two writes: remove the partial record
        with suppress(OSError):
            file.truncate(end)
        raise
    return end + len(data)


def write_atomically(path: Path, text: str) -> None:
    """Write a text as UTF-8 in one step, never a part, and keep mode and link. Raises `FileError`."""
    write_pieces_atomically(path, (text.encode(),))


def write_pieces_atomically(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file as `write_atomically` does, piece by piece. A device or a pipe is written into."""
    temporary: Path | None = None
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(b"".join(pieces))
            return
        real = path.resolve() if path.is_symlink() else path
        temporary = real.with_name(f".agentv-{os.urandom(8).hex()}.tmp")
        real.parent.mkdir(parents=True, exist_ok=True)
        mode: int | None = None
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(real.stat().st_mode)
        # Nobody else can read the file until it has the mode of the old one.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.writelines(pieces)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(real)
    except (OSError, RuntimeError) as error:  # the latter for a loop of links
        raise _write_error(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


def _write_error(path: Path, error: OSError | RuntimeError) -> FileError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # by mkdir
        reason = f"{error.filename} is a file, not a folder"
    return FileError(path, f"cannot be written: {reason}")


# Reading files that other programs wrote. They may be huge, or not regular files.

READ_LIMIT: Final = 10 * 2**20
"""Limit in bytes of an answer in a file, the same as on standard output."""


def utf8_fault(data: bytes | bytearray) -> str | None:
    """Return which byte is the first that is not UTF-8; None: all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"not UTF-8: byte 0x{data[error.start]:02x} in line {line}"
    return None


def read_regular_file(path: Path, limit: int = READ_LIMIT) -> bytes:
    """Read a regular file. Raises `OSError`, also for any other, which may have no end."""
    # Opening a named pipe blocks until somebody writes to it, unless O_NONBLOCK is set.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, NO_REGULAR_FILE, str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit // 2**20} MiB", str(path))
    return data
