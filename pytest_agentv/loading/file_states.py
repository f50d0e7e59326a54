"""Hashes files, and tells which of them somebody has written since."""

import hashlib
import itertools
from pathlib import Path
from typing import Final, TypeAlias

_UNREADABLE: Final = "unreadable"

_Stamp: TypeAlias = tuple[int, ...] | None
"""What changes when a file is written; None: the file is missing."""


class FileStates:
    """The contents of files when they were first read, each once per run."""

    def __init__(self) -> None:
        self._hashes: dict[Path, str] = {}
        self._stamps: dict[Path, _Stamp] = {}
        self._changed: dict[Path, int] = {}
        """The moment at which a file was last found to be written."""
        self._moments = itertools.count(1)

    def hash(self, path: Path) -> str:
        """Return the hash of a file's content when it was first read."""
        if path not in self._hashes:
            self._stamps[path] = _stamp(path)  # before the content is read: what is written meanwhile shows then
            self._hashes[path] = _hash(path)
        return self._hashes[path]

    def moment(self) -> int:
        """Return the present moment, for `is_changed`."""
        return next(self._moments)

    def is_changed(self, path: Path, since: int) -> bool:
        """Whether a hashed file has another content than when it was first read, or was written since a moment.

        A file that was written and put back since may have had any content in between.
        """
        stamp = _stamp(path)
        if stamp != self._stamps[path]:
            self._stamps[path] = stamp
            self._changed[path] = self.moment()
        changed = self._changed.get(path)
        return changed is not None and (changed > since or _hash(path) != self._hashes[path])


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return _UNREADABLE
