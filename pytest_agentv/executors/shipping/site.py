"""Where the files of a run lie for a worker that gets none: in the same folders as for the run, or in its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.roots import PROJECT, Roots, Spot


class FilesAbsent(AgentvError):
    """The worker does not see the files of the run."""


class Site(Protocol):
    """Where a worker has the files of a run."""

    @property
    def name(self) -> str:
        """Tells it from those of other workers."""

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        """Take in what a parcel brings, and return the digests of the bundles that are still missing. Blocks.

        Raises `FilesAbsent`.
        """

    @property
    def roots(self) -> Roots:
        """The folders here, known after the first `take` that misses nothing."""

    def close(self) -> None:
        """Remove what was taken in."""


class SeenFiles:
    """Files that are there without our doing: on the machine of the run, on a shared file system, in an image."""

    name = ""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self._is_found = False
        self._cwd = Path.cwd()

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        if not self._is_found and parcel.probe is not None:
            self.roots = self._find(parcel.probe)
            self._is_found = True
        return ()

    def close(self) -> None:
        pass

    def _find(self, probe: Spot) -> Roots:
        """Return the roots below which a file of the run lies."""
        found = next((roots for roots in self._candidates() if os.path.exists(roots.path(probe))), None)  # noqa: PTH110
        if found is None:
            message = (
                f"this worker does not see the project: {probe.rest} is neither in the folder of the run nor in "
                f"{self._cwd} or above it; start workers in the project's folder, or ship it with --agentv-ship=bundle"
            )
            raise FilesAbsent(message)
        return found

    def _candidates(self) -> Iterator[Roots]:
        yield self.roots
        for folder in (self._cwd, *self._cwd.parents):
            yield self.roots.moved_to({PROJECT: str(folder)})
