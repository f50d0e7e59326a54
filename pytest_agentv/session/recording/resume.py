"""Carries over the finished cases and single answers of an earlier run, or of a worker that died."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob, CaseKey, case_key
from pytest_agentv.engine.judging import asks_for_threshold
from pytest_agentv.engine.results import decide_status, effective_target_name, effective_threshold
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.store.readers import iter_recorded
from pytest_agentv.store.writers import stored_name

# Carries over the finished cases of an earlier run, or of a worker that died, so that they are not paid for again.

_OF_NOW: Final = tuple(name for name, field in RESULT_FIELDS.items() if field.is_current)
"""What a result says of its case that may change without another answer."""
_compared_fields: Final = attrgetter(*_OF_NOW, "status", "threshold", "threshold_source", "repeat", "run_id", "shard")
"""What makes a line out of date where it has changed."""


@dataclass(frozen=True, slots=True)
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

    def earlier(self, node_id: str) -> Sequence[EvalResult]:
        """Return the last results of an item, also errors."""
        if self._journal is None:
            return ()
        return [each for (item, _), each in self._journal.last.items() if item == stored_name(node_id)]

    def last(self, node_id: str, eval_id: str) -> EvalResult | None:
        """Return the last result of a case, also an error."""
        return None if self._journal is None else self._journal.last.get((node_id, eval_id))

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
    """Return a result with its status under the current rules; None: they ask for other answers or judgements.

    Then the case runs: the store has its answers and their judgements.
    """
    threshold = effective_threshold(job.options, job.case)
    figures = result.repeat
    if repeat > 1 or figures is not None:
        from pytest_agentv.engine.repeats import RepeatPlan  # noqa: PLC0415 - for repeated cases only

        plan = RepeatPlan.of(job, repeat)
        is_same = figures is None or (figures.planned, figures.needed) == (repeat, plan.needed)
        has_all = figures is None or (figures.asked == repeat and figures.stopped is None)
        is_whole = has_all or plan.stops_early or result.status == "error"
        if not is_same or not is_whole or (figures is None and result.status != "error"):
            return None
        return result if job.options.dry_run or result.threshold in (None, threshold.value) else None
    if result.status == "error" or result.assertion is not None or result.dry_run or job.options.dry_run:
        return result  # a hook's decision stands
    if result.threshold != threshold.value and asks_for_threshold(job.case):
        return None
    status = decide_status(result.score, threshold.value, result.unmet_required)
    return result.replace(status=status, threshold=threshold.value, threshold_source=threshold.source)


def current_names_and_rules(identity: CaseIdentity) -> JsonObject:
    """Return the names of a case and the rules of its run. An earlier result of the same case may have others."""
    return {name: getattr(identity, name) for name in _OF_NOW}


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
