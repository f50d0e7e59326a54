"""Gives a worker the files of a run: in the folders of the run, or in its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.roots import PROJECT, Roots, Spot


class FilesAbsent(AgentvError):
    """The worker cannot see the files of the run."""


class Site(Protocol):
    """The place of a run's files on a worker."""

    @property
    def name(self) -> str:
        """The unique name of the worker."""

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        """Unpack the bundles of a parcel. Return the digests of bundles that are still missing. Blocks.

        Raises `FilesAbsent`.
        """

    @property
    def roots(self) -> Roots:
        """The folders on this machine, known after the first `take` without missing bundles."""

    def close(self) -> None:
        """Remove the unpacked files."""


class SeenFiles:
    """Files that exist already: on the run's machine, on a shared file system, or in an image."""

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
        """Return the roots that have a file of the run."""
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
