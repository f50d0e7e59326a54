"""Files that cases write and that belong to the run: a worker that got the project's files sends these home."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_agentv.executors.shipping.roots import Roots, Spot
from pytest_agentv.models.base import Record
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.defaults import CACHE_FOLDER, LOGS_FOLDER
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.runtime.files import write_atomically


@record
class SentFile(Record):
    """A text file that was written elsewhere."""

    root: str
    rest: str
    """Its place, as `Spot` has it."""
    text: str
    """Its secrets are masked."""


def written_folders(options: RunOptions, cwd: Path) -> tuple[Path, ...]:
    """Return the folders in which cases write files for the run: answers, prompts, traces, logs of agents."""
    folders = (options.dump_prompts, options.dump_traces, cwd / CACHE_FOLDER if options.cache else None)
    return (cwd / LOGS_FOLDER, *(folder for folder in folders if folder is not None))


class Outgoing:
    """Finds what is new in some folders. Any thread may use it."""

    def __init__(self, folders: Iterable[Path], roots: Roots) -> None:
        self._folders = tuple(folders)
        self._roots = roots
        self._seen: dict[str, tuple[int, int]] = {}
        self._looking = threading.Lock()
        self._new(())

    def take(self, *more: str) -> tuple[SentFile, ...]:
        """Return the files that are new, or have changed, since the last call, and `more` of them. Blocks."""
        with self._looking:
            return tuple(self._read(self._new(more)))

    def _new(self, more: Iterable[str]) -> list[str]:
        found: dict[str, tuple[int, int]] = {}
        for path in (*more, *(path for folder in self._folders for path in _files(str(folder)))):
            with suppress(OSError):
                status = os.stat(path)  # noqa: PTH116 - there may be many files
                found[path] = status.st_mtime_ns, status.st_size
        new = [path for path, state in found.items() if self._seen.get(path) != state]
        self._seen = found
        return new

    def _read(self, paths: Iterable[str]) -> Iterator[SentFile]:
        for path in paths:
            spot = self._roots.spot(path)
            with suppress(OSError):
                if spot is not None:
                    yield SentFile(spot.root, spot.rest, Path(path).read_text("utf-8", "replace"))


def write_sent(files: Iterable[SentFile], roots: Roots, masker: Masker) -> None:
    """Write files that were sent home. Raises `FileError`."""
    for file in files:
        path = roots.path(Spot(file.root, file.rest))
        if roots.spot(path) is not None:  # it lies below its root
            write_atomically(Path(path), masker.mask(file.text))


def _files(folder: str) -> Iterator[str]:
    """Yield the files below a folder, but not those that are being written."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        elif not entry.name.startswith("."):
            yield entry.path
