"""Copies the files beside results files that a resumed run needs, to lie beside the merged file."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError
from pytest_agentv.reporting.writers import kept_folder, unjudged_folder
from pytest_agentv.runtime.files import write_pieces_atomically

_CLUSTERS: Final = "clusters"
"""The file with the addresses of clusters whose workers keep further results, one per line."""


def kept_results(results_path: Path) -> list[Path]:
    """Return the files with results that workers kept for a run."""
    return sorted(kept_folder(results_path).glob("*.json"))


def copy_kept(sources: Sequence[Path], out: Path) -> None:
    """Copy the kept files of some results files, so that a run that resumes the merged file finds them.

    These are results that the workers of killed runs kept, and unjudged answers. Raises `FileError`.
    """
    others = [path for path in sources if _real(path) != _real(out)]
    if len(others) == len(sources):  # what lies beside `out` belongs to the file that is overwritten
        for folder in (kept_folder(out), unjudged_folder(out)):
            shutil.rmtree(folder, ignore_errors=True)
    target = kept_folder(out)
    for folder in map(kept_folder, others):
        for path in folder.glob("*.json"):
            _copy(path, target)
        if (folder / _CLUSTERS).is_file():
            known = _content(target / _CLUSTERS) if (target / _CLUSTERS).is_file() else b""
            lines = dict.fromkeys((known + _content(folder / _CLUSTERS)).splitlines(keepends=True))
            write_pieces_atomically(target / _CLUSTERS, lines)
    for folder in map(unjudged_folder, others):
        for path in folder.glob("*.json"):
            _copy(path, unjudged_folder(out))


def _real(path: Path) -> Path:
    """Return a path whose folder has one name only. The file may be a link: its kept files lie beside the link."""
    return path.parent.resolve() / path.name


def _copy(path: Path, folder: Path) -> None:
    """Copy a file byte by byte: a damaged one, which no run reads, must not keep the others from being merged."""
    write_pieces_atomically(folder / path.name, [_content(path)])


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
