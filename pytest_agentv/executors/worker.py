"""Runs the jobs of a run in a worker of an executor: the worker calls `run_job`."""

import io
import json
import logging
import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from pathlib import Path, PosixPath
from typing import Any, Final

from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.dumps import STREAMS, CaseHandler, CaseLog, CaseStream, current_log
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.store.answers import JobStore
from pytest_agentv.store.writers import recordable

# What the process of the run and its workers send each other.


class JobRefused(AgentvError):
    """A job did not start in a worker, so nothing was paid for: it runs in the process of the run."""


class WorkerLost(AgentvError):
    """A worker ended before it replied to a job."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of an executor, for the process of the run."""

    name: str
    """The name on the terminal."""
    slots: int
    """How many cases run at a time, unless the run or a target sets a limit."""
    submit: Callable[[bytes], "Future[bytes]"]
    """Sends a packed job to a worker. Its future has the bytes of a `Reply`."""
    close: Callable[[], object]
    """Ends all jobs. Blocks."""


@dataclass(frozen=True, slots=True)
class Setup(Record):
    """The facts that a worker needs about a run. No secret is among them: a worker has its own variables."""

    name: str
    """The unique name of this run in its process."""
    options: RunOptions
    repo_root: Path
    cwd: Path
    shared_folder: Path
    """Where the processes of one machine share health checks and warnings."""
    import_path: tuple[str, ...] = ()
    """The folders that the process of the run imports modules from."""
    log_levels: dict[str, int] = field(default_factory=dict)
    """The levels of loggers by name. The root logger has an empty name."""
    own_providers: tuple[str, ...] = ()
    """The names of the project's kinds of targets. Cases that need them stay in the process of the run."""
    process: str = ""

    @property
    def mark(self) -> Path:
        """A file that is there when the run is over."""
        return self.shared_folder / f"over-{self.name}"

    def to_bytes(self) -> bytes:
        return pickle.dumps((self.name, str(self.repo_root), pack(self, self.repo_root)))


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """The reply of a worker to a job, with secrets masked."""

    record: JsonObject | None = None
    """The keys of the result; None: the job was cancelled or refused."""
    log: tuple[str, ...] = ()
    printed: Mapping[str, str] = field(default_factory=dict)
    """What the case printed, by the name of the stream."""
    warnings: tuple[JsonObject, ...] = ()
    """The keys of `Problem`s that the worker found."""
    rows: tuple[Sequence[Json], ...] = ()
    """What it has paid for, for the store of the run."""
    stop_reason: str | None = None
    """Why the whole run must end: a target is unhealthy."""
    refused: str | None = None
    """Why the job did not start, so that the process of the run must run it."""

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_plain()).encode()


_PYTHON: Final = None
"""Replaces the interpreter, whose path differs by machine."""


def pack(value: object, root: Path) -> bytes:
    """Return an object as bytes, with texts and `Path`s below a root relative to it.

    Raises `JobRefused` for objects that exist only in this process.
    """
    file = io.BytesIO()
    try:
        _Packer(file, str(root)).dump(value)
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error
    return file.getvalue()


def unpack(data: bytes, root: str) -> Any:
    """Return a packed object, with the paths of this machine. Raises `JobRefused` if a class cannot be imported."""
    try:
        return _Unpacker(io.BytesIO(data), root).load()
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, root: str) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._root = root

    def persistent_id(self, value: Any) -> tuple[str | None, bool] | None:
        """Return the replacement of a path; None: pack the value unchanged. Called for every object."""
        kind = type(value)
        if kind is not PosixPath and (kind is not str or value[:1] != "/"):
            return None
        text = str(value)
        if text == sys.executable:
            return _PYTHON, kind is PosixPath
        inside = text == self._root or text.startswith(f"{self._root}/")
        return (text[len(self._root) :], kind is PosixPath) if inside else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, root: str) -> None:
        super().__init__(file)
        self._root = root

    def persistent_load(self, pid: tuple[str | None, bool]) -> str | Path:
        rest, is_path = pid
        text = sys.executable if rest is _PYTHON else f"{self._root}{rest}"
        return Path(text) if is_path else text


def process_name() -> str:
    return f"{socket.gethostname()} {os.getpid()}"


# The worker.

END_SECONDS: Final = 8.0
"""How long the process of the run waits for the end of the jobs."""
_LOOK_SECONDS: Final = 0.5
_LOCK: Final = threading.Lock()
_ENGINES: Final[dict[str, "_Engine"]] = {}
"""The engines of this process, by the names of their runs."""
_CLOSED: Final[set[str]] = set()
"""The names of the runs that are over."""


def run_job(setup: bytes, job: bytes, is_wanted: Callable[[], bool] | None = None) -> bytes:
    """Run a job in a worker, and return the bytes of a `Reply` when it has ended.

    The job is cancelled when `is_wanted` says no; None: when the run is over or its process is gone.
    """
    try:
        engine = _engine_of(setup, is_watched=is_wanted is None)
    except AgentvError as error:
        return Reply(refused=str(error)).to_bytes()
    return Reply().to_bytes() if engine is None else engine.run(job, is_wanted or (lambda: True))


def close_engine(name: str) -> None:
    """End what this process runs for a run, and close its targets. Its later jobs are cancelled."""
    with _LOCK:
        _CLOSED.add(name)
        engine = _ENGINES.pop(name, None)
    if engine is not None:
        engine.close()


def _engine_of(data: bytes, *, is_watched: bool) -> "_Engine | None":
    """Return the engine of a run, made for its first job; None: the run is over."""
    name, home, packed = pickle.loads(data)  # noqa: S301 - sent by the process of the run
    with _LOCK:
        if name not in _ENGINES:
            root = home if Path(home).is_dir() else str(Path.cwd())
            setup: Setup = unpack(packed, root)
            if name in _CLOSED or setup.mark.exists():
                return None
            _ENGINES[name] = _Engine(setup, root, home, is_watched=is_watched)
        _ENGINES[name].running += 1
        return _ENGINES[name]


class _Engine:
    """What one run has in a worker process: an event loop and open targets. Any thread may call it."""

    def __init__(self, setup: Setup, root: str, home: str, *, is_watched: bool) -> None:
        self.setup = setup
        self._root = root
        self._home = home
        self.running = 0
        """How many jobs have begun and not ended. Guarded by the lock of the engines."""
        self._parent = os.getppid()
        self._masker = Masker.of_environment()
        self._loop = LoopThread()
        from pytest_agentv.providers.kind import kind_of_any_keys  # noqa: PLC0415 - imports pydantic

        own = {word: kind_of_any_keys(word) for word in setup.own_providers}
        places = Places(setup.repo_root, setup.cwd, setup.shared_folder)
        self._pool = TargetPool(setup.options, places, self._masker, lambda _: own)
        self._store = JobStore()
        self._pool.store = None if setup.options.dry_run or not setup.options.keep_answers else self._store
        self._handler = CaseHandler(self._masker)
        self._streams: dict[str, Any] = {}
        self._is_foreign = setup.process != process_name()
        if self._is_foreign:  # the process of the run has all this already
            if not is_watched:
                _forget_modules(root)
            sys.path += [folder for folder in setup.import_path if folder not in sys.path]
            self._streams = {name: getattr(sys, name) for name in STREAMS}
            for name, stream in self._streams.items():
                setattr(sys, name, CaseStream(name, stream, self._masker))
            logging.getLogger().addHandler(self._handler)
            for name, level in setup.log_levels.items():
                logging.getLogger(name).setLevel(level)
        if is_watched:
            threading.Thread(target=self._watch, name="agentv-watch", daemon=True).start()

    def run(self, job: bytes, is_wanted: Callable[[], bool]) -> bytes:
        """Run a job. When the last job was cancelled, close the targets, because the run may be gone."""
        future = self._loop.submit(self._reply(job))
        try:
            while not wait([future], _LOOK_SECONDS).done:
                if not is_wanted():
                    break
            else:
                return self._translated(future.result())
        except CancelledError:
            pass
        finally:
            future.cancel()
            with _LOCK:
                self.running -= 1
        with _LOCK:
            is_last = not self.running and _ENGINES.get(self.setup.name) is self
            if is_last:
                del _ENGINES[self.setup.name]
        if is_last:
            self.close()
        return Reply().to_bytes()

    def close(self) -> None:
        """Cancel all jobs, wait for the end of their processes, and close the targets."""
        if self._loop.is_running:
            self._loop.cancel_all()
            self._loop.run(self._pool.close())
            self._loop.stop()
        logging.getLogger().removeHandler(self._handler)
        for name, stream in self._streams.items():
            if getattr(getattr(sys, name), "masker", None) is self._masker:
                setattr(sys, name, stream)

    def _watch(self) -> None:
        """Close the engine when the run is over. End a process of a killed run's pool: it would wait for ever."""
        while not self._is_over():
            time.sleep(_LOOK_SECONDS)
        close_engine(self.setup.name)
        until = time.monotonic() + END_SECONDS
        is_pooled = self._is_foreign and multiprocessing.parent_process() is not None
        while is_pooled and time.monotonic() < until:
            if os.getppid() != self._parent:
                os._exit(os.EX_UNAVAILABLE)
            time.sleep(_LOOK_SECONDS)

    def _is_over(self) -> bool:
        host, _, pid = self.setup.process.rpartition(" ")
        try:
            if host == socket.gethostname():
                os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it lives, under another user
            pass
        return os.getppid() != self._parent or self.setup.mark.exists()

    async def _reply(self, data: bytes) -> bytes:
        log = CaseLog()
        current_log.set(log)
        try:
            job, sent = unpack(data, self._root)
        except JobRefused as error:
            return Reply(refused=self._masker.mask(str(error))).to_bytes()
        answer = (job.identity.node_id, job.identity.eval_id, job.answer)
        if sent is not None:
            self._store.take(*answer, sent)
        record = await self._record(job)
        return Reply(
            record,
            tuple(map(self._masker.mask, log.lines)),
            {name: self._masker.mask(text) for name in STREAMS if (text := log.take(name))},
            tuple(self._masker.mask_plain(problem.to_plain()) for problem in self._pool.take_warnings()),
            tuple(self._store.give(*answer)),
            None if self._pool.stop_reason is None else self._masker.mask(self._pool.stop_reason),
        ).to_bytes()

    async def _record(self, job: CaseJob) -> JsonObject:
        """Return the record of a case. Any failure is a record, as in the process of the run."""
        try:
            if os.path.exists(job.case.path):  # noqa: ASYNC240, PTH110 - one short system call
                result = await run_case(job, self._pool)
            else:
                where = f"the worker on {socket.gethostname()} does not see {job.case.path}"
                text = f"{where}: start it in the project's folder"
                identity = job.identity.replace(case_hash=None)  # so that a resumed run asks again
                result = error_result(identity, "setup", "config", text)
            self._masker.look_again()
            record = recordable(result.to_plain(), self._masker)
        except Exception as error:  # noqa: BLE001 - see the docstring
            identity = job.identity.replace(case_hash=None)  # as above
            text = str(error) if isinstance(error, AgentvError) else f"{type(error).__name__}: {error}"
            broken = error_result(identity, "provider", "crash", text.removesuffix(": "))
            record = recordable(broken.to_plain(), self._masker)
        return record

    def _translated(self, reply: bytes) -> bytes:
        if self._root in (self._home, "/"):
            return reply
        here, there = (json.dumps(root)[1:-1].encode() for root in (self._root, self._home))
        return reply.replace(here, there)


def _forget_modules(root: str) -> None:
    """Forget the modules of the project that an earlier run has imported, because their files may have changed."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        is_ours = name.partition(".")[0] in ("__main__", "pytest_agentv")
        if file.startswith(f"{root}/") and "-packages/" not in file and not is_ours:
            del sys.modules[name]
