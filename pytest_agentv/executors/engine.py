"""The engine of a worker process: an event loop, targets of its own, and running jobs."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NoReturn

from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.pool import Places, TargetPool, Together, finding, raise_finding
from pytest_agentv.engine.repeats import is_set_up_error
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError, ProviderError
from pytest_agentv.executors.base import (
    Frame,
    JobRefused,
    Outgoing,
    Parcel,
    Reply,
    SentFile,
    Setup,
    pack,
    unpack,
    written_folders,
)
from pytest_agentv.executors.bundles import Roots, Translation
from pytest_agentv.executors.kept import KeptResult, KeptResults, process_name
from pytest_agentv.executors.shipping import FilesAbsent, SeenFiles, Site, Store
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.cases import Target
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.prints import STREAMS, CaseLog, CaseStream, current_log
from pytest_agentv.runtime.files import listen_to_writing
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.store.writers import recordable

# Shares health checks among workers without a common folder. The process of the run decides who checks a target.

PROBE: Final = "probe"
"""Asks whether to check a target. The reply is the finding, or null to check it."""
PROBED: Final = "probed"
"""Carries the finding of a worker; null: its check did not end."""


class Probes:
    """The worker's side. Used on its event loop, except for `answer`."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: dict[str, asyncio.Future[Any]] = {}

    async def together(self, key: str, check: Callable[[], Awaitable[None]], homeward: Callable[[str], str]) -> None:
        """Check, unless another worker has done so.

        Raise its finding. `homeward` converts paths to those of the run.
        """
        key = homeward(key)
        self._loop = asyncio.get_running_loop()
        answered = self._asked[key] = self._loop.create_future()
        self._send(Frame(PROBE, key))
        found = await answered
        if found is None:
            try:
                found = {name: homeward(text) for name, text in (await finding(check)).items()}
            finally:
                self._send(Frame(PROBED, key, json.dumps(found).encode()))
        raise_finding(found)

    def answer(self, frame: Frame) -> None:
        """Take a reply of the process of the run. Any thread may call it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the worker is ending
                self._loop.call_soon_threadsafe(self._answer, frame.ticket, json.loads(frame.body))

    def _answer(self, key: str, found: Any) -> None:
        answered = self._asked.pop(key, None)
        if answered is not None and not answered.done():
            answered.set_result(found)


# The local environment of a run in a worker process: its folders, variables and targets.


def is_elsewhere(setup: Setup) -> bool:
    """Whether this process gets files of the run. Threads of an executor run jobs in the process with the files."""
    return setup.ships and setup.process != process_name()


def _open_nothing(target: Target, variables: Mapping[str, str]) -> NoReturn:  # noqa: ARG001 - of a factory
    raise ProviderError(f"kind {target.kind!r} is one of the project's, which workers do not have", "config")


class Here:
    """The files of a run in this process, and its targets. `leave` undoes its changes to the process."""

    def __init__(self, setup: Setup, roots: Roots, masker: Masker, probes: Probes | None = None) -> None:
        """Prepare the environment. `probes` shares health checks with workers without a common folder."""
        options, repo_root, cwd, import_path = _moved(setup, roots)
        self.roots = roots
        homes = dict(setup.roots.folders)
        paths = {folder: homes[name] for name, folder in roots.folders}
        self._translation = Translation(paths, {sys.executable: setup.python})
        self._outgoing: Outgoing | None = None
        self._left: Path | None = None
        self._shown: list[str] = []
        shared = setup.shared_folder
        if is_elsewhere(setup):
            self._left = Path.cwd()
            shared = _shared_folder(setup, roots)
            self._outgoing = Outgoing(written_folders(options, cwd), roots)
            cwd.mkdir(parents=True, exist_ok=True)
            os.chdir(cwd)
            self._shown = [folder for folder in import_path if roots.spot(folder) is not None]
            sys.path[:0] = self._shown
        else:
            sys.path += [folder for folder in import_path if folder not in sys.path]
        together: Together | None = None
        if probes is not None:
            together = lambda key, check: probes.together(key, check, self.text_home)  # noqa: E731 - typed
        sees_results = setup.is_here and setup.keeps and not is_elsewhere(setup)
        unjudged = setup.unjudged if sees_results else None
        places = Places(repo_root, cwd, shared, self._left, self.plain_home, unjudged)
        own = dict.fromkeys(setup.own_providers, _open_nothing)
        self.pool = TargetPool(options, places, masker, lambda _: own, together)

    def text_home(self, text: str) -> str:
        """Return a text with the paths of the process of the run."""
        return self._translation.text(text)

    def lines_home(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return lines with the paths of the process of the run."""
        return tuple(map(self._translation.text, lines))

    def plain_home(self, value: Mapping[str, object]) -> dict[str, object]:
        """Return plain data with the paths of the process of the run."""
        plain: dict[str, object] = self._translation.plain(value)
        return plain

    def collect_files(self) -> None:
        """Collect the files that the current task writes, unless the run sees them."""
        if self._outgoing is not None:
            listen_to_writing(self._outgoing.note)

    async def take_files(self, result: EvalResult) -> tuple[SentFile, ...]:
        """Return the files that cases have written since the last call; empty if the run sees them."""
        outgoing = self._outgoing
        if outgoing is None:
            return ()
        log = () if result.log_file is None else (Path(result.log_file),)  # a target may write into a folder of its own
        paths = dict.fromkeys((*log, *outgoing.take()))
        if not paths:
            return ()
        try:
            files = await run_in_thread(lambda: tuple(outgoing.read(paths)), "agentv-outgoing")
        except asyncio.CancelledError:
            for path in paths:
                outgoing.note(path)  # the next result brings them
            raise
        return tuple(file.replace(text=self.text_home(file.text)) for file in files)

    def leave(self) -> None:
        """Return to the previous working directory, and remove the folders of the run's modules."""
        if self._left is not None:
            os.chdir(self._left)
            sys.path[:] = [folder for folder in sys.path if folder not in self._shown]


def _moved(setup: Setup, roots: Roots) -> tuple[RunOptions, Path, Path, tuple[str, ...]]:
    """Return a setup with the folders of this machine."""
    said = setup.options, setup.repo_root, setup.cwd, setup.import_path
    moved: tuple[RunOptions, Path, Path, tuple[str, ...]] = said
    return moved if roots == setup.roots else unpack(pack(said, setup.roots), roots)


def _shared_folder(setup: Setup, roots: Roots) -> Path:
    """Return the folder that the processes of the run share. On another machine, it has the same name."""
    shared = setup.shared_folder
    return shared if shared.is_dir() else Path(roots.folders[0][1]).parent / shared.name


class PassedVariables:
    """Sets the variables from the run in this process, until `hide`."""

    def __init__(self, setup: Setup) -> None:
        shown = {} if setup.process == process_name() else setup.passed
        self._before = {name: os.environ.get(name) for name in shown}
        os.environ.update(shown)

    def hide(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_LOGGER: Final = logging.getLogger(__name__)
_FORMAT: Final = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
_LINES: Final[ContextVar[list[str] | None]] = ContextVar("agentv_job_lines", default=None)
"""The log lines of the job that the running task belongs to."""


class WorkerEngine:
    """Runs jobs of one run concurrently. Any thread may call it."""

    def __init__(self, setup: Setup, probes: Probes | None = None) -> None:
        """Prepare an engine. `probes` shares health checks with workers without a common folder."""
        self._setup = setup
        self._probes = probes
        self._masker = Masker(setup.passed.values())
        self._passed = PassedVariables(setup)
        self._masker.look_again()
        self._site: Site = Store(setup.roots) if is_elsewhere(setup) else SeenFiles(setup.roots)
        self._here: Here | None = None
        self._kept = KeptResults(setup.kept_folder)
        self._loop = LoopThread()
        self._running: dict[str, Future[bytes]] = {}
        self._cancelled: set[str] = set()
        """Tickets of jobs that were cancelled before they began. Used on the loop."""
        self._is_closed = False
        self._handler = _LineHandler(self._masker)
        logging.getLogger().addHandler(self._handler)
        self._streams = {name: getattr(sys, name) for name in STREAMS}
        if setup.process != process_name():  # the process of the run has such streams already
            for name, stream in self._streams.items():
                setattr(sys, name, CaseStream(name, stream, self._masker))
        for name, level in setup.log_levels.items():
            logging.getLogger(name).setLevel(level)

    def start(self, ticket: str, parcel: bytes) -> "Future[bytes]":
        """Start the job of a packed `Parcel`. Its future has the bytes of a `Reply`, and never an error.

        If the worker lacks files of the job, it replies at once.
        """
        if self._is_closed:
            late: Future[bytes] = Future()
            late.cancel()
            return late
        coroutine: Coroutine[Any, Any, bytes] = self._reply(ticket, parcel)
        future = self._running[ticket] = self._loop.submit(coroutine)
        future.add_done_callback(lambda _: self._forget(ticket))
        return future

    def cancel(self, ticket: str) -> None:
        """Cancel a job with its processes. Then it replies."""
        self._loop.call(lambda: self._cancel(ticket))

    def close(self) -> None:
        """Cancel all jobs, wait for the end of their processes, and close the targets."""
        self._is_closed = True
        if self._loop.is_running:
            self._loop.cancel_all()
            if self._here is not None:
                self._loop.run(self._here.pool.close())
            self._loop.stop()
        if self._here is not None:
            self._here.leave()
        self._site.close()
        self._passed.hide()
        logging.getLogger().removeHandler(self._handler)
        for name, stream in self._streams.items():
            if getattr(getattr(sys, name), "masker", None) is self._masker:
                setattr(sys, name, stream)

    def _forget(self, ticket: str) -> None:
        self._running.pop(ticket, None)
        self._cancelled.discard(ticket)

    def _cancel(self, ticket: str) -> None:
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == ticket]
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        if not tasks and ticket in self._running:  # the task exists, but does not have its name yet
            self._cancelled.add(ticket)

    async def _reply(self, ticket: str, data: bytes) -> bytes:
        lines: list[str] = []
        _LINES.set(lines)
        output = CaseLog()
        current_log.set(output)
        task = asyncio.current_task()
        assert task is not None
        task.set_name(ticket)
        begun = await self._begin(ticket, data)
        if isinstance(begun, Reply):
            return begun.to_bytes()
        job, here = begun
        try:
            record, files = await self._run(ticket, job, here)
        except asyncio.CancelledError:
            return Reply(log=here.lines_home(lines), printed=self._printed(output, here)).to_bytes()
        return Reply(
            record,
            worker=self._site.name,
            log=here.lines_home(lines),
            printed=self._printed(output, here),
            warnings=self._warnings(here),
            stop_reason=self._stop_reason(here),
            files=files,
        ).to_bytes()

    async def _begin(self, ticket: str, data: bytes) -> tuple[CaseJob, Here] | Reply:
        """Return the job of a parcel with the local environment of its run, or a reply if the job does not start."""
        if ticket in self._cancelled:
            return Reply()
        try:
            parcel = Parcel.from_bytes(data)
            missing = await self._take(parcel)
            if missing or parcel.job is None:
                return Reply(missing=missing, worker=self._site.name)
            here = self._settle()
            here.collect_files()
            return unpack(parcel.job, here.roots), here
        except JobRefused as error:
            return Reply(refused=self._masker.mask(str(error)))
        except FilesAbsent as error:
            fault = str(error)
        except OSError as error:
            fault = f"this worker cannot keep the files of the run: {error}"
        except asyncio.CancelledError:
            return Reply()
        except Exception as error:  # noqa: BLE001 - the run waits for a reply, whatever fails here
            fault = f"this worker cannot start the case: {_told(error)}"
        return Reply(fault=self._masker.mask(fault))

    async def _run(self, ticket: str, job: CaseJob, here: Here) -> tuple[JsonObject, tuple[SentFile, ...]]:
        """Run a case. Return its record and its files. Raises only for a cancellation.

        All other failures become replies, because the run waits for one. A paid answer must not be asked for again.
        """
        try:
            result = await self._result(job, here)
            self._masker.look_again()
            record: JsonObject = here.plain_home(recordable(result.to_plain(), self._masker))
            if not is_set_up_error(result):
                await self._keep(ticket, job, record)
            here.pool.waiting.settle(result, job.answer)
        except Exception as error:  # noqa: BLE001 - see the docstring
            result = _broken(job, f"the worker broke after the answer: {_told(error)}")
            return here.plain_home(recordable(result.to_plain(), self._masker)), ()
        try:
            return record, await here.take_files(result)
        except Exception as error:  # noqa: BLE001 - see the docstring
            _LOGGER.warning("the files of the case are lost: %s", _told(error))
            return record, ()

    async def _take(self, parcel: Parcel) -> tuple[str, ...]:
        if not parcel.bundles:
            return self._site.take(parcel)
        return await run_in_thread(lambda: self._site.take(parcel), "agentv-unpack")

    def _settle(self) -> Here:
        """Return the local environment of the run. The first job creates it, because only jobs bring files."""
        if self._here is None:
            self._here = Here(self._setup, self._site.roots, self._masker, self._probes)
        return self._here

    async def _result(self, job: CaseJob, here: Here) -> EvalResult:
        try:
            return await run_case(job, here.pool)
        except Exception as error:  # noqa: BLE001 - any failure is a result, as in the process of the run
            return _broken(job, _told(error))

    async def _keep(self, ticket: str, job: CaseJob, record: JsonObject) -> None:
        if not self._setup.keeps:
            return
        answer = job.answer if job.answer or job.repeat > 1 else None
        try:
            await run_in_thread(lambda: self._kept.keep(KeptResult(ticket, record, answer)), "agentv-keep")
        except Exception as error:  # noqa: BLE001 - a process that cannot start a thread can still send the result
            _LOGGER.warning("a result is not kept until the run has it: %s", _told(error))

    def _warnings(self, here: Here) -> tuple[JsonObject, ...]:
        masked = (self._masker.mask_plain(problem.to_plain()) for problem in here.pool.take_warnings())
        return tuple(map(here.plain_home, masked))

    def _printed(self, output: CaseLog, here: Here) -> dict[str, str]:
        texts = {name: here.text_home(self._masker.mask(output.take(name))) for name in STREAMS}
        return {name: text for name, text in texts.items() if text}

    def _stop_reason(self, here: Here) -> str | None:
        reason = here.pool.stop_reason
        return None if reason is None else here.text_home(self._masker.mask(reason))


def _broken(job: CaseJob, message: str) -> EvalResult:
    identity = job.identity.replace(case_hash=None)  # so that a resumed run asks again
    return error_result(identity, "provider", "crash", message, dry_run=job.options.dry_run)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, AgentvError) else f"{type(error).__name__}: {error}".removesuffix(": ")


class _LineHandler(logging.Handler):
    """Collects what jobs log, secrets masked."""

    def __init__(self, masker: Masker) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._masker = masker

    def emit(self, record: logging.LogRecord) -> None:
        lines = _LINES.get()
        if lines is not None:
            lines.append(self._masker.mask(self.format(record)))
