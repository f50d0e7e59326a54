"""Records which clusters may keep results of a run, beside its results file and before the first job."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.runtime.files import write_atomically

_NAME: Final = "clusters"


@record
class LeftRun(Record):
    """A run on a cluster whose workers may keep results."""

    address: str
    run: str


class LeftRuns:
    """The runs of a results file that did not end normally, in a file beside other kept data."""

    def __init__(self, kept_folder: Path) -> None:
        self._path = kept_folder / _NAME

    @property
    def path(self) -> Path:
        return self._path

    def all(self) -> list[LeftRun]:
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        return list(_parsed(lines))

    def add(self, left: LeftRun) -> None:
        """Add a run before its first job. Raises `FileError`."""
        self._write([*self.all(), left])

    def remove(self, runs: Collection[str]) -> None:
        """Remove runs without kept results."""
        with suppress(OSError):
            self._write([left for left in self.all() if left.run not in runs])

    def _write(self, lefts: list[LeftRun]) -> None:
        if lefts:
            write_atomically(self._path, "".join(json.dumps(left.to_plain()) + "\n" for left in lefts))
        else:
            self._path.unlink(missing_ok=True)


def _parsed(lines: list[str]) -> Iterator[LeftRun]:
    for line in lines:
        with suppress(ValueError, TypeError):
            yield LeftRun(**json.loads(line))


def missing_text(address: str, error: ModuleNotFoundError) -> str:
    """Return the packages to install for a cluster."""
    return f"{address} needs a package that is not installed ({error.name}): pip install 'pytest-agentv[dask]'"
