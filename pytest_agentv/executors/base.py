"""The messages between the process of the run and its workers: their format, jobs, parcels, files that come back."""

import io
import json
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PosixPath
from typing import Any, Final, Protocol

from pytest_agentv.engine.pool import UnjudgedFolders
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.bundles import Roots, Spot
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.options import CACHE_FOLDER, LOGS_FOLDER
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.runtime.files import write_atomically

# Packs objects with paths relative to roots. Unpacked elsewhere, they have the paths of that machine.

_PROTOCOL: Final = 5
_PYTHON: Final = "python"
"""Replaces the interpreter, whose path differs by machine."""
NO_ROOTS: Final = Roots()


class JobRefused(AgentvError):
    """A job did not start in the worker, so nothing was paid for."""


def pack(value: object, roots: Roots = NO_ROOTS) -> bytes:
    """Return an object as bytes. Texts and `Path`s below a root are packed without absolute paths.

    Raises `JobRefused` for objects that exist only in this process.
    """
    file = io.BytesIO()
    try:
        _Packer(file, roots).dump(value)
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error
    return file.getvalue()


def unpack(data: bytes, roots: Roots = NO_ROOTS) -> Any:
    """Return a packed object, with the paths of this machine.

    Raises `JobRefused` if one of its classes cannot be imported here.
    """
    try:
        return _Unpacker(io.BytesIO(data), roots).load()
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, roots: Roots) -> None:
        super().__init__(file, _PROTOCOL)
        self._roots = roots

    def persistent_id(self, value: Any) -> tuple[str, str, bool] | None:
        """Return the replacement of a path; None: pack the value unchanged. Called for every object."""
        kind = type(value)
        if kind is str:
            if value[:1] != "/":
                return None
        elif kind is not PosixPath:
            return None
        text = str(value)
        if self._roots.folders and text == sys.executable:
            return _PYTHON, "", kind is PosixPath
        spot = self._roots.spot(text)
        return None if spot is None else (spot.root, spot.rest, kind is PosixPath)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, roots: Roots) -> None:
        super().__init__(file)
        self._roots = roots

    def persistent_load(self, pid: tuple[str, str, bool]) -> str | Path:
        root, rest, is_path = pid
        text = sys.executable if root == _PYTHON else self._roots.path(Spot(root, rest))
        return Path(text) if is_path else text


# Files that cases write for the run. A worker that got the project's files sends these back.


@dataclass(frozen=True, slots=True)
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


# The messages between the process of the run and its workers.


class WorkerLost(AgentvError):
    """A worker ended, or its executor broke, before it replied to a job."""


class ExecutorLost(WorkerLost):
    """No worker can be reached any more, so the run must end."""


@dataclass(frozen=True, slots=True)
class Setup(Record):
    """The facts that a worker needs about a run. Its only secret is `passed`: a worker has its own `.env`.

    All paths are those of the process of the run.
    """

    options: RunOptions
    repo_root: Path
    cwd: Path
    shared_folder: Path
    """Where the processes of the run share health checks and warnings."""
    kept_folder: Path
    """Where results are kept until the run has written them."""
    import_path: tuple[str, ...] = ()
    """The folders that the process of the run imports modules from."""
    log_levels: dict[str, int] = field(default_factory=dict)
    """The levels of loggers by name. The root logger has an empty name."""
    roots: Roots = NO_ROOTS
    """The folders that paths in jobs are relative to."""
    ships: bool = False
    """Whether workers get the files of the cases; False: they have them, in the same folders or elsewhere."""
    process: str = ""
    """The process of the run, by `process_name`. It has the files."""
    is_here: bool = True
    """Whether the worker has the interpreter and the packages of the run."""
    python: str = sys.executable
    """The interpreter of the run, which records name."""
    keeps: bool = True
    """Whether the worker keeps results until the run has written them."""
    unjudged: UnjudgedFolders | None = None
    """Where answers are kept until they are judged."""
    results: Path | None = None
    """The results file. If it exists and the folder of kept results does not, the run is over."""
    own_providers: tuple[str, ...] = ()
    """The names of the project's kinds of targets.

    Workers know only the names: cases that need these kinds stay at home.
    """
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of `--agentv-pass-env`, which are secrets."""

    def is_seen(self) -> bool:
        """Whether this machine sees the folder of the run's results.

        On another machine, nobody looks for a kept result.
        """
        return self.kept_folder.is_dir() or (self.results is not None and self.results.exists())


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """The reply of a worker to a job, with secrets masked."""

    result: JsonObject | None = None
    """The keys of the result; None: the job was cancelled or refused."""
    refused: str | None = None
    """Why the job did not start, so that the process of the run must run it."""
    missing: tuple[str, ...] = ()
    """The digests of bundles that the worker lacks, so that the job did not start."""
    worker: str = ""
    """The name of the worker."""
    fault: str | None = None
    """Why no such worker can start the job."""
    log: tuple[str, ...] = ()
    """The lines that the case logged."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """What the case printed, by the name of the stream."""
    warnings: tuple[JsonObject, ...] = ()
    """The keys of `Problem`s that the worker found."""
    stop_reason: str | None = None
    """Why the whole run must end: a target is unhealthy."""
    files: tuple[SentFile, ...] = ()
    """The files that cases have written for the run, if the worker does not see its folders."""

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_plain(), ensure_ascii=True).encode()

    @staticmethod
    def from_bytes(data: bytes) -> "Reply":
        values: dict[str, Json] = json.loads(data)
        lists = {name: tuple(values.get(name, ())) for name in ("missing", "log", "warnings")}
        files = tuple(SentFile(**each) for each in values.get("files", ()))
        return Reply(**{**values, **lists, "files": files})


class CaseExecutor(Protocol):
    """Runs jobs elsewhere. Used on the run's event loop."""

    @property
    def name(self) -> str:
        """The name on the terminal."""

    @property
    def processes(self) -> int:
        """How many processes run cases: as many cases at a time, unless the run or a target sets a limit.

        A process runs 50 cases at a time at most.
        """

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        """Send a packed `Parcel` to a worker. A cancelled call returns when the job has ended.

        If the executor can choose, all messages under one ticket go to the same worker: the job, missing files, and the
        job again. Raises `WorkerLost` or `JobRefused`.
        """

    def written(self, ticket: str) -> None:
        """Note that the results file holds a result. A worker that keeps it on another machine then drops it."""

    async def close(self) -> None:
        """End all jobs and their processes."""


# The format of messages between a run and its worker processes: a length, a word, a ticket and bytes.

_HEAD: Final = struct.Struct(">IQ")
"""The length of the header and the length of the body, in bytes."""


@dataclass(frozen=True, slots=True)
class Frame(Record):
    """One message."""

    word: str
    """`setup`, `job` and `cancel` go to the worker; `ready` and `reply` come from it; `probe` and `probed` are those
    of health checks. A worker of a cluster is also told what is `written`, and says which job is `lost`."""
    ticket: str = ""
    body: bytes = b""

    def to_bytes(self) -> bytes:
        header = json.dumps([self.word, self.ticket]).encode()
        return _HEAD.pack(len(header), len(self.body)) + header + self.body


class FrameReader:
    """Joins chunks of any size to frames."""

    def __init__(self, take: Callable[[Frame], None]) -> None:
        self._take = take
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._data += chunk
        while len(self._data) >= _HEAD.size:
            header, body = _HEAD.unpack_from(self._data)
            end = _HEAD.size + header + body
            if len(self._data) < end:
                return
            start = _HEAD.size + header
            word, ticket = json.loads(self._data[_HEAD.size : start])
            frame = Frame(word, ticket, bytes(self._data[start:end]))
            del self._data[:end]
            self._take(frame)


# A message to an executor: a job, its needs, and files that the worker lacks.


@dataclass(frozen=True, slots=True)
class Parcel(Record):
    """One message to a worker."""

    job: bytes | None = None
    """A packed `CaseJob`; None: the parcel only brings bundles."""
    probe: Spot | None = None
    """The eval file. A worker that gets no bundles looks for it."""
    needs: tuple[str, ...] = ()
    """The digests of the bundles that hold the job's files."""
    bundles: tuple[tuple[str, bytes], ...] = ()
    """The missing bundles, as digests with bytes."""

    def to_bytes(self) -> bytes:
        return pack(self)

    @staticmethod
    def from_bytes(data: bytes) -> "Parcel":
        """Unpack a parcel. Raises `JobRefused`."""
        parcel: Parcel = unpack(data)
        return parcel
