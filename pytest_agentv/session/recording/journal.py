"""Carries over the finished cases of an earlier run, or of a worker that died, so that they are not paid for again."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob, CaseKey, case_key
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.engine.scoring import effective_threshold
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.checked import iter_recorded
from pytest_agentv.reporting.serialization import stored_name
from pytest_agentv.session.recording.identity import RunIdentity

if TYPE_CHECKING:  # for evals in Python only
    from pytest_agentv.session.recording.earlier import EarlierResults

_OF_NOW: Final = (*("node_id", "line", "row", "combination", "required", "xfail", "xfail_strict", "group", "tags"),)
"""What a result says of its case that may change without another answer."""
_compared_fields: Final = attrgetter(*_OF_NOW, "status", "threshold", "threshold_source", "repeat", "run_id", "shard")
"""What makes a line out of date where it has changed."""


@record
class Carried(Record):
    """A carried-over result."""

    result: EvalResult
    is_changed: bool
    """Whether the last line of the case in the results file is out of date and must be written again."""


class Journal:
    """The results of earlier runs. Each can be taken once."""

    def __init__(self, results: Iterable[EvalResult], run_id: str, *, with_errors: bool) -> None:
        self._run_id = run_id
        self._results: dict[CaseKey, EvalResult] = {}
        self._others: dict[tuple[str | None, CaseKey], EvalResult] = {}
        """Those of further items that ask the same, by node id."""
        self.last: dict[tuple[str | None, str], EvalResult] = {}
        """The last result of each item, which the summary counts."""
        self._fullest: dict[tuple[str | None, CaseKey], tuple[int, EvalResult]] = {}
        """The most answers of each repeated item, and their result. A later one has fewer after a lower `repeat`."""
        self._with_errors = with_errors
        for result in results:
            self.last[result.node_id, result.eval_id] = result
            key = case_key(result, result.target)
            if key is not None:
                self._note(key, result)

    def take(self, job: CaseJob, repeat: int = 1) -> Carried | None:
        """Return the carried-over result of a job, with its status under the current threshold; None: the job must run.

        Drops the comparison with the baseline, which the verdict on this run adds again.
        """
        identity = job.identity
        key = case_key(identity, effective_target_name(identity.target, dry_run=job.options.dry_run))
        result = None if key is None else self._find(key, identity)
        current = None if result is None else _as_of_now(result, job, repeat)
        if key is None or result is None or current is None:
            return None
        self._drop(key, result)
        own = {**current_names_and_rules(identity), "run_id": self._run_id, "shard": identity.shard or result.shard}
        current = current.replace(**own, baseline=None)
        is_last = self.last[result.node_id, result.eval_id] is result
        return Carried(current, is_changed=not is_last or _compared_fields(current) != _compared_fields(result))

    def take_answers(self, job: CaseJob) -> dict[int, EvalResult]:
        """Return the single answers of results that do not suffice, so that they are not asked again."""
        from pytest_agentv.engine.repeating.splitting import numbered_answers, told_before  # noqa: PLC0415 - for repeated cases only

        key = case_key(job.identity, effective_target_name(job.identity.target, dry_run=job.options.dry_run))
        result = None if key is None else self._find(key, job.identity)
        if key is None or result is None:
            return {}
        self._drop(key, result)
        if result.status == "error":
            return {}
        threshold, in_full = effective_threshold(job.options, job.case), job.options.include_answers
        found = numbered_answers(result, threshold, in_full=in_full)
        _, fullest = self._fullest.get((result.node_id, key), (1, result))
        is_whole = not found or fullest is result
        return found if is_whole else {**told_before(numbered_answers(fullest, threshold, in_full=in_full)), **found}

    def _note(self, key: CaseKey, result: EvalResult) -> None:
        """Keep the last result of a case, if the case is finished."""
        self._others.pop((result.node_id, key), None)
        before = self._results.get(key)
        is_own = before is not None and before.node_id == result.node_id
        if self._is_finished(result):
            if before is not None and not is_own:
                self._others[before.node_id, key] = before
            self._results[key] = result
        elif is_own:
            del self._results[key]
        if result.repeat is not None and result.status != "error":
            item, answers = (result.node_id, key), len(result.repeat.scores)
            if answers >= self._fullest.get(item, (0, result))[0]:
                self._fullest[item] = answers, result

    def _is_finished(self, result: EvalResult) -> bool:
        """Whether a case need not run again. Broken cases must, unless errors are carried over too."""
        return result.status != "error" or self._with_errors

    def _find(self, key: CaseKey, identity: CaseIdentity) -> EvalResult | None:
        """Return the result of an item's case: several items may ask the same under one id.

        An item without a result may have been renamed. It gets the result of the same case.
        """
        same = self._results.get(key)
        is_new = (identity.node_id, identity.eval_id) not in self.last
        if is_new or (same is not None and same.node_id == identity.node_id):
            return same
        return self._others.get((identity.node_id, key))

    def _drop(self, key: CaseKey, result: EvalResult) -> None:
        """Forget a result that was taken."""
        if self._results.get(key) is result:
            del self._results[key]
        self._others.pop((result.node_id, key), None)


class FinishedCases:
    """The cases that need not run: those of the resumed run and, in a worker, those of workers that died.

    Raises `FileError` if a results file cannot be read.
    """

    def __init__(self, identity: RunIdentity, *, with_errors: bool, is_worker: bool) -> None:
        self._identity = identity
        self.with_errors = with_errors
        """Whether cases and answers that could not be judged count as finished."""
        self._is_worker = is_worker
        self._crashed_at: int | None = None
        self._journal = self._read()

    def take(self, job: CaseJob, repeat: int = 1) -> Carried | None:
        """Return the carried-over result of a job that is judged by `repeat` answers; None: it must run."""
        crashed_at = _modified_at(self._identity.crash_mark) if self._is_worker else None
        if crashed_at != self._crashed_at:
            self._crashed_at = crashed_at
            self._journal = self._read()
        return None if self._journal is None else self._journal.take(job, repeat)

    def take_answers(self, job: CaseJob) -> dict[int, EvalResult]:
        """Return the single answers of a result that does not suffice, so that they are not asked again."""
        return {} if self._journal is None else self._journal.take_answers(job)

    def earlier(self, node_id: str) -> Sequence[EvalResult]:
        """Return the last results of an item, also errors, and the single answers of its unfinished cases."""
        return () if self._journal is None else self._earlier.of(stored_name(node_id), self._journal.last, self.sources)

    @cached_property
    def _earlier(self) -> "EarlierResults":
        from pytest_agentv.session.recording.earlier import EarlierResults  # noqa: PLC0415 - for evals in Python only

        return EarlierResults()

    @property
    def sources(self) -> dict[Path, str | None]:
        """Return the results files to read, with the id of the run to read; None: all runs in the file."""
        sources: dict[Path, str | None] = {}
        if self._identity.resumed is not None:
            sources[self._identity.resumed.path] = None
        if self._crashed_at is not None:
            sources.setdefault(self._identity.results_path, self._identity.run_id)
        return sources

    def _read(self) -> Journal | None:
        """Read all runs of the resumed file, but only this run's results from its own file.

        The process that owns the terminal reports what cannot be read.
        """
        sources = self.sources
        results = [
            entry.result
            for path, run_id in sources.items()
            if path.is_file()
            for entry in iter_recorded(path, run_id)
            if not isinstance(entry, Problem)
        ]
        return Journal(results, self._identity.run_id, with_errors=self.with_errors) if sources else None


def _as_of_now(result: EvalResult, job: CaseJob, repeat: int) -> EvalResult | None:
    """Return a result with its status under the current rules; None if they require other answers."""
    if repeat > 1 or result.repeat is not None:
        return _repeated(result, job, repeat)
    if job.options.dry_run:
        return result
    from pytest_agentv.engine.requirements import rejudged  # noqa: PLC0415 - for results of earlier runs only

    return rejudged(result, job.case, effective_threshold(job.options, job.case))


def _repeated(result: EvalResult, job: CaseJob, repeat: int) -> EvalResult | None:
    planned = result.repeat.planned if result.repeat else None
    if result.status == "error" or job.options.dry_run:
        return result if planned in (None, repeat) and not _may_be_judged(result, job, repeat) else None
    if planned != repeat:
        return _first_answer(result, job) if repeat == 1 else None
    from pytest_agentv.engine.repeating.combining import judged_anew  # noqa: PLC0415 - for repeated cases only
    from pytest_agentv.engine.repeating.plan import RepeatPlan  # noqa: PLC0415 - for repeated cases only
    from pytest_agentv.engine.requirements import asks_for_threshold  # noqa: PLC0415 - for repeated cases only

    threshold = effective_threshold(job.options, job.case)
    if threshold.value != result.threshold and asks_for_threshold(job.case):
        return None  # the scores of the answers do not tell those of their evaluators
    return judged_anew(result, RepeatPlan.of(job, repeat), threshold)


def _may_be_judged(result: EvalResult, job: CaseJob, repeat: int) -> bool:
    """Whether the rules have changed since a case had too few answers for a verdict. Its answers are kept."""
    from pytest_agentv.engine.repeating.plan import RepeatPlan  # noqa: PLC0415 - for repeated cases only
    from pytest_agentv.statistics.repeats import passing  # noqa: PLC0415 - as above

    figures = result.repeat
    if figures is None or job.options.dry_run:
        return False
    passes = passing(figures.scores, effective_threshold(job.options, job.case).value)
    has_other_scores = passes != figures.passes and not figures.beyond_scores
    return has_other_scores or figures.needed != RepeatPlan.of(job, repeat).needed


def _first_answer(result: EvalResult, job: CaseJob) -> EvalResult | None:
    """Return the first answer of a repeated case as its result; None if its verdict is unknown."""
    from pytest_agentv.engine.repeating.splitting import first_answer  # noqa: PLC0415 - for repeated cases only
    from pytest_agentv.engine.requirements import rejudged  # noqa: PLC0415 - for repeated cases only

    threshold = effective_threshold(job.options, job.case)
    first = first_answer(result, threshold)
    return None if first is None else rejudged(first, job.case, threshold)


def current_names_and_rules(identity: CaseIdentity) -> JsonObject:
    """Return the names of a case and the rules of its run. An earlier result of the same case may have others."""
    return {name: getattr(identity, name) for name in _OF_NOW}


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
