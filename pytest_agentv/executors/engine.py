"""The engine of a worker process: an event loop, targets of its own, and the jobs that run."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pytest_agentv.engine.case import CaseJob, run_case
from pytest_agentv.engine.combining import is_set_up_error
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.targets.checks import Together
from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import Reply, Setup
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.executors.leash import process_name
from pytest_agentv.executors.probes import Probes
from pytest_agentv.executors.shipping.packing import JobRefused, pack, unpack
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.roots import Roots, Translation
from pytest_agentv.executors.shipping.site import FilesAbsent, SeenFiles, Site
from pytest_agentv.executors.shipping.store import Store
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.serialization import recordable
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.threads import run_in_thread

_FORMAT: Final = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
_LINES: Final[ContextVar[list[str] | None]] = ContextVar("agentv_job_lines", default=None)
"""What the job logged that the running task belongs to."""


class WorkerEngine:
    """Runs jobs of one run, side by side. Any thread may call it."""

    def __init__(self, setup: Setup, probes: Probes | None = None) -> None:
        """`probes` shares health checks with workers that share no folder with this one."""
        self._setup = setup
        self._probes = probes
        self._masker = Masker()
        self._masker.add_environment(os.environ)
        self._site: Site = Store(setup.roots) if _is_elsewhere(setup) else SeenFiles(setup.roots)
        self._here: _Here | None = None
        self._kept = KeptResults(setup.kept_folder)
        self._loop = LoopThread()
        self._running: dict[str, Future[bytes]] = {}
        self._handler = _LineHandler(self._masker)
        logging.getLogger().addHandler(self._handler)
        for name, level in setup.log_levels.items():
            logging.getLogger(name).setLevel(level)

    def start(self, ticket: str, parcel: bytes) -> "Future[bytes]":
        """Start the job of a packed `Parcel`. Its future has the bytes of a `Reply`, and never an error.

        If the worker lacks files of the job, the reply says so at once.
        """
        coroutine: Coroutine[Any, Any, bytes] = self._reply(ticket, parcel)
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
            if self._here is not None:
                self._loop.run(self._here.pool.close())
            self._loop.stop()
        if self._here is not None:
            self._here.leave()
        self._site.close()
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
            parcel = Parcel.from_bytes(data)
            missing = await self._take(parcel)
            if missing or parcel.job is None:
                return Reply(missing=missing, worker=self._site.name).to_bytes()
            here = self._settle()
            job: CaseJob = unpack(parcel.job, here.roots)
        except JobRefused as error:
            return Reply(refused=self._masker.mask(str(error))).to_bytes()
        except FilesAbsent as error:
            return Reply(fault=self._masker.mask(str(error))).to_bytes()
        try:
            result = await self._result(job, here)
            record: JsonObject = here.translation.plain(recordable(result.to_plain(), self._masker))
            if not is_set_up_error(result):
                await self._keep(ticket, job, record)
        except asyncio.CancelledError:
            return Reply(log=here.homeward(lines)).to_bytes()
        return Reply(
            record,
            worker=self._site.name,
            log=here.homeward(lines),
            warnings=self._warnings(here),
            stop_reason=self._stop_reason(here),
        ).to_bytes()

    async def _take(self, parcel: Parcel) -> tuple[str, ...]:
        if not parcel.bundles:
            return self._site.take(parcel)
        return await run_in_thread(lambda: self._site.take(parcel), "agentv-unpack")

    def _settle(self) -> "_Here":
        """Return what the run has here, made for the first job: only then is it known where its files lie."""
        if self._here is None:
            self._here = _Here(self._setup, self._site, self._masker, self._probes)
        return self._here

    async def _result(self, job: CaseJob, here: "_Here") -> EvalResult:
        try:
            return await run_case(job, here.pool)
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

    def _warnings(self, here: "_Here") -> tuple[JsonObject, ...]:
        masked = (self._masker.mask_plain(problem.to_plain()) for problem in here.pool.take_warnings())
        return tuple(map(here.translation.plain, masked))

    def _stop_reason(self, here: "_Here") -> str | None:
        reason = here.pool.stop_reason
        return None if reason is None else here.translation.text(self._masker.mask(reason))


def _is_elsewhere(setup: Setup) -> bool:
    """Whether the files of the run are shipped to this process; an executor of threads runs jobs in that of the run."""
    return setup.ships and setup.process != process_name()


class _Here:
    """What a run has on this machine: its folders and its targets."""

    def __init__(self, setup: Setup, site: Site, masker: Masker, probes: Probes | None) -> None:
        options, repo_root, cwd, import_path = _moved(setup, site.roots)
        self.roots = site.roots
        sys.path += [folder for folder in import_path if folder not in sys.path]
        homes = dict(setup.roots.folders)
        paths = {folder: homes[name] for name, folder in site.roots.folders}
        self.translation = Translation({**paths, sys.executable: setup.python})
        """What makes paths of this place those of the run."""
        self._left: Path | None = None
        dotenv_root = None
        if _is_elsewhere(setup):
            self._left = dotenv_root = Path.cwd()
            cwd.mkdir(parents=True, exist_ok=True)
            os.chdir(cwd)
        places = Places(repo_root, cwd, setup.shared_folder, dotenv_root)
        together: Together | None = None
        if probes is not None:
            together = lambda key, check: probes.together(key, check, self.translation.text)  # noqa: E731 - typed
        self.pool = TargetPool(options, places, masker, {}, together)

    def homeward(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return lines as the process of the run would have written them."""
        return tuple(map(self.translation.text, lines))

    def leave(self) -> None:
        """Go back to the folder in which the process was."""
        if self._left is not None:
            os.chdir(self._left)


def _moved(setup: Setup, roots: Roots) -> tuple[RunOptions, Path, Path, tuple[str, ...]]:
    """Return what a setup says of folders, with the paths of this place."""
    said = setup.options, setup.repo_root, setup.cwd, setup.import_path
    moved: tuple[RunOptions, Path, Path, tuple[str, ...]] = said
    return moved if roots == setup.roots else unpack(pack(said, setup.roots), roots)


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
