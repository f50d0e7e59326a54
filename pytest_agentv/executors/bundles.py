"""Bundles: archives of folders and files, which are named relative to roots."""

import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.model.base import Json, Record
from pytest_agentv.model.options import DEFAULT_SHIP_LIMIT

# Decides which files are not shipped with their folder.

_SECRETS: Final = (
    *(".env*", "*.env", ".netrc", ".pypirc", ".npmrc", ".git-credentials", "id_rsa*", "id_ed25519*", "id_ecdsa*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", ".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".docker"),
)
"""Names of files and folders with secrets."""

_MADE: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "site-packages", "__pycache__"),
        *(".tox", ".nox", ".eggs", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store"),
        *(".ipynb_checkpoints", ".idea", "htmlcov", ".coverage"),
    )
)
"""Names of build products, and of environments, which differ by machine."""

_OURS: Final = frozenset({"results", "cache", "logs", "prompts", "traces"})
"""The names of files that runs write below `.agentv`."""

_MARKS: Final = ("pyvenv.cfg", "CACHEDIR.TAG")
"""Files that mark their folder as an environment or a cache."""


@dataclass(frozen=True, slots=True)
class ShippingRules(Record):
    """The project's rules for files that are shipped."""

    project: str = "/"
    """The folder that globs are relative to."""
    globs: tuple[str, ...] = ()
    """`agentv_ship_ignore`: globs of names or, with a slash, of paths below the project, such as `data/*.csv`."""
    written: tuple[str, ...] = ()
    """Files and folders that the run writes, absolute."""
    limit_mb: float = DEFAULT_SHIP_LIMIT
    """`agentv_ship_limit`: the most megabytes of a folder's files."""

    def keeps_home(self, path: str) -> bool:
        """Whether a file or folder is never shipped, even if a case names it: it or its link target is secret."""
        parts = self._below(path).split("/")
        if os.path.islink(path):  # noqa: PTH114 - as below
            real, project = os.path.realpath(path), os.path.realpath(self.project)
            parts += real.removeprefix(f"{project.rstrip('/')}/").split("/")  # the whole path, if it is elsewhere
        return any(map(_is_secret, parts))

    def ignores(self, path: str) -> bool:
        """Whether a file or folder in a shipped folder is left out."""
        name = os.path.basename(path)  # noqa: PTH119 - faster, for many files
        if name in _MADE or name.endswith((".pyc", ".egg-info")) or self._is_written(path, name):
            return True
        if name in _OURS and os.path.basename(os.path.dirname(path)) == ".agentv":  # noqa: PTH119, PTH120 - as above
            return True
        return self.keeps_home(path) or self._matches(path, name) or _is_marked(path)

    def _is_written(self, path: str, name: str) -> bool:
        if path in self.written:
            return True
        beside = (os.path.basename(each) for each in self.written)  # noqa: PTH119 - as above
        return name.startswith(".") and any(name.startswith(f".{each}.") for each in beside)

    def _matches(self, path: str, name: str) -> bool:
        relative = self._below(path)
        return any(fnmatchcase(relative if "/" in glob else name, glob.strip("/")) for glob in self.globs)

    def _below(self, path: str) -> str:
        """Return a path below the project. Of a path elsewhere, return the last part."""
        below = path.removeprefix(f"{self.project.rstrip('/')}/")
        return below if below != path else os.path.basename(path)  # noqa: PTH119 - as above


@lru_cache(maxsize=10_000)
def _is_secret(name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in _SECRETS)


def _is_marked(path: str) -> bool:
    return os.path.isdir(path) and any(os.path.exists(f"{path}/{mark}") for mark in _MARKS)  # noqa: PTH110, PTH112 - as above


# Named folders. Jobs and bundles name files relative to these, because their paths differ by machine.

PROJECT: Final = "project"
"""The name of the repository's folder or, without one, of the folder where pytest was started."""


@dataclass(frozen=True, slots=True)
class Spot(Record):
    """A file or folder, relative to a root."""

    root: str
    """The name of a root."""
    rest: str
    """The path below it, with slashes; empty: the root itself."""


@dataclass(frozen=True, slots=True)
class Roots(Record):
    """The paths of the named folders on one machine."""

    folders: tuple[tuple[str, str], ...] = ()
    """Each name with its absolute path; none lies within another."""

    def spot(self, path: str) -> Spot | None:
        """Return a path relative to its root; None if it is below no root."""
        for name, folder in self.folders:
            if path == folder:
                return Spot(name, "")
            if path.startswith(f"{folder}/") and "/../" not in f"{path}/":
                return Spot(name, path[len(folder) + 1 :])
        return None

    def path(self, spot: Spot) -> str:
        """Return the path of a spot on this machine. Raises `KeyError` for an unknown root."""
        folder = dict(self.folders)[spot.root]
        return f"{folder}/{spot.rest}" if spot.rest else folder

    def moved_to(self, folders: Mapping[str, str]) -> "Roots":
        """Return the same roots, with other paths for some of them."""
        return Roots(tuple((name, folders.get(name, folder)) for name, folder in self.folders))


def roots_of(folders: Iterable[Path]) -> Roots:
    """Return roots for some folders.

    The project is the first one, or the one of them that contains it. Folders inside of others need no root.
    """
    texts = [str(folder) for folder in dict.fromkeys(folders)]
    first = texts[0]
    outer = [text for text in texts if not any(text.startswith(f"{other.rstrip('/')}/") for other in texts)]
    outer.sort(key=lambda text: not f"{first}/".startswith(f"{text.rstrip('/')}/"))
    names = (PROJECT, *(f"{PROJECT}-{number}" for number in range(2, len(outer) + 1)))
    return Roots(tuple(zip(names, (text.rstrip("/") for text in outer), strict=True)))


class Translation:
    """Replaces paths of one machine by those of another in all texts of plain data."""

    def __init__(self, paths: Mapping[str, str], programs: Mapping[str, str] | None = None) -> None:
        """Prepare a translation. `programs` are replaced only if they are the whole text, as words of a command are."""
        self._paths = {here: there for here, there in paths.items() if here and here != there}
        self._programs = {here: there for here, there in (programs or {}).items() if here != there}
        longest_first = sorted(map(re.escape, self._paths), key=len, reverse=True)
        # `/app` is meant in `file:///app/x`, and not in `/app-2` or in `/data/app`.
        self._pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?![\w-]|\.\w)")

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._paths[match[0]], text) if self._paths else text

    def plain(self, value: Json) -> Any:
        if not self._paths and not self._programs:
            return value
        if isinstance(value, str):
            return self._programs.get(value) or self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.plain(item) for key, item in value.items()}
        return [self.plain(item) for item in value] if isinstance(value, list | tuple) else value


# Makes bundles: archives of folders and files. Equal files give equal archives.

_MEGABYTE: Final = 1_000_000
_SHOWN: Final = 5
"""How many of the largest files a message names."""
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_QUICK: Final = 1


class BundleTooLarge(AgentvError):
    """The files of a folder exceed the limit for shipping."""


@dataclass(frozen=True, slots=True)
class Bundle(Record):
    """An archive with its digest."""

    digest: str
    """The SHA-256 of the data, in hexadecimal."""
    data: bytes


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    path: str
    size: int
    is_program: bool = False
    is_folder: bool = False


def make_bundle(places: Sequence[str], roots: Roots, rules: ShippingRules) -> Bundle:
    """Return the bundle of some absolute folders with their content, and of files.

    Entries are named by root and relative path, sorted, without times and owners. Links are replaced by their targets.
    Raises `BundleTooLarge`.
    """
    entries = sorted({entry.name: entry for place in places for entry in _entries(place, roots, rules)}.items())
    _check_size(places, [entry for _, entry in entries], rules)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_QUICK) as archive:
        for _, entry in entries:
            _write(archive, entry)
    data = buffer.getvalue()
    return Bundle(hashlib.sha256(data).hexdigest(), data)


def _write(archive: zipfile.ZipFile, entry: _Entry) -> None:
    info = zipfile.ZipInfo(f"{entry.name}/" if entry.is_folder else entry.name, _NO_TIME)
    info.create_system = 3  # the mode below is that of Unix
    info.external_attr = (0o700 if entry.is_program or entry.is_folder else 0o600) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    try:
        content = b"" if entry.is_folder else Path(entry.path).read_bytes()
    except OSError:
        return  # it was deleted, or cannot be read
    archive.writestr(info, content)


def _entries(place: str, roots: Roots, rules: ShippingRules) -> Iterator[_Entry]:
    spot = roots.spot(place)
    if spot is None or rules.keeps_home(place):
        return
    name = f"{spot.root}/{spot.rest}".rstrip("/")
    if os.path.isdir(place):  # noqa: PTH112 - plain functions are faster for many files
        yield from _walk(place, name, rules, frozenset())
    else:
        yield from _file(place, name, rules)


def _walk(folder: str, name: str, rules: ShippingRules, above: frozenset[str]) -> Iterator[_Entry]:
    """Yield the files in a folder. `above` are the real paths of its parents, to stop at loops of links."""
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    is_empty = True
    for entry in found:
        if rules.ignores(entry.path):
            continue
        is_empty = False
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _walk(entry.path, inner, rules, above | {real})
        else:
            yield from _file(entry.path, inner, rules)
    if is_empty:
        yield _Entry(name, folder, 0, is_folder=True)


def _file(path: str, name: str, rules: ShippingRules) -> Iterator[_Entry]:
    if rules.keeps_home(path):
        return
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return
    if stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK):
        yield _Entry(name, path, found.st_size, is_program=bool(found.st_mode & stat.S_IXUSR))


def _check_size(places: Sequence[str], entries: Iterable[_Entry], rules: ShippingRules) -> None:
    by_size = sorted(entries, key=lambda entry: -entry.size)
    size = sum(entry.size for entry in by_size)
    if size <= rules.limit_mb * _MEGABYTE:
        return
    largest = ", ".join(f"{entry.name.partition('/')[2]} ({_megabytes(entry.size)})" for entry in by_size[:_SHOWN])
    where = places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
    message = (
        f"{where}: {_megabytes(size)} in {len(by_size)} files are to be shipped to workers, and the limit is "
        f"{rules.limit_mb:g} MB; the largest: {largest}; name what is not needed in agentv_ship_ignore, raise "
        "--agentv-ship-limit, or use --agentv-ship=none where workers see the files"
    )
    raise BundleTooLarge(message)


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB"
