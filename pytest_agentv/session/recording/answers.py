"""Keeps each answer of a repeated case as soon as it is judged. An unfinished case has no result yet."""

import logging
from collections import Counter
from collections.abc import Collection, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.engine.jobs import CaseJob, CaseKey, CaseVersion, case_key, version_of
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.errors import AgentvError
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import compact_json
from pytest_agentv.reporting.answers import NUMBER, iter_answer_lines, iter_answers
from pytest_agentv.reporting.figures import moment_of
from pytest_agentv.reporting.serialization import recordable
from pytest_agentv.reporting.writers import answers_path
from pytest_agentv.runtime.files import LockedAppender, lock_of
from pytest_agentv.runtime.threads import run_in_thread
from pytest_agentv.session.recording.journal import FinishedCases

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
        except (AgentvError, TypeError, ValueError, RecursionError) as error:  # code of users may put in anything
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
    for each in (path, lock_of(path)):
        with suppress(OSError):
            each.unlink()


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
