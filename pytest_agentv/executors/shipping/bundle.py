"""Makes bundles: archives of folders and files. Equal files give equal archives."""

import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.ignoring import ShippingRules
from pytest_agentv.executors.shipping.roots import Roots
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

_MEGABYTE: Final = 1_000_000
_SHOWN: Final = 5
"""How many of the largest files a message names."""
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_QUICK: Final = 1


class BundleTooLarge(AgentvError):
    """The files of a folder exceed the limit for shipping."""


@record
class Bundle(Record):
    """An archive with its digest."""

    digest: str
    """The SHA-256 of the data, in hexadecimal."""
    data: bytes


@record
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
