"""The parts of a run: its engine, its records, and what pytest's hooks ask them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agentv.engine.jobs import CaseJob, choose_judge
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.engine.stored import RejudgedFile
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.table import KINDS
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.case_runs import Begun, CaseCosts, CaseRuns, Stopping
from pytest_agentv.session.identity import RunIdentity, run_identity
from pytest_agentv.session.masks import CaseLogHandler, route_prints
from pytest_agentv.session.options import has_executor, run_options
from pytest_agentv.session.outcomes import show_warnings
from pytest_agentv.session.plan import CasePreparer, Planner, PreparedCase
from pytest_agentv.session.progress import Progress
from pytest_agentv.session.recorder import Recorder
from pytest_agentv.session.resume import FinishedCases
from pytest_agentv.session.run_results import KnownLines
from pytest_agentv.session.selection import Asking, Spending
from pytest_agentv.session.user_hooks import MASKER, FolderKinds, UserHooks
from pytest_agentv.session.workers import process_share, shared_folder
from pytest_agentv.store.answers import STORE_FILE, AnswerStore, Runs
from pytest_agentv.store.writers import ResultSink
from pytest_agentv.targets.definitions import TargetsFile, find_repo_root, find_targets_file, load_targets_file

if TYPE_CHECKING:
    from pytest_agentv.session.away import Away
    from pytest_agentv.session.flight import Flight
    from pytest_agentv.session.gates import JudgedCases


def _store(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, warn_once: Callable[[Problem, str], None]
) -> AnswerStore | None:
    """Return the store of answers; None: none are kept."""
    asks_each = getattr(config, "workerinput", {}).get("agentv_dist") == "each"  # all workers ask for the same cases
    if options.dry_run or not options.keep_answers or asks_each:
        return None
    path, resumed = config.rootpath / STORE_FILE, identity.resumed or identity.rejudged
    runs = Runs(
        path,
        identity.run_id,
        identity.results_path,
        None if resumed is None else resumed.path,
        None if resumed is None else resumed.run_id,
        any_run=options.cache,
        rejudge=identity.rejudged is not None,
        keep_days=options.keep_answers,
    )

    def tell(reason: str) -> None:
        message = f"answers cannot be kept, so that a run which goes on with this one pays for them again: {reason}"
        warn_once(Problem(path, None, "", message, level="warning"), "store")

    return AnswerStore(runs, tell)


_KEY = pytest.StashKey["EvalSession"]()


class EvalSession:
    """The parts of a run, built when the first eval file is collected, and closed in the end."""

    flight: "Flight"
    """What is in flight. Set when the run begins to take part."""
    judged: "JudgedCases | None" = None
    """Set as well, if the run as a whole is judged."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = options = run_options(config)
        self.identity: RunIdentity = run_identity(config, options)
        self.masker = config.stash[MASKER] = Masker.of_environment()  # fixtures may see secrets before a target is read
        self._open_engine(config)
        self._open_records(config)
        self.preparer = CasePreparer(config, options, self.places, self.pool, self.identity.run_id)
        self.asking = Asking(config, options, self.identity.named)
        self.spending = Spending(self._targets_of)
        self.user_hooks = UserHooks(config)
        self.progress = Progress(config)
        self.stopping = Stopping(config, self.pool, self.recorder, self.identity.run_id)
        is_alone = not hasattr(config, "workerinput") and config.getoption("dist", "no") == "no"
        costs = CaseCosts(self.store, self.finished, has_others=self.identity.resumed is not None or not is_alone)
        self.runs = CaseRuns(self.pool, self.recorder, self.progress, self.stopping, self.identity, self.away, costs)
        self._shown: set[Problem] = set()
        self._known_folders: set[Path] = set()
        self._log_handler = CaseLogHandler(config, self.masker)
        self._log_handler.install(verbose=options.verbose)
        self.stop_routing = route_prints(config, self.masker)
        """Called last, because threads that a run has abandoned may print to its end."""

    def _open_engine(self, config: pytest.Config) -> None:
        options, identity, cwd = self.options, self.identity, config.invocation_params.dir
        share, uses_executor = process_share(config), has_executor(config, options)
        shared = shared_folder(identity.run_id) if share.count > 1 or uses_executor else None
        repo_root, root = find_repo_root(cwd), find_repo_root(config.rootpath)
        is_known = config.inipath is not None or (root / ".git").exists()  # wherever pytest is started
        self.places = Places(repo_root, cwd, shared, root=root if is_known else repo_root)
        self.loop = LoopThread()
        self._providers = FolderKinds(config, "pytest_agentv_providers")
        self.pool = TargetPool(options, self.places, self.masker, self._providers)
        self.pool.store = self.store = _store(config, options, identity, self.pool.warn_once)
        """The store of answers; None: none are kept."""
        if identity.rejudged is not None:
            self.pool.rejudged = RejudgedFile(identity.rejudged.path)
        self.away: Away | None = None
        """Runs cases in other processes; None: all run in this one."""
        if uses_executor:
            from pytest_agentv.session import away  # noqa: PLC0415 - only for runs with an executor

            run_id, pool, own = identity.run_id, self.pool, self._providers
            self.away = away.Away(config, options, self.places, run_id, pool=pool, own_providers=own)
        self.planner = Planner(self.pool, self.loop, options, share, self._processes)

    def _open_records(self, config: pytest.Config) -> None:
        """Make what writes the results of this run, and what knows those of the runs before it."""
        identity, options, is_worker = self.identity, self.options, hasattr(config, "workerinput")
        self.known_lines = KnownLines()
        tell = None if is_worker else self.known_lines.note  # a worker's controller reads the file
        sink = ResultSink(identity.results_path, options.output_format, self.masker, tell)
        self.recorder = Recorder(sink)
        self.finished = FinishedCases(identity, with_errors=not options.retry_errors, is_worker=is_worker)
        """The results of the runs that this one goes on with."""

    def _targets_of(self, folder: Path) -> TargetsFile:
        """Read the targets file of the eval files in a folder. Raises `AgentvError`."""
        path = find_targets_file(self.options.targets_file, folder, self.places.repo_root, self.places.cwd)
        return load_targets_file(path, KINDS.with_own(self._providers(folder)), self.options.unknown_keys)

    def _processes(self) -> int:
        """Return how many cases the executor runs at a time, unless the run or a target sets a limit."""
        workers = None if self.away is None else self.away.workers
        return 1 if workers is None else workers.slots

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    def show_warnings(self, begun: Begun) -> None:
        """Show the warnings about a case's files. Raises `AgentvWarning` if the project turns warnings into errors."""
        warnings = [*self.pool.take_warnings(), *self.user_hooks.warnings]
        self.user_hooks.warnings = []
        # Each case brings the warnings about its file; they are shown once.
        new = [problem for problem in (*begun.problems, *warnings) if problem not in self._shown]
        self._shown.update(new)
        show_warnings(new, self.masker)

    def learn_secrets(self, folder: Path) -> None:
        """Mask the secrets of a folder's `.env`, before fixtures run that read them. Keeps no variable for targets."""
        if folder not in self._known_folders:
            self._known_folders.add(folder)
            with suppress(AgentvError, OSError):  # the evaluations report a file that cannot be read
                self.masker.add_environment(self.places.environment(folder, {}).dotenv)

    def skip_unasked(self, path: Path, target: str, *, has_own_target: bool) -> None:
        """Skip a test with evaluations if the project runs evals only on request, and nobody requested this one."""
        is_paid = lambda: not has_own_target and self.spending.is_paid_target(path.parent, target)  # noqa: E731
        if self.asking.refuses(path, is_paid):
            pytest.skip(self.asking.reason)

    def is_unasked(self, prepared: PreparedCase) -> bool:
        """Whether a case costs money that nobody asked to spend. A hook may have changed whom it asks."""
        job = prepared.job
        if not self.asking.is_paid_only or not isinstance(job, CaseJob):
            return False
        case, target, judge = job.case, job.identity.target, choose_judge(self.options, job.case.judge)
        own = prepared.own.fixtures
        return self.asking.refuses(Path(case.path), lambda: self.spending.is_paid(case, target, own, judge))

    def finish(self) -> None:
        """Cancel what still runs, close the targets, end the loop and close the results file."""
        if self.loop.is_running or (self.away is not None and self.away.is_open):
            self.stopping.is_ending = True
            self.loop.cancel_all()
            if self.away is not None:
                self.loop.run(self.away.close())
            self.loop.run(self.pool.close())
            self.loop.stop()
            if self.store is not None:
                self.store.close()
        self.recorder.close()
        self._log_handler.remove()
