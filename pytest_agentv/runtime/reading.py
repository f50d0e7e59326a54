"""Reads files that other programs wrote. They may be huge, or not regular files."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

READ_LIMIT: Final = 10 * 2**20
"""Limit in bytes of an answer in a file, the same as on standard output."""

_TYPES: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def utf8_fault(data: bytes | bytearray) -> str | None:
    """Return which byte is the first that is not UTF-8; None: all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"not UTF-8: byte 0x{data[error.start]:02x} in line {line}"
    return None


def read_regular_file(path: Path, limit: int = READ_LIMIT) -> bytes:
    """Read a regular file. Other files could block for ever or never end.

    Raises `OSError`, also for a file above the limit. Its `strerror` says what is wrong.
    """
    # Opening a named pipe blocks until somebody writes to it, unless O_NONBLOCK is set.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            what = _TYPES.get(kind, "something else")
            raise OSError(errno.EINVAL, f"it is {what}, not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit // 2**20} MiB", str(path))
    return data
