"""The engine of a worker process: an event loop, targets of its own, and the jobs that run."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final

from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.repeating.combining import is_set_up_error
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import JobRefused, Reply, Setup, unpack
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.serialization import recordable
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.threads import run_in_thread

_FORMAT: Final = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
_LINES: Final[ContextVar[list[str] | None]] = ContextVar("agentv_job_lines", default=None)
"""What the job logged that the running task belongs to."""


class WorkerEngine:
    """Runs jobs of one run, side by side. Any thread may call it."""

    def __init__(self, setup: Setup) -> None:
        sys.path += [folder for folder in setup.import_path if folder not in sys.path]
        self._masker = Masker()
        self._masker.add_environment(os.environ)
        places = Places(setup.repo_root, setup.cwd, setup.shared_folder)
        self._pool = TargetPool(setup.options, places, self._masker, {})
        self._kept = KeptResults(setup.kept_folder)
        self._loop = LoopThread()
        self._running: dict[str, Future[bytes]] = {}
        self._handler = _LineHandler(self._masker)
        logging.getLogger().addHandler(self._handler)
        for name, level in setup.log_levels.items():
            logging.getLogger(name).setLevel(level)

    def start(self, ticket: str, job: bytes) -> "Future[bytes]":
        """Start a job. Its future has the bytes of a `Reply`, and never an error."""
        coroutine: Coroutine[Any, Any, bytes] = self._reply(ticket, job)
        future = self._running[ticket] = self._loop.submit(coroutine)
        future.add_done_callback(lambda _: self._running.pop(ticket, None))
        return future

    def cancel(self, ticket: str) -> None:
        """Have a job end, with the processes that it started; then it replies."""
        self._loop.call(lambda: self._cancel(ticket))

    def close(self) -> None:
        """Cancel all jobs, wait for the end of what they started, and close the targets."""
        if self._loop.is_running:
            self._loop.cancel_all()
            self._loop.run(self._pool.close())
            self._loop.stop()
        logging.getLogger().removeHandler(self._handler)

    def _cancel(self, ticket: str) -> None:
        for task in asyncio.all_tasks():
            if task.get_name() == ticket and not task.cancelling():
                task.cancel()

    async def _reply(self, ticket: str, data: bytes) -> bytes:
        lines: list[str] = []
        _LINES.set(lines)
        task = asyncio.current_task()
        assert task is not None
        task.set_name(ticket)
        try:
            job: CaseJob = unpack(data)
        except JobRefused as error:
            return Reply(refused=self._masker.mask(str(error))).to_bytes()
        try:
            result = await self._result(job)
            record = recordable(result.to_plain(), self._masker)
            if not is_set_up_error(result):
                await self._keep(ticket, job, record)
        except asyncio.CancelledError:
            return Reply(log=tuple(lines)).to_bytes()
        return Reply(record, None, tuple(lines), self._warnings(), self._stop_reason()).to_bytes()

    async def _result(self, job: CaseJob) -> EvalResult:
        try:
            return await run_case(job, self._pool)
        except Exception as error:  # noqa: BLE001 - whatever breaks is a result, as in the process of the run
            identity = job.identity.replace(case_hash=None)
            message = f"{type(error).__name__}: {error}".removesuffix(": ")
            return error_result(identity, "provider", "crash", message, dry_run=job.options.dry_run)

    async def _keep(self, ticket: str, job: CaseJob, record: JsonObject) -> None:
        answer = job.answer if job.answer or job.repeat > 1 else None
        try:
            await run_in_thread(lambda: self._kept.keep(KeptResult(ticket, record, answer)), "agentv-keep")
        except AgentvError as error:
            logging.getLogger(__name__).warning("a result is not kept until the run has it: %s", error)

    def _warnings(self) -> tuple[JsonObject, ...]:
        return tuple(self._masker.mask_plain(problem.to_plain()) for problem in self._pool.take_warnings())

    def _stop_reason(self) -> str | None:
        reason = self._pool.stop_reason
        return None if reason is None else self._masker.mask(reason)


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
