"""Chooses the executor of a run, sends cases to its workers, and takes their results."""

import asyncio
import json
import logging
import os
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.engine.jobs import NO_OVERRIDES, CaseJob, choose_judge
from pytest_agentv.engine.judges import evaluators_of, names_asked
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError, HookError
from pytest_agentv.executors.worker import (
    END_SECONDS,
    JobRefused,
    Reply,
    Setup,
    Workers,
    close_engine,
    pack,
    process_name,
    run_job,
)
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import counted
from pytest_agentv.model.kind_table import KindsOf
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.table import KINDS
from pytest_agentv.reports.dumps import CaseLog
from pytest_agentv.reports.figures import shown
from pytest_agentv.runtime.reaper import remove_at_end
from pytest_agentv.runtime.user_code import run_in_thread, user_traceback
from pytest_agentv.session.plan import PreparedCase
from pytest_agentv.session.user_hooks import FIXTURES, FOREIGN_FOLDERS, HOOKS, hooked_kinds, is_interrupt
from pytest_agentv.session.workers import shared_folder

_LOGGER: Final = logging.getLogger("pytest_agentv.session")
_HOOK: Final = "pytest_agentv_executor"


class Away:
    """The executor of a run. Used on the event loop, except for `open`."""

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        places: Places,
        run_id: str,
        *,
        pool: TargetPool,
        own_providers: KindsOf,
    ) -> None:
        self.is_open = False
        self.workers: Workers | None = None
        """None: no hook names an executor, so all cases run in this process."""
        self.away = 0
        self.home: Counter[str] = Counter()
        """How many answers this process asked for, by the reason."""
        self.lost = 0
        self._config = config
        self._options = options
        self._places = places
        self._run_id = run_id
        self._pool = pool
        self._own_providers = own_providers
        self._warned: set[tuple[Path, int | None]] = set()
        """The places of targets that a warning was shown for."""

    def open(self) -> None:
        """Open the executor. Raises `pytest.UsageError` if a hook returned something else."""
        if self.workers is None:
            self.workers = _open(self._config, self._options, self._setup())
            self.is_open = self.workers is not None

    async def ask(self, job: CaseJob, prepared: PreparedCase, *, is_batched: bool) -> EvalResult | None:
        """Run a job of a case in another process; None: it must run in this one. Raises only for a cancellation."""
        if self.workers is None:
            return None
        reason = "batches" if is_batched else self._reason_to_stay(job, prepared)
        if reason is None:
            try:
                return await self._ask(self.workers, job, prepared.log)
            except JobRefused as error:
                _LOGGER.debug("the case runs here: %s", error)
                reason = "objects of this process"
        self.home[reason] += 1
        return None

    async def close(self) -> None:
        """End all jobs, and close the executor. Waits some seconds at most."""
        if self.workers is not None and self.is_open:
            self.is_open = False
            closing = threading.Thread(target=self.workers.close, name="agentv-executor-end", daemon=True)
            closing.start()
            await run_in_thread(lambda: closing.join(END_SECONDS), "agentv-executor-wait")

    def summary(self) -> Iterator[str]:
        if self.workers is None or not (self.away or self.home or self.lost):
            return
        stayed = ", ".join(f"{count} with {reason}" for reason, count in sorted(self.home.items()))
        here = f"; {self.home.total()} ran in this process: {stayed}" if self.home else ""
        workers = "its worker" if self.lost == 1 else "their workers"
        lost = f"; {self.lost} lost with {workers}" if self.lost else ""
        yield f"executor {self.workers.name}: {counted(self.away, 'answer')}{here}{lost}"

    def _setup(self) -> Setup:
        places, config = self._places, self._config
        folder = shared_folder(self._run_id)
        folder.mkdir(mode=0o700, exist_ok=True)
        remove_at_end(folder)
        try:
            own = tuple(hooked_kinds("pytest_agentv_providers", config.hook.pytest_agentv_providers))
        except HookError:  # each case reports the error
            own = ()
        return Setup(
            f"agentv-{uuid.uuid4().hex}",
            self._options,
            places.repo_root,
            places.cwd,
            folder,
            tuple(os.path.abspath(each) for each in sys.path),  # noqa: PTH100 - "" is the current folder
            {name: logging.getLogger(name).level for name in ("", "pytest_agentv")},
            own,
            process_name(),
        )

    def _reason_to_stay(self, job: CaseJob, prepared: PreparedCase) -> str | None:
        if prepared.bound_by is not None or prepared.own != NO_OVERRIDES:
            return prepared.bound_by or FIXTURES
        if prepared.hooks.response is not None or prepared.hooks.decide is not None:
            return HOOKS
        has_own = any(each.own_code is not None for one in evaluators_of(job.case) for each in one.walk())
        return "kinds of this project" if has_own or self._asks_own_kind(job) else None

    def _asks_own_kind(self, job: CaseJob) -> bool:
        """Whether a job may ask a target of a kind of the project, or its file has one in place of a built-in one."""
        folder = job.case.folder
        try:
            own = set(self._own_providers(folder))
            file = self._pool.file(folder) if own else None
        except HookError:
            return True  # the case reports the error
        except AgentvError:
            return False
        if file is None:
            return False
        asked = set(names_asked(job.case, job.identity.target, choose_judge(job.options, job.case.judge), file))
        kinds = {each.kind for each in file.definitions if each.name in asked or each.kind in KINDS.table}
        return not own.isdisjoint(kinds)

    async def _ask(self, workers: Workers, job: CaseJob, log: CaseLog) -> EvalResult:
        identity, store = job.identity, self._pool.store
        sent = None if store is None else store.sent(identity.node_id, identity.eval_id, job.answer)
        data = pack((job, sent), self._places.repo_root)
        try:
            future = workers.submit(data)
        except RuntimeError as error:  # it is broken or was shut down
            return self._lose(job, f"the executor takes no more cases: {error}", ends=True)
        try:
            returned: bytes = await asyncio.wrap_future(future)
            reply = Reply.from_plain(json.loads(returned))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._lose(job, f"{workers.name} is gone: the cases that it had did not end", ends=True)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - whatever ended its worker
            return self._lose(job, _told(error))
        if reply.refused is not None:
            raise JobRefused(reply.refused)
        self._note(reply, log)
        if store is not None:
            store.insert(reply.rows)
        if reply.record is None:
            return self._lose(job, "it ended the case without a result")
        self.away += 1
        return EvalResult.from_plain(reply.record)

    def _lose(self, job: CaseJob, reason: str, *, ends: bool = False) -> EvalResult:
        self.lost += 1
        if ends:
            self._pool.stop_reason = self._pool.stop_reason or reason
        identity = job.identity.replace(case_hash=None)  # so that a resumed run asks again
        return error_result(identity, "provider", "process", f"worker lost: {reason}")

    def _note(self, reply: Reply, log: CaseLog) -> None:
        log.lines.extend(map(self._pool.masker.mask, reply.log))
        for name, text in reply.printed.items():
            log.printed[name].append(text)
        problems = (Problem.from_plain({"line": None, **each}) for each in reply.warnings)  # plain data has no null
        # Each worker warns of the first answer of a target.
        new = [each for each in problems if each.key or (each.path, each.line) not in self._warned]
        self._warned |= {(each.path, each.line) for each in new if not each.key}
        self._pool.warnings.extend(new)
        self._pool.stop_reason = self._pool.stop_reason or reply.stop_reason


def _told(error: BaseException) -> str:
    if isinstance(error, AgentvError):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ").partition("\n")[0]


def _open(config: pytest.Config, options: RunOptions, setup: Setup) -> Workers | None:
    """Open the executor of `--agentv-executor`, else that of a hook. Raises `pytest.UsageError`."""
    if options.executor is not None and "://" in options.executor:
        return _open_cluster(options.executor, setup)
    executor = _ask_hook(config)
    if executor is None:
        return None
    packed = setup.to_bytes()

    def close() -> None:
        with suppress(OSError):
            setup.shared_folder.mkdir(mode=0o700, exist_ok=True)  # a process that ended may have removed it
            setup.mark.touch()  # tells the workers of this machine
        close_engine(setup.name)  # that of an executor of threads
        executor.shutdown(wait=True)  # jobs that did not begin are cancelled already

    slots = max(1, int(getattr(executor, "_max_workers", None) or 1))
    return Workers(type(executor).__name__, slots, lambda job: executor.submit(run_job, packed, job), close)


def _open_cluster(address: str, setup: Setup) -> Workers:
    try:
        from pytest_agentv.executors.dask import open_cluster  # noqa: PLC0415 - only for runs that ask for it

        return open_cluster(address, setup)
    except AgentvError as error:
        raise pytest.UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        text = f"{address} needs a package that is not installed ({error.name}): pip install 'pytest-agentv[dask]'"
        raise pytest.UsageError(text) from None


def _ask_hook(config: pytest.Config) -> Executor | None:
    hook: Any = config.hook
    try:
        found = hook.pytest_agentv_executor(config=config)
    except (pytest.UsageError, pytest.exit.Exception):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        text = f"{_HOOK} raised {user_traceback(error, *FOREIGN_FOLDERS)}"
        raise pytest.UsageError(shown(text, Masker.of_environment())) from None
    if found is None or isinstance(found, Executor):
        return found
    text = f"{_HOOK} returned a value of type {type(found).__name__}: expected a concurrent.futures.Executor or None"
    raise pytest.UsageError(text)
