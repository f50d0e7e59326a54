"""The parts of a run, put together when the first eval file is collected."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agentv.engine.asking import ask_target
from pytest_agentv.engine.targets.fingerprints import Fingerprints
from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pacing import is_first_to_tell
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.targets.environment import find_repo_root
from pytest_agentv.loading.targets.files import find_targets_file, load_targets_file
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.table import KINDS
from pytest_agentv.reporting.writers import ResultSink, kept_folder
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.user_loop import USER_LOOP
from pytest_agentv.session.choosing.asking import Asking
from pytest_agentv.session.choosing.spending import Spending
from pytest_agentv.session.hooking.kinds import HookedKinds
from pytest_agentv.session.hooking.user_hooks import UserHooks
from pytest_agentv.session.options import has_executor, run_options
from pytest_agentv.session.outcomes import show_warnings
from pytest_agentv.session.recording.identity import RunIdentity, run_identity
from pytest_agentv.session.recording.journal import FinishedCases
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.recording.travel import TravellingSink
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.case_runs import CaseRuns
from pytest_agentv.session.running.cases import Cases
from pytest_agentv.session.running.limits import FailureLimit
from pytest_agentv.session.running.paces import Paces
from pytest_agentv.session.running.preparing import CasePreparer
from pytest_agentv.session.running.signing import CaseSigner
from pytest_agentv.session.running.stopping import Stopping
from pytest_agentv.session.showing.live.progress import Progress
from pytest_agentv.session.showing.logs import CaseLogHandler
from pytest_agentv.session.showing.masked_streams import MaskedStreams
from pytest_agentv.session.workers.interrupts import Parent
from pytest_agentv.session.workers.shares import process_share, shared_folder

if TYPE_CHECKING:  # for repeated cases only
    from pytest_agentv.engine.scheduler import Scheduler
    from pytest_agentv.models.results import EvalResult
    from pytest_agentv.session.away.away import Away
    from pytest_agentv.session.recording.answers import AnswerJournal
    from pytest_agentv.session.repeating.repeats import Repeats

_KEY = pytest.StashKey["EvalSession"]()


class EvalSession:
    """Builds the parts of a run, which others use directly, and closes them in the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = run_options(config)
        self.identity: RunIdentity = run_identity(config, self.options)
        self.masker = Masker()
        self.masker.add_environment(os.environ)  # fixtures know these before any target does
        cwd, run_id, share = config.invocation_params.dir, self.identity.run_id, process_share(config)
        is_shared = share.count > 1 or has_executor(config, self.options)
        places = Places(find_repo_root(cwd), cwd, shared_folder(run_id) if is_shared else None)
        self._places = places
        providers = HookedKinds("pytest_agentv_providers", config.hook.pytest_agentv_providers)
        evaluators = EVALUATORS.with_own(HookedKinds("pytest_agentv_evaluators", config.hook.pytest_agentv_evaluators))
        self._loop = LoopThread()
        self._pool = TargetPool(self.options, places, self.masker, providers)
        self.away = self._open_away(config, providers)
        """Where cases run elsewhere; None: all run in this process."""
        sink = ResultSink(self.identity.results_path, self.options.output_format, self.masker)
        home = self.identity.home
        self.travelling = None if home is None or home.is_here() else TravellingSink(sink)
        """Where this process cannot write to the results file: the lines that go home with the reports."""
        self.recorder = Recorder(self.travelling or sink)
        self.preparer = CasePreparer(config, self.options, places, run_id, evaluators)
        self.asking = Asking(config, self.options)
        self.spending = Spending(
            self.options,
            lambda folder: load_targets_file(
                find_targets_file(self.options.targets, folder, places.repo_root, places.cwd), KINDS.with_own(providers)
            ),
        )
        self.user_hooks = UserHooks(config)
        self.failures = FailureLimit(config)
        self.progress = Progress(config)
        self.stopping = Stopping(
            pool=self._pool,
            recorder=self.recorder,
            failures=self.failures,
            parent=Parent(config, run_id),
            masker=self.masker,
        )
        self._finished = FinishedCases(
            self.identity, with_errors=not self.options.retry_errors, is_worker=hasattr(config, "workerinput")
        )
        self._answers: AnswerJournal | None = None
        self.cases = Cases(
            loop=self._loop,
            runs=CaseRuns(
                pool=self._pool,
                recorder=self.recorder,
                progress=self.progress,
                failures=self.failures,
                stopping=self.stopping,
                identity=self.identity,
                away=self.away,
            ),
            paces=Paces(self._loop, self._pool, self.options, share, self._processes),
            signer=CaseSigner(Fingerprints(self._pool, places, dry_run=self.options.dry_run), self._loop),
            finished=self._finished,
            recorder=self.recorder,
            stopping=self.stopping,
            progress=self.progress,
            open_repeats=self._open_repeats,
        )
        self._shown: set[Problem] = set()
        self._log_handler = CaseLogHandler(config, self.masker)
        self._log_handler.install(verbose=self.options.verbose)
        self._streams = MaskedStreams(config, self.masker)
        self._streams.install()

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    def show_warnings(self, begun: Begun) -> None:
        """Show what was odd about a case's files. Raises `AgentvWarning` where the project makes errors of these."""
        warnings = [*self._pool.take_warnings(), *self.user_hooks.warnings]
        self.user_hooks.warnings = []
        # What is odd about the file as a whole comes with each of its cases, and is said once.
        new = [problem for problem in (*begun.problems, *warnings) if problem not in self._shown]
        self._shown.update(new)
        show_warnings(new, self.masker)

    def _open_away(self, config: pytest.Config, providers: HookedKinds) -> "Away | None":
        if not has_executor(config, self.options):
            return None
        from pytest_agentv.executors.kept import KeptResults  # noqa: PLC0415 - for runs with an executor only
        from pytest_agentv.session.away.away import Away  # noqa: PLC0415 - as above
        from pytest_agentv.session.away.choosing import executor_opener, passed_variables, shipper_of  # noqa: PLC0415 - as above

        self.masker.add(passed_variables(self.options, self._places).values())
        shipper = shipper_of(config, self.options, self.identity, self._pool, self._places)
        return Away(
            executor_opener(config, self.options, self.identity, self._places, shipper.roots),
            pool=self._pool,
            shipper=shipper,
            own_providers=providers,
            kept=KeptResults(kept_folder(self.identity.results_path)),
            lost_retries=self.options.lost_retries,
        )

    def _processes(self) -> int:
        """Return how many processes run the cases: as many at once, unless the run or a target says so."""
        executor = None if self.away is None else self.away.executor
        return 1 if executor is None else executor.processes

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is an event loop's: it must not wait for anything."""
        return self._loop.is_current or USER_LOOP.is_current

    def ask(self, eval_dir: Path, target: str, prompt: str) -> ProviderResponse:
        """Ask a target something that belongs to no case. Raises `AgentvError`."""
        return self._loop.run(ask_target(self._pool, self.options, eval_dir, target, prompt))

    def _warn(self, problem: Problem) -> None:
        """Show a warning with those of the next item that has a result, in one process of the run."""
        if is_first_to_tell(self._places.shared_folder, "reruns"):
            self.user_hooks.warnings.append(problem)

    def _open_repeats(self, scheduler: "Scheduler[EvalResult]") -> "Repeats":
        """Make what repeated cases need; single answers are kept where this process can write to the run's files."""
        from pytest_agentv.session.recording.answers import AnswerJournal  # noqa: PLC0415 - for repeated cases only
        from pytest_agentv.session.repeating.repeats import Repeats  # noqa: PLC0415 - for repeated cases only

        if self.travelling is None:
            self._answers = AnswerJournal(self.identity.results_path, self.masker)
        return Repeats(scheduler, self._answers, self._finished, self.progress.count_answer, self._warn)

    def skip_unasked(self, path: Path, target: str, *, has_own_target: bool) -> None:
        """Skip a test that evaluates and that nobody asked for, where the project wants to be asked.

        `path` is its file. With `has_own_target` something of the project stands in for the target.
        """
        if self.asking.is_for_all or self.asking.names(path):
            return
        if self.asking.is_paid_only and (has_own_target or not self.spending.is_paid_target(path.parent, target)):
            return
        pytest.skip(self.asking.reason)

    def finish(self) -> None:
        """Cancel what still runs, close the targets, end the loop and close the results file."""
        is_away_open = self.away is not None and self.away.is_open
        if self._loop.is_running or is_away_open:
            self.stopping.is_ending = True
            self._loop.cancel_all()
            if self.away is not None:
                self._loop.run(self.away.close())
            self._loop.run(self._pool.close())
            self._loop.stop()
        self.recorder.close()
        if self._answers is not None:
            self._answers.close()
        self._log_handler.remove()
        self._streams.remove()
