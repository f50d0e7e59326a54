"""Carries over the finished cases and single answers of an earlier run, or of a worker that died."""

import logging
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob, CaseKey, CaseVersion, case_key, version_of
from pytest_agentv.engine.judging import asks_for_threshold, rejudged
from pytest_agentv.engine.results import effective_target_name, effective_threshold
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.model.text import compact_json
from pytest_agentv.reports.figures import moment_of
from pytest_agentv.runtime.files import LockedAppender
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.store.readers import iter_recorded
from pytest_agentv.store.writers import NUMBER, answers_path, iter_answer_lines, iter_answers, recordable, stored_name

# Finds what the runs that this one goes on with have for an item, whether it can be carried over or not.


class EarlierResults:
    """The last results of items, and the single answers of their unfinished cases."""

    def __init__(self) -> None:
        self._source: Mapping[Any, EvalResult] | None = None
        self._by_item: dict[str | None, list[EvalResult]] = {}

    def of(self, node_id: str, last: Mapping[Any, EvalResult], files: Iterable[Path]) -> Sequence[EvalResult]:
        """Return those of an item, out of the `last` results of all cases and the answers beside the results files."""
        if last is not self._source:
            found: dict[str | None, list[EvalResult]] = {}
            for result in (*last.values(), *(answer for file in files for _, answer in iter_answers(file))):
                found.setdefault(result.node_id, []).append(result)
            self._source, self._by_item = last, found
        return self._by_item.get(node_id, ())


# Carries over the finished cases of an earlier run, or of a worker that died, so that they are not paid for again.

_OF_NOW: Final = (*("node_id", "line", "row", "combination", "required", "xfail", "xfail_strict", "group", "tags"),)
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
        from pytest_agentv.engine.repeats import numbered_answers, told_before  # noqa: PLC0415 - for repeated cases only

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

    return rejudged(result, job.case, effective_threshold(job.options, job.case))


def _repeated(result: EvalResult, job: CaseJob, repeat: int) -> EvalResult | None:
    planned = result.repeat.planned if result.repeat else None
    if result.status == "error" or job.options.dry_run:
        return result if planned in (None, repeat) and not _may_be_judged(result, job, repeat) else None
    if planned != repeat:
        return _first_answer(result, job) if repeat == 1 else None
    from pytest_agentv.engine.repeats import RepeatPlan, judged_anew  # noqa: PLC0415 - for repeated cases only

    threshold = effective_threshold(job.options, job.case)
    if threshold.value != result.threshold and asks_for_threshold(job.case):
        return None  # the scores of the answers do not tell those of their evaluators
    return judged_anew(result, RepeatPlan.of(job, repeat), threshold)


def _may_be_judged(result: EvalResult, job: CaseJob, repeat: int) -> bool:
    """Whether the rules have changed since a case had too few answers for a verdict. Its answers are kept."""
    from pytest_agentv.engine.repeats import RepeatPlan  # noqa: PLC0415 - for repeated cases only
    from pytest_agentv.stats.intervals import passing  # noqa: PLC0415 - as above

    figures = result.repeat
    if figures is None or job.options.dry_run:
        return False
    passes = passing(figures.scores, effective_threshold(job.options, job.case).value)
    has_other_scores = passes != figures.passes and not figures.beyond_scores
    return has_other_scores or figures.needed != RepeatPlan.of(job, repeat).needed


def _first_answer(result: EvalResult, job: CaseJob) -> EvalResult | None:
    """Return the first answer of a repeated case as its result; None if its verdict is unknown."""
    from pytest_agentv.engine.repeats import first_answer  # noqa: PLC0415 - for repeated cases only

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


# Keeps each answer of a repeated case as soon as it is judged. An unfinished case has no result yet.

_LOGGER: Final = logging.getLogger("pytest_agentv.session")


@dataclass(slots=True)
class Kept:
    """The answers of a case from earlier runs."""

    answers: dict[int, EvalResult] = field(default_factory=dict)
    """The answers that need not be asked again, by their numbers."""
    lost: list[EvalResult] = field(default_factory=list)
    """Answers that failed, could not be judged, or were replaced by a rerun. They do not count, but their costs do."""
    unwritten: frozenset[int] = frozenset()
    """The numbers of answers that only the result of their case held. Without a verdict, its next one lacks them."""
    replaced: Counter[int] = field(default_factory=Counter)
    """How often reruns replaced an answer that was judged, by its number."""

    @property
    def reruns(self) -> int:
        """How often the case was asked anew before."""
        return max(self.replaced.values(), default=0)

    def add(self, number: int, result: EvalResult, *, with_errors: bool) -> None:
        """Add an answer. It replaces an earlier one with the same number, as after a rerun."""
        before = self.answers.pop(number, None)
        if before is not None and moment_of(before) != moment_of(result):
            self.lost.append(before)
            self.replaced[number] += before.status != "error"
        if result.status != "error" or with_errors:
            self.answers[number] = result
        else:
            self.lost.append(result)

    def take(self, numbers: Container[int]) -> "Kept":
        """Return the answers with these numbers, and forget them: another case may ask for the same."""
        answers = {number: self.answers.pop(number) for number in sorted(self.answers) if number in numbers}
        lost, self.lost = self.lost, []
        replaced, self.replaced = self.replaced, Counter()
        return Kept(answers, lost, replaced=replaced)

    def take_all(self) -> list[EvalResult]:
        """Return the answers that the case is not to have, and forget them."""
        rest, self.answers = list(self.answers.values()), {}
        return rest


_Known: TypeAlias = dict[CaseKey, dict[str | None, Kept]]
"""The inner key is the node id: several items may ask the same under one id."""


class AnswerJournal:
    """The file of a run's single answers, beside its results file. All processes of the run append to it."""

    def __init__(self, results_path: Path, masker: Masker) -> None:
        self._results_path = results_path
        self._masker = masker
        self._appender = LockedAppender(answers_path(results_path))
        self._is_lost = False
        self._sources: dict[Path, str | None] = {}
        self._known: _Known = {}

    async def keep(self, number: int, result: EvalResult) -> None:
        """Write an answer. Warns once if it cannot be written: the answer still counts for its case."""
        try:
            line = {NUMBER: number, **recordable(result.to_plain(), self._masker)}
            await run_in_thread(lambda: self._appender.append(f"{compact_json(line)}\n".encode()), "agentv-answers")
        except (AgentvError, TypeError, ValueError) as error:  # code of users may put in anything
            if not self._is_lost:
                _LOGGER.warning("single answers are not kept, a run that is killed would ask for them again: %s", error)
            self._is_lost = True

    def take(self, job: CaseJob, finished: FinishedCases, numbers: Container[int]) -> Kept:
        """Return the answers with these numbers that the resumed run has for a case."""
        sources = finished.sources
        if sources != self._sources:
            self._sources, self._known = sources, _read(sources, with_errors=finished.with_errors)
        key = case_key(job.identity, effective_target_name(job.identity.target, dry_run=job.options.dry_run))
        kept = Kept() if key is None else self._find(key, job.identity.node_id)
        known = finished.take_answers(job)
        if known.keys() <= kept.answers.keys():
            known = {}  # each has a line of its own, with its own figures; in the result, one has those of all
        found, spare = _split(known, numbers)
        unwritten = frozenset(found.keys() - kept.answers.keys())
        kept.answers = {**{number: kept.answers[number] for number in kept.answers.keys() - known.keys()}, **found}
        taken = kept.take(numbers)
        taken.lost += spare if _may_be_asked_again(job) else [*spare, *kept.take_all()]
        taken.unwritten = unwritten.intersection(taken.answers)
        return taken

    def _find(self, key: CaseKey, node_id: str) -> Kept:
        """Return the answers of an item. An item without any answers may have been renamed."""
        items = self._known.setdefault(key, {})
        if node_id not in items and items and not any(node_id in each for each in self._known.values()):
            items[node_id] = items.pop(next(reversed(items)))
        return items.setdefault(node_id, Kept())

    def is_elsewhere(self, finished: FinishedCases) -> bool:
        """Whether the carried-over answers are in another file and must be copied into this one."""
        return any(path != self._results_path for path in finished.sources)

    def close(self) -> None:
        self._appender.close()


def _may_be_asked_again(job: CaseJob) -> bool:
    """Whether the run may ask for further answers of the case, and an earlier one may have done so."""
    return job.options.baseline is not None and job.options.confirm > 0


def _split(
    answers: Mapping[int, EvalResult], numbers: Container[int]
) -> tuple[dict[int, EvalResult], list[EvalResult]]:
    """Return the answers with these numbers, and others that were paid for: the case is to have fewer answers now."""
    found = {number: answer for number, answer in answers.items() if number in numbers}
    spare = [answer for number, answer in answers.items() if number not in numbers and answer.attempts]
    return found, spare


def drop_answers(results_path: Path, judged: Mapping[CaseVersion, int]) -> None:
    """Delete the answers on which there is a verdict in the version that was asked, and the journal when none is left.

    Args:
        results_path: The results file.
        judged: The versions of cases that have a verdict, and on how many answers it is.
    """
    path = answers_path(results_path)
    answers = [(line, number, version_of(answer)) for line, number, answer in iter_answer_lines(results_path)]
    needed = {line for line, number, version in answers if version is not None and number >= judged.get(version, 0)}
    if needed:
        if len(needed) < len(answers):
            _keep_lines(path, needed)
        return
    with suppress(OSError):
        path.unlink()


def _keep_lines(path: Path, needed: Collection[int]) -> None:
    """Delete the other lines of a journal. Does nothing if it cannot be written."""
    appender = LockedAppender(path)
    try:
        lines = path.read_bytes().split(b"\n")
        appender.rewrite(lambda: (b"%s\n" % line for number, line in enumerate(lines, 1) if number in needed))
    except (AgentvError, OSError) as error:
        _LOGGER.debug("answers that no run needs stay beside the results: %s", error)
    finally:
        appender.close()


def _read(sources: Mapping[Path, str | None], *, with_errors: bool) -> _Known:
    """Return the answers that were kept beside results files. The last line of each answer counts."""
    known: _Known = {}
    for path, run_id in sources.items():
        for number, result in iter_answers(path, run_id):
            key = case_key(result, result.target)
            if key is not None:
                kept = known.setdefault(key, {}).setdefault(result.node_id, Kept())
                kept.add(number, result, with_errors=with_errors)
    return known
