"""The finished cases of an earlier run, or of a worker that died: carried over instead of being paid for again."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_agentv.engine.case import CaseJob
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.engine.scoring import decide_status, effective_threshold
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.readers import iter_results
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.last_run import JournalSource

_Key: TypeAlias = tuple[str, str, str, str]
"""Eval file, raw case id, target, hash of the case's content."""


@dataclass(frozen=True, slots=True)
class Carried(Record):
    """A result that need not be paid for again."""

    result: EvalResult
    is_changed: bool
    """Whether the threshold of now gives it another status than its line in the file."""


class Journal:
    """The results of a run, to be taken once each."""

    def __init__(self, records: Iterable[JsonObject], *, with_errors: bool) -> None:
        self._results: dict[_Key, EvalResult] = {}
        for record in records:
            result = EvalResult.from_plain(record)
            if result.case_hash is not None:
                key = (result.eval_file or "", result.eval_id, result.target, result.case_hash)
                self._note(key, result, with_errors=with_errors)

    def take(self, job: CaseJob) -> Carried | None:
        """Return the result of a job that need not run; its status follows the threshold of now, or a hook of then."""
        identity = job.identity
        target = effective_target_name(identity.target, dry_run=job.options.dry_run)
        result = self._results.pop((identity.eval_file, identity.eval_id, target, identity.case_hash or ""), None)
        if result is None:
            return None
        current = result.replace(node_id=identity.node_id, line=identity.line)
        if result.status != "error" and result.assertion is None and not job.options.dry_run:
            threshold = effective_threshold(job.options, job.case)
            status = decide_status(result.score, threshold.value, result.unmet_required)
            current = current.replace(status=status, threshold=threshold.value, threshold_source=threshold.source)
        return Carried(current, is_changed=current.status != result.status or current.node_id != result.node_id)

    def _note(self, key: _Key, result: EvalResult, *, with_errors: bool) -> None:
        """Keep the last word on a case; a case that broke is not finished unless errors are carried over as well."""
        self._results.pop(key, None)
        if result.status != "error" or with_errors:
            self._results[key] = result


class FinishedCases:
    """The cases that need not be run: of the run to resume, and, in a worker, of workers that died meanwhile.

    Raises `FileError` when a results file cannot be read.
    """

    def __init__(self, identity: RunIdentity, *, with_errors: bool, is_worker: bool) -> None:
        self._identity = identity
        self._with_errors = with_errors
        self._is_worker = is_worker
        self._crashed_at: int | None = None
        self._journal = self._read()

    def take(self, job: CaseJob) -> Carried | None:
        """Return the result of a job that need not run."""
        crashed_at = _modified_at(self._identity.crash_mark) if self._is_worker else None
        if crashed_at != self._crashed_at:
            self._crashed_at = crashed_at
            self._journal = self._read()
        return None if self._journal is None else self._journal.take(job)

    def _read(self) -> Journal | None:
        sources = [] if self._identity.resumed is None else [self._identity.resumed]
        if self._crashed_at is not None:
            sources.append(JournalSource(self._identity.results_path, self._identity.run_id))
        entries = [
            entry
            for source in dict.fromkeys(sources)
            if source.path.is_file()
            for entry in iter_results(source.path, source.run_id)
            if not isinstance(entry, Problem)
        ]
        return Journal(entries, with_errors=self._with_errors) if sources else None


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
