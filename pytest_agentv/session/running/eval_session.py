"""Builds the parts of a run when the first eval file is collected."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.targets.judging import evaluators_of
from pytest_agentv.engine.targets.pacing import is_first_to_warn
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.session.choosing.asking import Asking
from pytest_agentv.session.choosing.spending import Spending
from pytest_agentv.session.hooking.kinds import FolderKinds
from pytest_agentv.session.hooking.user_hooks import MASKER, UserHooks
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import show_warnings
from pytest_agentv.session.recording.identity import RunIdentity, run_identity
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.recording.records import RunRecords
from pytest_agentv.session.recording.run_results import KnownLines
from pytest_agentv.session.recording.travel import TravellingSink
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.case_runs import CaseRuns
from pytest_agentv.session.running.cases import Cases
from pytest_agentv.session.running.engine import RunEngine
from pytest_agentv.session.running.preparing import CasePreparer, PreparedCase
from pytest_agentv.session.running.stopping import FailureLimit, Stopping
from pytest_agentv.session.showing.live.progress import Progress
from pytest_agentv.session.showing.logs import CaseLogHandler, route_prints
from pytest_agentv.session.workers.interrupts import Parent

if TYPE_CHECKING:  # only for repeated cases, executors and objects that ask targets
    from pytest_agentv.engine.scheduler import Scheduler
    from pytest_agentv.models.results import EvalResult
    from pytest_agentv.providers.python.own_calls import OwnCall
    from pytest_agentv.session.away.away import Away
    from pytest_agentv.session.repeating.repeats import Repeats

_KEY = pytest.StashKey["EvalSession"]()


class EvalSession:
    """Builds the parts of a run, which others use directly, and closes them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = run_options(config)
        self.identity: RunIdentity = run_identity(config, self.options)
        self.masker = config.stash[MASKER] = Masker.of_environment()  # fixtures may see secrets before a target is read
        self._engine = RunEngine(config, self.options, self.identity, self.masker)
        self._records = RunRecords(self.identity, self.options, self.masker, is_worker=hasattr(config, "workerinput"))
        own = FolderKinds(config, "pytest_agentv_evaluators")
        self.preparer = CasePreparer(config, self.options, self._engine.places, self.identity.run_id, own)
        self.asking = Asking(config, self.options)
        self.spending = Spending(self._engine.targets_of)
        self.user_hooks = UserHooks(config)
        self.failures = FailureLimit(config)
        self.progress = Progress(config)
        self.stopping = Stopping(
            pool=self._engine.pool,
            recorder=self.recorder,
            failures=self.failures,
            parent=Parent(config, self.identity.run_id),
            masker=self.masker,
        )
        self.cases = self._open_cases()
        self._shown: set[Problem] = set()
        self._known_folders: set[Path] = set()
        self._log_handler = CaseLogHandler(config, self.masker)
        self._log_handler.install(verbose=self.options.verbose)
        self.stop_routing = route_prints(config, self.masker)
        """Called last, because threads that a run has abandoned may print to its end."""

    def _open_cases(self) -> Cases:
        engine, records = self._engine, self._records
        runs = CaseRuns(
            pool=engine.pool,
            signer=engine.signer,
            recorder=records.recorder,
            progress=self.progress,
            failures=self.failures,
            stopping=self.stopping,
            identity=self.identity,
            away=engine.away,
        )
        return Cases(
            loop=engine.loop,
            runs=runs,
            paces=engine.paces(),
            signer=engine.signer,
            finished=records.finished,
            recorder=records.recorder,
            stopping=self.stopping,
            progress=self.progress,
            open_repeats=self._open_repeats,
        )

    @property
    def away(self) -> "Away | None":
        """Runs cases in other processes; None: all run in this one."""
        return self._engine.away

    @property
    def recorder(self) -> Recorder:
        return self._records.recorder

    @property
    def known_lines(self) -> KnownLines:
        return self._records.known

    @property
    def travelling(self) -> TravellingSink | None:
        """Collects the lines that reports take to the controller, if this process cannot write to the results file."""
        return self._records.travelling

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    def show_warnings(self, begun: Begun) -> None:
        """Show the warnings about a case's files. Raises `AgentvWarning` if the project turns warnings into errors."""
        warnings = [*self._engine.pool.take_warnings(), *self.user_hooks.warnings]
        self.user_hooks.warnings = []
        # Each case brings the warnings about its file; they are shown once.
        new = [problem for problem in (*begun.problems, *warnings) if problem not in self._shown]
        self._shown.update(new)
        show_warnings(new, self.masker)

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on an event loop, so that it must not wait for anything."""
        return self._engine.is_own_thread

    def ask(self, eval_dir: Path, target: str, prompt: str) -> ProviderResponse:
        """Ask a target something outside of any case. Raises `AgentvError`."""
        return self._engine.ask(eval_dir, target, prompt)

    def ask_for_call(self, call: "OwnCall", prompt: str) -> ProviderResponse:
        """Ask the target that a user's object stands in for, as a part of a call of it. Raises `AgentvError`."""
        return self._engine.ask_for_call(call, prompt)

    def _warn(self, problem: Problem) -> None:
        """Show a warning with the next item that has a result, in only one process of the run."""
        if is_first_to_warn(self._engine.places.shared_folder, "reruns"):
            self.user_hooks.warnings.append(problem)

    def _open_repeats(self, scheduler: "Scheduler[EvalResult]") -> "Repeats":
        from pytest_agentv.session.repeating.repeats import Repeats  # noqa: PLC0415 - only for repeated cases

        records, settle = self._records, self._engine.pool.waiting.settle
        journal, tell = records.open_answers(), self.progress.count_answer
        return Repeats(scheduler, journal, records.finished, tell, self._warn, settle=settle)

    def begin_again(
        self, config: pytest.Config, result: "EvalResult", prepare: Callable[[], PreparedCase]
    ) -> Begun | None:
        """Start to ask a case again whose result looks broken; None: it does not, or nobody judges.

        Used in a run with a baseline for cases whose fixtures end with their items.
        """
        from pytest_agentv.session.gating.suspicion import fresh_answers  # noqa: PLC0415 - only for runs with a baseline

        is_error = result.status == "error"
        answers = 0 if is_error else fresh_answers(config, self.options, result, self.failures.maximum)
        signed = self.cases.sign(prepare()) if answers else None
        if signed is None or signed.case is None:
            return None
        return self.cases.begin_again(signed, result, answers)

    def learn_secrets(self, folder: Path) -> None:
        """Mask the secrets of a folder's `.env`, before fixtures run that read them. Keeps no variable for targets."""
        if folder not in self._known_folders:
            self._known_folders.add(folder)
            with suppress(AgentvError, OSError):  # the evaluations report a file that cannot be read
                self.masker.add_environment(self._engine.places.environment(folder, {}).dotenv)

    def skip_unasked(self, path: Path, target: str, *, has_own_target: bool) -> None:
        """Skip a test with evaluations if the project runs evals only on request, and nobody requested this one.

        `path` is its file. With `has_own_target`, an object of the project replaces the target.
        """
        if self._is_asked(path):
            return
        if self.asking.is_paid_only and (has_own_target or not self.spending.is_paid_target(path.parent, target)):
            return
        pytest.skip(self.asking.reason)

    def is_unasked(self, prepared: PreparedCase) -> bool:
        """Whether a case costs money that nobody asked to spend. A hook may have changed whom it asks."""
        job = prepared.job
        if not self.asking.is_paid_only or not isinstance(job, CaseJob) or self._is_asked(Path(job.case.path)):
            return False
        evaluators = evaluators_of(job.case)
        return self.spending.is_paid(job.case.folder, job.identity.target, evaluators, prepared.own.fixtures)

    def _is_asked(self, path: Path) -> bool:
        return self.asking.is_for_all or self.asking.names(path)

    def finish(self) -> None:
        """Cancel what still runs, close the targets, end the loop and close the results file."""
        if self._engine.is_open:
            self.stopping.is_ending = True
            self._engine.close()
        self._records.close()
        self._log_handler.remove()
