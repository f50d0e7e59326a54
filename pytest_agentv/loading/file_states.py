"""Hashes files, and tells which of them have had another content since."""

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
        self._seen: dict[Path, str] = {}
        """The hash of the content at the last look, of files that were once found to be changed."""
        self._changed: dict[Path, int] = {}
        """The moment at which a file was last found to have another content than at the look before."""
        self._moments = itertools.count(1)

    def hash(self, path: Path) -> str:
        """Return the hash of a file's content when it was first read."""
        if path not in self._hashes:
            self._stamps[path] = _stamp(path)  # before the content is read: what is written meanwhile shows then
            self._hashes[path] = _hash(path)
        return self._hashes[path]

    def moment(self) -> int:
        """Return the present moment, for `is_changed`."""
        for path in self._changed:  # one that was put back before now is unchanged from now on
            self._look(path)
        return next(self._moments)

    def is_changed(self, path: Path, since: int) -> bool:
        """Whether a hashed file has another content than when it was first read, or had one when it was seen since.

        A file that was put back since the moment counts too. One that was written with the content that it had does
        not: many programs are made anew before each case, or by each case, and are the same all the time.
        """
        self._look(path)
        return self._changed.get(path, since) > since or self._seen.get(path, self._hashes[path]) != self._hashes[path]

    def _look(self, path: Path) -> None:
        """Hash a file again if it was written: it may be a model of gigabytes."""
        stamp = _stamp(path)
        if stamp == self._stamps[path]:
            return
        self._stamps[path] = stamp
        found = _hash(path)
        if found != self._seen.get(path, self._hashes[path]):
            self._seen[path] = found
            self._changed[path] = next(self._moments)


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
