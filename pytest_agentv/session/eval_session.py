"""The one object that holds a run's state: options, engine, results."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.engine.asking import ask_target
from pytest_agentv.engine.asking_hooks import tell
from pytest_agentv.engine.batching import BatchMember
from pytest_agentv.engine.case import CaseJob, run_case
from pytest_agentv.engine.pacing import Pace
from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.engine.targets import Places, TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.base import EvaluatorFactory
from pytest_agentv.loading.environment import find_repo_root
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.suites import CaseEntry, SuiteSource
from pytest_agentv.models.option_values import MAX_WORKERS
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.providers.base import ProviderFactory, ProviderResponse
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.writers import ResultSink
from pytest_agentv.runtime.loop import LoopThread, wait_for
from pytest_agentv.runtime.user_loop import USER_LOOP
from pytest_agentv.session.begun import Begun
from pytest_agentv.session.identity import RunIdentity, run_identity
from pytest_agentv.session.interrupts import Parent
from pytest_agentv.session.journal import Carried, FinishedCases
from pytest_agentv.session.kinds import HookedKinds
from pytest_agentv.session.limits import max_failures, process_share, shared_folder
from pytest_agentv.session.logs import CaseLog, CaseLogHandler, current_log
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import show_warnings
from pytest_agentv.session.preparing import CasePreparer, PreparedCase
from pytest_agentv.session.progress import Progress
from pytest_agentv.session.recording import Recorder
from pytest_agentv.session.user_hooks import UserHooks

_KEY = pytest.StashKey["EvalSession"]()
_ALL_TARGETS: Final = ""
"""The group of all cases when `--agentv-workers` counts them together."""
_BATCHES: Final = "batches"
_NO_CALLS: Final = "no calls"
"""The group of cases that call nothing: broken ones and those that are carried over."""
_ONE_BY_ONE: Final = Pace(workers=1, is_batched=False)


class EvalSession:
    """Runs cases on the engine and records their results; created when the first eval file is collected."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = run_options(config)
        self.identity: RunIdentity = run_identity(config, self.options)
        self.masker = Masker()
        cwd = config.invocation_params.dir
        self._share = process_share(config)
        self._parent = Parent(config, self.identity.run_id)
        places = Places(
            find_repo_root(cwd), cwd, shared_folder(self.identity.run_id) if self._share.count > 1 else None
        )
        providers: HookedKinds[ProviderFactory] = HookedKinds(config.hook.pytest_agentv_providers)
        self._evaluators: HookedKinds[EvaluatorFactory] = HookedKinds(config.hook.pytest_agentv_evaluators)
        self.preparer = CasePreparer(config, self.options, places, self.identity.run_id, self._evaluators)
        self.user_hooks = UserHooks(config)
        self.max_failures = max_failures(config)
        self._loop = LoopThread()
        self._scheduler: Scheduler[EvalResult] = Scheduler(self._loop)
        self._pool = TargetPool(self.options, places, self.masker, providers)
        sink = ResultSink(self.identity.results_path, self.options.output_format, self.masker)
        self._recorder = Recorder(sink)
        self._finished = FinishedCases(
            self.identity, with_errors=not self.options.retry_errors, is_worker=hasattr(config, "workerinput")
        )
        self._paces: dict[tuple[str, str], Pace] = {}
        self._shown: set[Problem] = set()
        self._failures = 0
        self.progress = Progress(config)
        self._log_handler = CaseLogHandler(config, self.masker)
        self._log_handler.install(verbose=self.options.verbose)

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more is to be run, in one line that can be shown; None: go on."""
        reason = self._pool.stop_reason
        return None if reason is None else shown(reason, self.masker).partition("\n")[0]

    @property
    def runs_on(self) -> bool:
        """Whether cases may be begun whose turn has not come: the run is not about to stop."""
        return self.stop_reason is None and not self._scheduler.is_held

    @property
    def unfinished(self) -> int:
        """Cases that were begun and are not done."""
        return self._scheduler.unfinished

    def is_selected(self, suite: SuiteSource, entry: CaseEntry) -> bool:
        """Whether the options let a case run: `--agentv-eval-id`, `--agentv-retry-errors`."""
        if self.options.eval_id and entry.eval_id not in self.options.eval_id:
            return False
        retried = self.identity.retried
        return retried is None or (self.preparer.eval_file(suite), entry.eval_id) in retried

    @property
    def write_error(self) -> str | None:
        """Why results could not be written."""
        return self._recorder.error

    def begin(self, prepared: PreparedCase, member: BatchMember | None = None, *, is_repeated: bool = False) -> Begun:
        """Hand a case to the engine, which runs it when there is room; members of a batch always have room."""
        job, log = prepared.job, CaseLog()
        if isinstance(job, EvalResult):
            broken = job
            future = self._scheduler.submit(
                lambda: self._give_up(broken, prepared, log), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        carried = None if is_repeated else self._finished.take(job)
        if carried is not None:
            known = carried
            future = self._scheduler.submit(
                lambda: self._carry_over(known, prepared, log, member), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        limit = self.limit(prepared)
        if member is not None:
            group, room = _BATCHES, sys.maxsize
        else:
            group, room = _ALL_TARGETS if self.options.workers else job.identity.target, limit
        future = self._scheduler.submit(lambda: self._run(job, prepared, log, member), group=group, limit=room)
        return Begun.of(future, limit, prepared, log)

    def limit(self, prepared: PreparedCase) -> int:
        """Return how many cases of a case's kind may be in flight in this process."""
        return self._share.of(self.pace(prepared).limit(self.options))

    def pace(self, prepared: PreparedCase) -> Pace:
        """Return how a case's target wants its cases; one that cannot be used will be told by the case itself."""
        job = prepared.job
        if isinstance(job, EvalResult) or prepared.own.replace_target:
            return _ONE_BY_ONE
        folder, target = key = os.path.dirname(job.case.path), job.identity.target  # noqa: PTH120 - for each case, twice
        if key not in self._paces:
            try:
                self._paces[key] = self._loop.run(self._pool.pace(Path(folder), target))
            except AgentvError:
                self._paces[key] = _ONE_BY_ONE
        return self._paces[key]

    def urge(self, begun: Begun) -> None:
        """Run a case now, whatever the limit: its turn has come."""
        self._end_without_parent()
        self._scheduler.urge(begun.future)

    def give_way(self) -> None:
        """Let the cases in flight go on before this thread does."""
        self._loop.give_way()

    def finish_case(self, begun: Begun, while_waiting: Callable[[], None]) -> EvalResult:
        """Wait for a case's result, and show what was odd about its files."""

        def wait() -> None:
            self._end_without_parent()
            while_waiting()
            self.progress.show(self._scheduler.in_flight)

        result = wait_for(begun.future, wait)
        self.give_way()
        self.progress.clear()
        warnings = [*self._pool.warnings, *self.user_hooks.warnings]
        self._pool.warnings, self.user_hooks.warnings = [], []
        # What is odd about the file as a whole comes with each of its cases, and is said once.
        new = [problem for problem in (*begun.problems, *warnings) if problem not in self._shown]
        self._shown.update(new)
        show_warnings(new)
        return result

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is an event loop's: it must not wait for anything."""
        return self._loop.is_current or USER_LOOP.is_current

    def ask(self, eval_dir: Path, target: str, prompt: str) -> ProviderResponse:
        """Ask a target something that belongs to no case. Raises `AgentvError`."""
        return self._loop.run(ask_target(self._pool, self.options, eval_dir, target, prompt))

    def finish(self) -> None:
        """Cancel what still runs, close the targets, end the loop and close the results file."""
        if self._loop.is_running:
            self._scheduler.hold()
            self._loop.cancel_all()
            self._loop.run(self._pool.close())
            self._loop.stop()
        self._recorder.close()
        self._log_handler.remove()

    def _end_without_parent(self) -> None:
        """End a worker whose controller is at its end: nobody would learn of what it goes on paying for."""
        if self._parent.is_gone():
            self._scheduler.hold()
            pytest.exit("the controller of this worker is gone")

    async def _run(self, job: CaseJob, prepared: PreparedCase, log: CaseLog, member: BatchMember | None) -> EvalResult:
        current_log.set(log)
        hooks, own = prepared.hooks, prepared.own
        result = await run_case(job, self._pool, self._evaluators, member, hooks=hooks, own=own)
        return await self._record(result, prepared)

    async def _carry_over(
        self, carried: Carried, prepared: PreparedCase, log: CaseLog, member: BatchMember | None
    ) -> EvalResult:
        """Take over a result; its line is written again only where it says something new."""
        current_log.set(log)
        if member is not None:
            member.leave()
        resumed = self.identity.resumed
        if not carried.is_changed and (resumed is None or resumed.path == self.identity.results_path):
            self.progress.count(carried.result)
            return carried.result
        return await self._record(carried.result.replace(run_id=self.identity.run_id), prepared)

    async def _give_up(self, broken: EvalResult, prepared: PreparedCase, log: CaseLog) -> EvalResult:
        current_log.set(log)
        return await self._record(broken, prepared)

    async def _record(self, result: EvalResult, prepared: PreparedCase) -> EvalResult:
        """Write a result; its case keeps its place until then: no more is paid for than could be lost in flight."""
        self.progress.count(result)
        self._failures += result.status != "pass"
        if self.stop_reason is not None or 0 < self.max_failures <= self._failures:
            self._scheduler.hold()  # the run is about to stop: nothing more is paid for
        await self._recorder.record(result)
        await tell(prepared.hooks, prepared.case, result)
        # The prompt is in the file now. It may hold the texts of large files, and an item is kept to the end.
        return result.replace(agent_provider_request=None, lm_provider_request=None)
