"""A worker's store: a folder of its own, into which it unpacks the bundles of one run."""

import fcntl
import hashlib
import importlib
import io
import os
import shutil
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final

from pytest_agentv.executors.shipping.packing import JobRefused
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.roots import Roots
from pytest_agentv.runtime.processes.reaper import remove_at_end

_LOCK: Final = "lock"
_NEW: Final = "_"
"""The beginning of the name of a store under construction."""
_OWN: Final[set[str]] = set()
"""The names of this process's stores, which its own locks do not protect from itself."""


class Store:
    """A folder with a locked file. If the lock is free, the process of the store is dead."""

    def __init__(self, roots: Roots) -> None:
        self._known: set[str] = set()
        self._adding = threading.Lock()
        home = _home()
        _clear(home)
        self.name = uuid.uuid4().hex
        _OWN.add(self.name)
        self._folder = home / self.name
        remove_at_end(self._folder)
        self._lock = _new_folder(self._folder)
        self.roots = roots.moved_to({name: str(self._folder / name) for name, _ in roots.folders})
        for _, folder in self.roots.folders:
            Path(folder).mkdir()

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        for digest, data in parcel.bundles:
            self._add(digest, data)
        return tuple(digest for digest in parcel.needs if digest not in self._known)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()
        _OWN.discard(self.name)

    def _add(self, digest: str, data: bytes) -> None:
        """Unpack a bundle. Replaces each file in one step, because another job may be reading it."""
        with self._adding:
            if digest in self._known:
                return
            if hashlib.sha256(data).hexdigest() != digest:
                raise JobRefused(f"bundle {digest[:12]} arrived damaged")
            unpack_bundle(data, dict(self.roots.folders))
            importlib.invalidate_caches()
            self._known.add(digest)


def unpack_bundle(data: bytes, folders: Mapping[str, str]) -> None:
    """Write the files of a bundle below named folders. Raises `JobRefused` for a file outside of these."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            path = _path_of(entry.filename, folders)
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.is_dir():
                path.mkdir(exist_ok=True)
                continue
            temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
            with archive.open(entry) as source, temporary.open("xb") as target:
                shutil.copyfileobj(source, target)
            temporary.chmod(0o700 if entry.external_attr >> 16 & 0o100 else 0o600)
            temporary.replace(path)


def _path_of(name: str, folders: Mapping[str, str]) -> Path:
    root, *parts = PurePosixPath(name).parts
    if root not in folders or ".." in parts:
        raise JobRefused(f"a bundle names a file outside of the run's folders: {name}")
    return Path(folders[root], *parts)


def _home() -> Path:
    """Return the folder of this user's stores. Raises `OSError` if it belongs to another user."""
    home = Path(tempfile.gettempdir()).resolve() / f"agentv-stores-{os.getuid()}"
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    if home.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="agentv-stores-"))
    return home


def _new_folder(folder: Path) -> IO[str]:
    """Create a folder and return its locked file. It gets its final name only when it is locked."""
    new = folder.with_name(f"{_NEW}{folder.name}")
    remove_at_end(new)
    new.mkdir(mode=0o700)
    lock = (new / _LOCK).open("w", encoding="utf-8")
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder)
    return lock


def _clear(home: Path) -> None:
    """Remove the stores of dead processes without a watcher."""
    for lock in home.glob(f"[!{_NEW}]*/{_LOCK}"):
        if lock.parent.name in _OWN:
            continue
        with suppress(OSError), lock.open("a", encoding="utf-8") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
