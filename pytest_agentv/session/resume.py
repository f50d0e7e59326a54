"""What becomes of the cases of an earlier run, or of a worker that died: finished ones are carried over."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from pytest_agentv.cases.discovery import is_eval_file
from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.jobs import CaseIdentity, CaseJob, CaseKey, case_key, choose_target
from pytest_agentv.engine.judges import needs_of_case
from pytest_agentv.engine.results import decide_status, effective_target_name, effective_threshold, error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.outcomes import unique_names
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
        self._results: dict[CaseKey, dict[str | None, EvalResult]] = {}
        """The last results of finished cases, by node id: several items may ask the same under one id."""
        self.last: dict[tuple[str | None, str], EvalResult] = {}
        """The last result of each item, which the summary counts."""
        for result in results:
            self.last[result.node_id, result.eval_id] = result
            if (key := case_key(result, result.target)) is not None:
                same = self._results.setdefault(key, {})
                same.pop(result.node_id, None)
                if result.status != "error" or with_errors:
                    same[result.node_id] = result

    def take(self, job: CaseJob, repeat: int = 1) -> Carried | None:
        """Return the carried-over result of a job, with its status under the current threshold; None: the job must run.

        Drops the comparison with the baseline, which the verdict on this run adds again.
        """
        identity = job.identity
        key = case_key(identity, effective_target_name(identity.target, dry_run=job.options.dry_run))
        same = self._results.get(key, {}) if key is not None else {}
        node_id: str | None = identity.node_id
        if (node_id, identity.eval_id) not in self.last:  # it may have been renamed
            node_id = next(reversed(same), node_id)
        result = same.get(node_id)
        current = None if result is None else _as_of_now(result, job, repeat)
        if result is None or current is None:
            return None
        del same[node_id]
        own = {name: getattr(identity, name) for name in _OF_NOW}
        own |= {"run_id": self._run_id, "shard": identity.shard or result.shard, "baseline": None}
        current = current.replace(**own)
        is_last = self.last[result.node_id, result.eval_id] is result
        return Carried(current, is_changed=not is_last or _compared_fields(current) != _compared_fields(result))


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
        crashed_at = None
        if self._is_worker:
            with suppress(OSError):  # no worker has died
                crashed_at = self._identity.crash_mark.stat().st_mtime_ns
        if crashed_at != self._crashed_at:
            self._crashed_at = crashed_at
            self._journal = self._read()
        return self._journal.take(job, repeat)

    def earlier(self, node_id: str) -> Sequence[EvalResult]:
        """Return the last results of an item, also errors."""
        return [each for (item, _), each in self._journal.last.items() if item == stored_name(node_id)]

    def last(self, node_id: str, eval_id: str) -> EvalResult | None:
        """Return the last result of a case, also an error."""
        return self._journal.last.get((node_id, eval_id))

    def _read(self) -> Journal:
        """Read all runs of the resumed file, but only this run's results from its own file.

        The process that owns the terminal reports what cannot be read.
        """
        identity = self._identity
        sources: dict[Path, str | None] = {} if identity.resumed is None else {identity.resumed.path: None}
        if self._crashed_at is not None:
            sources.setdefault(identity.results_path, identity.run_id)
        entries = (entry for path, run_id in sources.items() if path.is_file() for entry in iter_recorded(path, run_id))
        results = [entry.result for entry in entries if not isinstance(entry, Problem)]
        return Journal(results, identity.run_id, with_errors=self.with_errors)


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
    if result.threshold != threshold.value and needs_of_case(job.case).threshold:
        return None
    status = decide_status(result.score, threshold.value, result.unmet_required)
    return result.replace(status=status, threshold=threshold.value, threshold_source=threshold.source)


# The results of cases on which a worker died. The controller has not collected them: it reads their eval files.

_CaseFile: TypeAlias = tuple[SuiteSource | None, Mapping[str, CaseEntry]]
"""An eval file, None if it cannot be read, and its cases by the names of their items."""


class CrashResults:
    """Builds results of cases by their node ids, which are all that the controller knows. Reads each eval file once.

    Skips items of other plugins.
    """

    def __init__(self, config: pytest.Config, run: RunIdentity, options: RunOptions) -> None:
        self._config = config
        self._run = run
        self._options = options
        self._files: dict[str, _CaseFile | None] = {}

    def is_case(self, node_id: str) -> bool:
        return self._find(node_id) is not None

    def of(self, node_id: str, message: str) -> EvalResult | None:
        """Return the error of a case; None for an item of another plugin."""
        found = self._find(node_id)
        if found is None:
            return None
        suite, entry = found
        path, _, name = node_id.partition("::")
        identity = CaseIdentity(
            eval_id=entry.eval_id if entry and entry.eval_id else name,
            dataset=suite.dataset if suite else Path(path).stem,
            target=choose_target(self._options, suite.target_of(entry) if suite else None),
            eval_file=path,
            line=entry.line if entry else 1,
            node_id=node_id,
            run_id=self._run.run_id,
            combination=entry.combination.name if entry and entry.combination else None,
            row=entry.row.shown_from(self._config.rootpath) if entry and entry.row else None,
            dry_run=self._options.dry_run or None,
        )
        return error_result(identity, "setup", "crash", message)

    def _find(self, node_id: str) -> tuple[SuiteSource | None, CaseEntry | None] | None:
        """Return the eval file and the case of an item, as far as the file can be read; None: it is no case."""
        path, _, name = node_id.partition("::")
        if path not in self._files:
            self._files[path] = self._read(self._config.rootpath / path)
        file = self._files[path]
        if file is None:
            return None
        suite, entries = file
        entry = entries.get(name.rpartition("@")[0]) or entries.get(name)  # `--dist=loadgroup` appends a group
        return None if suite is not None and entry is None else (suite, entry)

    def _read(self, path: Path) -> _CaseFile | None:
        config, is_named = self._config, path in self._run.named
        try:
            if not is_eval_file(path, root=config.rootpath, is_named=is_named, globs=config.getini("agentv_files")):
                return None
            suite = read_suite(path, call_row_maker, self._options.chosen_targets)
        except (AgentvError, OSError):
            return None, {}
        names = unique_names(entry.base_name for entry in suite.entries)
        return suite, dict(zip(names, suite.entries, strict=True))
