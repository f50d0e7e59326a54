"""The engine of a worker process: an event loop, targets of its own, and running jobs."""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final

from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.repeating.combining import is_set_up_error
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import Reply, Setup
from pytest_agentv.executors.here import Here, PassedVariables, is_elsewhere
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.executors.leash import process_name
from pytest_agentv.executors.probes import Probes
from pytest_agentv.executors.shipping.outgoing import SentFile
from pytest_agentv.executors.shipping.packing import JobRefused, unpack
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.site import FilesAbsent, SeenFiles, Site
from pytest_agentv.executors.shipping.store import Store
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.prints import STREAMS, CaseLog, CaseStream, current_log
from pytest_agentv.reporting.serialization import recordable
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.threads import run_in_thread

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
