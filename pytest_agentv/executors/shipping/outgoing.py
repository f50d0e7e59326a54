"""Files that cases write for the run. A worker that got the project's files sends these back."""

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
    """A text file written by a worker."""

    root: str
    rest: str
    """Its path below the root, as in `Spot`."""
    text: str
    """The text, with its secrets masked."""


def written_folders(options: RunOptions, cwd: Path) -> tuple[Path, ...]:
    """Return the folders in which cases write files for the run: answers, prompts, traces, logs of agents."""
    folders = (options.dump_prompts, options.dump_traces, cwd / CACHE_FOLDER if options.cache else None)
    return (cwd / LOGS_FOLDER, *(folder for folder in folders if folder is not None))


class Outgoing:
    """Collects the files that are written into some folders. Any thread may use it."""

    def __init__(self, folders: Iterable[Path], roots: Roots) -> None:
        self._folders = tuple(folders)
        self._roots = roots
        self._lock = threading.Lock()
        self._written: dict[Path, None] = {}

    def note(self, path: Path) -> None:
        """Note a complete file. Files in other folders are not sent back."""
        if any(path.is_relative_to(folder) for folder in self._folders):
            with self._lock:
                self._written[path] = None

    def take(self) -> tuple[Path, ...]:
        """Return the files noted since the last call."""
        with self._lock:
            found, self._written = self._written, {}
        return tuple(found)

    def read(self, paths: Iterable[Path]) -> Iterator[SentFile]:
        """Yield files in the form in which they are sent. Skips unreadable ones. Blocks."""
        for path in paths:
            spot = self._roots.spot(str(path))
            with suppress(OSError):
                if spot is not None:
                    yield SentFile(spot.root, spot.rest, path.read_text("utf-8", "replace"))


def write_sent(files: Iterable[SentFile], roots: Roots, masker: Masker) -> None:
    """Write files that workers sent back. Raises `FileError`."""
    for file in files:
        path = roots.path(Spot(file.root, file.rest))
        if roots.spot(path) is not None:  # it lies below its root
            write_atomically(Path(path), masker.mask(file.text))
