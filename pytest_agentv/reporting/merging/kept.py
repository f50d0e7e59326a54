"""Takes along what runs keep beside their results files, for the run that goes on with the merged file."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError
from pytest_agentv.reporting.writers import kept_folder, unjudged_folder
from pytest_agentv.runtime.files import write_atomically

_CLUSTERS: Final = "clusters"
"""Names the clusters whose workers keep more, one a line."""


def kept_results(results_path: Path) -> list[Path]:
    """Return the files of the results that workers keep of a run."""
    return sorted(kept_folder(results_path).glob("*.json"))


def copy_kept(sources: Sequence[Path], out: Path) -> None:
    """Copy what is kept of the runs of some results files to where a run finds it that goes on with another one.

    That is what workers keep of runs that were killed, and the answers that are not judged yet. Raises `FileError`.
    """
    target = kept_folder(out)
    for folder in (kept_folder(path) for path in sources if path.absolute() != out.absolute()):
        for path in folder.glob("*.json"):
            write_atomically(target / path.name, _text(path))
        if (folder / _CLUSTERS).is_file():
            known = _text(target / _CLUSTERS) if (target / _CLUSTERS).is_file() else ""
            lines = dict.fromkeys((known + _text(folder / _CLUSTERS)).splitlines(keepends=True))
            write_atomically(target / _CLUSTERS, "".join(lines))
    _copy_unjudged(sources, out)


def _copy_unjudged(sources: Sequence[Path], out: Path) -> None:
    others = [path for path in sources if path.absolute() != out.absolute()]
    if len(others) == len(sources):
        shutil.rmtree(unjudged_folder(out), ignore_errors=True)  # of the file that is overwritten
    for folder in map(unjudged_folder, others):
        for path in folder.glob("*.json"):
            write_atomically(unjudged_folder(out) / path.name, _text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
