"""From an eval file's entry to a planned job for the engine: its names, its hashes and the limits of its target."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.prompts import asks_nothing
from pytest_agentv.cases.references import LoadContext, LoadedCase
from pytest_agentv.engine.jobs import (
    NO_HOOKS,
    NO_OVERRIDES,
    CaseHooks,
    CaseIdentity,
    CaseJob,
    Overrides,
    choose_judge,
    choose_target,
)
from pytest_agentv.engine.judges import needs_of_case
from pytest_agentv.engine.pool import Pace, Places, TargetPool
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError, CaseError, ErrorKind, HookError, LoopStartError, name_below
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.problems import ASKS_NOTHING, BlankInput, Problem, join_problems, with_problems
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Record
from pytest_agentv.model.cases import AnyEvaluator, EvalCase
from pytest_agentv.model.options import MAX_REPEAT, MAX_WORKERS, RunOptions
from pytest_agentv.model.results import EvalResult, ShardFigures
from pytest_agentv.reports.dumps import CaseLog, current_log
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.compat import expected_failure
from pytest_agentv.session.outcomes import EvalFailed
from pytest_agentv.session.user_hooks import FIXTURES, FolderKinds
from pytest_agentv.session.workers import ProcessShare
from pytest_agentv.store.fingerprints import CaseHashes, digest
from pytest_agentv.store.writers import stored_name
from pytest_agentv.targets.definitions import load_guideline_patterns

# From an eval file's entry to a job for the engine.


@dataclass(frozen=True, slots=True)
class PreparedCase(Record):
    """A job, or the result of a case that cannot be loaded, with the warnings about its file."""

    job: CaseJob | EvalResult
    problems: tuple[Problem, ...] = ()
    hooks: CaseHooks = NO_HOOKS
    own: Overrides = NO_OVERRIDES
    bound_by: str | None = FIXTURES
    """What in this process the case needs, which keeps it from running in another one; None: nothing."""
    log: CaseLog = field(default_factory=CaseLog)
    pace: Pace | None = None
    """The limits of its target; None: it is not planned yet, or cannot be loaded."""

    @property
    def repeat(self) -> int:
        """How many answers the case is judged by; 1 if its answer is given."""
        return 1 if isinstance(self.job, EvalResult) or self.own.answer is not None else self.job.repeat

    def given_up(self, reason: str) -> EvalResult:
        """Return the result of a case that must not or cannot run for an external reason."""
        if isinstance(self.job, EvalResult):
            return self.job
        return error_result(self.job.identity, "setup", "config", reason).replace(duration_ms=0.0)

    @property
    def eval_id(self) -> str:
        return self.job.eval_id if isinstance(self.job, EvalResult) else self.job.identity.eval_id

    @property
    def case(self) -> EvalCase | None:
        """The case; None: it cannot be loaded."""
        return self.job.case if isinstance(self.job, CaseJob) else None

    def marked(self, item: pytest.Item) -> "PreparedCase":
        """Return the case with its item's `xfail` mark. The item's turn must have come."""
        expected = expected_failure(item, EvalFailed)
        if expected is None or isinstance(self.job, EvalResult):
            return self
        reason, is_strict = expected
        identity = self.job.identity.replace(xfail=reason, xfail_strict=is_strict or None)
        return self.replace(job=self.job.replace(identity=identity))


class CasePreparer:
    """Loads cases and names them for the results file."""

    def __init__(
        self, config: pytest.Config, options: RunOptions, places: Places, pool: TargetPool, run_id: str
    ) -> None:
        self.ambiguous_ids: set[str] = set()
        """Ids, in lower case, that several cases share: file systems of macOS treat `a` and `A` alike."""
        self.shard: ShardFigures | None = None
        """The shard of all cases, known when they are collected."""
        self._root = config.rootpath
        self._options = options
        self._places = places
        self._pool = pool
        self._run_id = run_id
        self._own_evaluators = FolderKinds(config, "pytest_agentv_evaluators")
        self._eval_files: dict[Path, str] = {}
        self._hashes = CaseHashes()
        self._contexts: dict[Path, LoadContext] = {}

    def prepare(
        self, suite: SuiteSource, entry: CaseEntry, node_id: str, adjust: Callable[[EvalCase], EvalCase]
    ) -> PreparedCase:
        """Load a case, let `adjust` change it, and make it a job."""
        log = CaseLog()
        of_current_item = current_log.set(log)  # what `adjust` prints is not about the current item
        try:
            loaded = self._load(suite, entry)
            case = adjust(loaded.case)
            warnings = self._warnings(suite, loaded, case)
        except (CaseError, HookError) as error:
            kind = error.kind if isinstance(error, HookError) else "config"
            return PreparedCase(self._error(suite, entry, node_id, kind, str(error)), log=log)
        finally:
            current_log.reset(of_current_item)
        identity = self._identify(
            suite,
            entry,
            node_id,
            dataset=case.dataset,
            target=case.target,
            conversation_id=case.conversation_id,
            required=case.required or None,
            group=case.group,
            expected_outcome=case.expected_outcome or None,
            reference_answer=case.reference_answer or None,
            case_hash=self._hashes.of(suite, loaded, case),
        )
        qualifier = node_id if case.eval_id.casefold() in self.ambiguous_ids else None
        wanted = self._options.repeat
        if wanted is not None and (case.repeat or 1) > wanted:
            message = f"--agentv-repeat={wanted} beats the {case.repeat} answers that its {case.repeat_source} asks for"
            warning = Problem(Path(case.path), case.line, case.eval_id, message, level="warning")
            self._pool.warn_once(warning, "repeat")
        return PreparedCase(CaseJob(identity, case, self._options, qualifier), warnings, log=log)

    def load(self, suite: SuiteSource, entry: CaseEntry) -> EvalCase | None:
        """Return a case as its file has it; None if it cannot be loaded."""
        try:
            return self._load(suite, entry).case
        except AgentvError:
            return None

    def broken(self, suite: SuiteSource, entry: CaseEntry, node_id: str, kind: ErrorKind, reason: str) -> PreparedCase:
        """Return a case that cannot run for an external reason. A resumed run tries it again."""
        return PreparedCase(self._error(suite, entry, node_id, kind, reason))

    def _error(self, suite: SuiteSource, entry: CaseEntry, node_id: str, kind: ErrorKind, reason: str) -> EvalResult:
        identity = self._identify(suite, entry, node_id, dataset=suite.dataset, target=suite.target_of(entry))
        return error_result(identity, "setup", kind, reason).replace(duration_ms=0.0)

    def target_of(self, suite: SuiteSource, entry: CaseEntry) -> str:
        """Return the name of a case's target, as far as it is known before it is loaded."""
        return choose_target(self._options, suite.target_of(entry))

    def planned(self, suite: SuiteSource, entry: CaseEntry) -> int:
        """Return how many answers a case asks for, as far as is known before it is loaded."""
        options, value = self._options, entry.value
        written = (value.get("repeat") if isinstance(value, dict) else None, suite.header.get("repeat"))
        own = next((each for each in written if type(each) is int and 1 <= each <= MAX_REPEAT), None)
        return options.repeat or own or options.ini_repeat or 1

    def eval_file(self, suite: SuiteSource) -> str:
        """Return the file's path in results: relative to the root directory if it is below it."""
        path = suite.path
        if path not in self._eval_files:  # called for each case
            self._eval_files[path] = stored_name(name_below(path, self._root))
        return self._eval_files[path]

    def _identify(
        self, suite: SuiteSource, entry: CaseEntry, node_id: str, *, target: str | None, **of_case: Any
    ) -> CaseIdentity:
        """Name a case, as results files hold its names, so that a resumed run finds it.

        `target` is that of its file; the other names are those that only a loaded case has.
        """
        return CaseIdentity(
            eval_id=stored_name(entry.eval_id if entry.eval_id is not None else node_id.rpartition("::")[2]),
            target=choose_target(self._options, target),
            eval_file=self.eval_file(suite),
            line=entry.line,
            node_id=stored_name(node_id),
            run_id=self._run_id,
            tags=suite.tags(entry) or None,
            row=None if entry.row is None else entry.row.shown_from(self._root),
            combination=None if entry.combination is None else entry.combination.name,
            shard=self.shard,
            dry_run=self._options.dry_run or None,
            **of_case,
        )

    def _warnings(self, suite: SuiteSource, loaded: LoadedCase, case: EvalCase) -> tuple[Problem, ...]:
        """Return the warnings of a case. Hooks may have changed what it asks. Raises `CaseError` in a strict run."""
        if loaded.case.question and case is loaded.case:
            return loaded.warnings
        blank = next((each for each in loaded.warnings if isinstance(each, BlankInput)), None)
        rest = tuple(each for each in loaded.warnings if each is not blank)
        if not suite.is_asked or case.user is not None or not asks_nothing(case.input_messages, case.messages):
            return rest
        blank = blank or BlankInput(Path(case.path), case.line, case.eval_id, ASKS_NOTHING, level="warning")
        if self._options.strict:
            raise with_problems(CaseError(str(blank)), [*rest, blank])
        return *rest, blank

    def _load(self, suite: SuiteSource, entry: CaseEntry) -> LoadedCase:
        from pytest_agentv.cases.cases import load_case  # noqa: PLC0415 - imports pydantic

        return load_case(suite, entry, self._context(folder_of(suite.path)))

    def _context(self, eval_dir: Path) -> LoadContext:
        """Return the context of a folder. Raises `CaseError` for a broken config file; if strict, for an odd one."""
        if eval_dir not in self._contexts:
            patterns, problems = load_guideline_patterns(eval_dir, self._places.repo_root)
            errors = problems if self._options.strict else [each for each in problems if each.level == "error"]
            if errors:
                raise CaseError(join_problems(errors))
            self._pool.warnings.extend(problems)
            self._contexts[eval_dir] = LoadContext(
                repo_root=self._places.repo_root,
                cwd=self._places.cwd,
                guideline_patterns=patterns,
                strict=self._options.strict,
                unknown_keys=self._options.unknown_keys,
                evaluators=EVALUATORS.with_own(self._own_evaluators(eval_dir)),
            )
        return self._contexts[eval_dir]


# Plans a case: its hashes, by which a later run decides whether its result is still valid, and its limits.

_HASH_DIGITS: Final = 8
_MOCK: Final = digest({"kind": "mock"})
_GIVEN: Final = digest({"kind": "answer"})


class _Known(NamedTuple):
    """What is known of a target. One that cannot be resolved has no hash and the default limits: its case says why."""

    hash: str | None
    judge: str
    """The name of the target that judges its answers."""
    pace: Pace


def _named(judges: Iterable[tuple[str, str | None]]) -> str | None:
    """Return the judges with the first digits of their hashes: `gpt@0a1b2c3d, claude@4e5f6a7b`; None: there is none."""
    return ", ".join(dict.fromkeys(f"{name}@{(made or '')[:_HASH_DIGITS]}" for name, made in judges)) or None


class Planner:
    """Plans cases: whom each asks, who judges, and how many may be in flight.

    It looks at each target of a folder once, on the event loop, which pytest's thread waits for.
    """

    def __init__(
        self,
        pool: TargetPool,
        loop: LoopThread,
        options: RunOptions,
        share: ProcessShare,
        processes: Callable[[], int],
    ) -> None:
        """`processes` returns how many processes run the cases of this one."""
        self._pool = pool
        self._loop = loop
        self._options = options
        self._share = share
        self._processes = processes
        self._default_pace = Pace(options.workers or 1)
        """That of targets that cannot be resolved, and of objects of users."""
        self._targets: dict[tuple[Path, str], _Known] = {}
        self._last: tuple[Sequence[AnyEvaluator], str, str | None] | None = None

    def plan(self, prepared: PreparedCase) -> PreparedCase:
        """Return a case with its hashes and the pace of its target. A case that is planned already stays the same."""
        job = prepared.job
        if isinstance(job, EvalResult) or prepared.pace is not None:
            return prepared
        folder, name, own = job.case.folder, job.identity.target, prepared.own
        needs = needs_of_case(job.case)
        evaluators = needs.evaluators
        user = job.case.user
        others = needs.embeddings if user is None else (*needs.embeddings, user.target)
        chosen = choose_judge(self._options, job.case.judge)
        needs_own = own.judge is None and (None in needs.judges or needs.targets)
        named = (*filter(None, needs.judges), *([chosen] if chosen is not None and needs_own else []))
        try:
            self._look_at(folder, name, (*others, *named), has_judge=needs_own and chosen is None)
        except LoopStartError:  # whoever starts the case says it
            return prepared
        target = self._targets[folder, name]
        default = chosen or target.judge
        judges = [
            (each or default, self._judge_hash(folder, each or default, own if each is None else NO_OVERRIDES))
            for each in needs.asked
        ]
        judges += [(each, self._targets[folder, each].hash) for each in needs.embeddings]
        hashes = [made for _, made in judges if made is not None]
        judge = " ".join(hashes) if len(hashes) == len(judges) else None
        target_hash = self._target_hash(target, own)
        if user is not None and not self._options.dry_run:
            made = self._targets[folder, user.target].hash
            target_hash = None if target_hash is None or made is None else digest([target_hash, made])
        identity = job.identity.replace(
            target_hash=target_hash,
            grading_hash=None if judge is None else self._grading_hash(evaluators, judge),
            judge=None if judge is None else _named(judges),
        )
        pace = self._default_pace if own.replace_target else target.pace
        return prepared.replace(job=job.replace(identity=identity), pace=pace)

    def limit(self, planned: PreparedCase) -> int:
        """Return how many cases of the same target may be in flight in this process."""
        processes = self._processes()
        limit = (planned.pace or self._default_pace).workers or processes
        return self._share.of(min(limit, processes * MAX_WORKERS))

    def _look_at(self, folder: Path, name: str, others: Sequence[str], *, has_judge: bool) -> None:
        """Learn a target, its judge and others of a folder. Waits for the loop once, if one of them is new."""
        known = self._targets.get((folder, name))
        names = (name, *others, *((known.judge,) if known is not None and has_judge else ()))
        if any((folder, each) not in self._targets for each in names):
            self._loop.run(self._learn(folder, names, has_judge=has_judge))

    async def _learn(self, folder: Path, names: Sequence[str], *, has_judge: bool) -> None:
        for name in names:
            self._targets[folder, name] = self._known(folder, name)
        judge = self._targets[folder, names[0]].judge
        if has_judge and (folder, judge) not in self._targets:
            self._targets[folder, judge] = self._known(folder, judge)

    def _known(self, folder: Path, name: str) -> _Known:
        try:
            pace = self._pool.pace(folder, name)
        except (AgentvError, OSError):
            pace = self._default_pace
        try:
            target = self._pool.definition(folder, name)
        except (AgentvError, OSError):
            return _Known(None, name, pace)
        made = _MOCK if self._options.dry_run else self._pool.fingerprints.of_target(target)
        return _Known(made, target.judge_target or name, pace)

    def _target_hash(self, target: _Known, own: Overrides) -> str | None:
        if self._options.dry_run:
            return _MOCK
        if own.answer is not None:
            return _GIVEN
        if own.provider is None:
            return target.hash
        made = self._pool.fingerprints.of_object(own.provider, own.provider_files)
        if own.calls is None or made is None:
            return made
        return None if target.hash is None else digest([made, target.hash])

    def _judge_hash(self, folder: Path, judge: str, own: Overrides) -> str | None:
        if self._options.dry_run:
            return _MOCK
        if own.judge is not None:
            return self._pool.fingerprints.of_object(own.judge, own.judge_files)
        return self._targets[folder, judge].hash

    def _grading_hash(self, evaluators: Sequence[AnyEvaluator], judge: str) -> str | None:
        """Return the hash of evaluators. Consecutive cases often share those of their file."""
        last = self._last  # tests may evaluate in several threads
        if last is not None and last[0] is evaluators and last[1] == judge:
            return last[2]
        grading = self._pool.fingerprints.of_grading(evaluators, judge)
        self._last = (evaluators, judge, grading)
        return grading
