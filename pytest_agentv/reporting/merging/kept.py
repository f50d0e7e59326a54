"""Takes along what workers keep of runs that were killed: the run that goes on with the merged file adds it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError
from pytest_agentv.reporting.writers import kept_folder
from pytest_agentv.runtime.files import write_atomically

_CLUSTERS: Final = "clusters"
"""Names the clusters whose workers keep more, one a line."""


def kept_results(results_path: Path) -> list[Path]:
    """Return the files of the results that workers keep of a run."""
    return sorted(kept_folder(results_path).glob("*.json"))


def copy_kept(sources: Iterable[Path], out: Path) -> None:
    """Copy what workers keep of the runs of some results files to where a run finds it that goes on with another one.

    Raises `FileError`.
    """
    target = kept_folder(out)
    for folder in (kept_folder(path) for path in sources if path.absolute() != out.absolute()):
        for path in folder.glob("*.json"):
            write_atomically(target / path.name, _text(path))
        if (folder / _CLUSTERS).is_file():
            known = _text(target / _CLUSTERS) if (target / _CLUSTERS).is_file() else ""
            lines = dict.fromkeys((known + _text(folder / _CLUSTERS)).splitlines(keepends=True))
            write_atomically(target / _CLUSTERS, "".join(lines))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
