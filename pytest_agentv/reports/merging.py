"""Chooses the last result of each case among several results files, and finds missing ones."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.errors import locate
from pytest_agentv.files.problems import Hint, Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.results import EvalResult, ShardFigures
from pytest_agentv.reports.figures import ended_at
from pytest_agentv.reports.judged_cases import CaseKey, JudgedCase
from pytest_agentv.reports.reading import FINDINGS, TEXTS, case_in, key_of, result_fault
from pytest_agentv.reports.view import failed_as_expected
from pytest_agentv.store.readers import iter_foreign


class Line(NamedTuple):
    """A line of a results file: the result of its case, without texts, which may be too large to keep."""

    number: int
    case: JudgedCase
    result: EvalResult

    @property
    def ended(self) -> datetime | None:
        """When the case ended; None: unknown."""
        return ended_at(self.result.timestamp)

    @property
    def status(self) -> str:
        if failed_as_expected(self.result):
            return "fail as expected"
        return "judged" if self.case.status == "scored" else self.result.status

    def is_of(self, other: "Line") -> bool:
        """Whether two lines are from one attempt: a resumed run rewrites some lines, and a merged file holds copies."""
        ours, theirs = ((each.ended, each.result.duration_ms) for each in (self, other))
        return self.ended is not None and ours == theirs


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A results file: the last result of each case, and those before."""

    path: Path
    results: Mapping[CaseKey, Line]
    replaced: Mapping[CaseKey, Line]
    """For cases with several results, the one before the last."""
    problems: tuple[Problem, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def suite(self) -> str | None:
        """The hash of the evals that the last run with shards collected; None: there is no such run."""
        newest_first = reversed(tuple(self.results.values()))
        return next((shard.suite for line in newest_first if (shard := line.result.shard) is not None), None)

    @property
    def is_mocked(self) -> bool:
        return any(line.result.dry_run for line in self.results.values())

    @property
    def foreign_ids(self) -> list[str]:
        """The ids of results that name neither an eval file nor a run, like those of AgentV itself."""
        return [
            name.eval_id for name, line in self.results.items() if name.eval_file is None and line.result.run_id is None
        ]

    @property
    def eval_files(self) -> set[str]:
        return {name.eval_file for name in self.results if name.eval_file is not None}


def read_part(path: Path) -> Part:
    """Read a results file. Raises `FileError` if it cannot be opened."""
    results: dict[CaseKey, Line] = {}
    replaced: dict[CaseKey, Line] = {}
    problems: list[Problem] = []
    hints: list[Hint] = []
    for entry in iter_foreign(path):
        fault = None if isinstance(entry, Problem) else result_fault(entry.value)
        if isinstance(entry, Hint):
            hints.append(entry)
        elif isinstance(entry, Problem):
            problems.append(entry)
        elif fault is not None:
            problems.append(Problem(path, entry.line, "", f"{fault}; it was left out", level="warning"))
        else:
            name, case = key_of(entry.value), case_in(entry.value, TEXTS | FINDINGS)
            assert case.result is not None
            result = Line(entry.line, case, case.result)
            before = results.pop(name, None)  # keeps cases in the order of their last results
            if before is not None and not result.is_of(before):
                replaced[name] = before
            results[name] = result
    return Part(path, results, replaced, tuple(problems), tuple(hints))


_SHOWN: Final = 3


class Place(NamedTuple):
    """A result, and the number of the file that it is in."""

    part: int
    result: Line


@dataclass(frozen=True, slots=True)
class Merged(Record):
    """The last result of each case."""

    chosen: Mapping[CaseKey, Place]
    replaced: Mapping[CaseKey, Place]
    """For cases with several results, the last one that does not count."""

    @property
    def run_id(self) -> str | None:
        """The id of the newest run. All merged lines get it, because a resumed run can resume only one."""
        newest: Line | None = None
        for _, result in self.chosen.values():
            if result.result.run_id is not None and (newest is None or _is_later(result, newest)):
                newest = result
        return None if newest is None else newest.result.run_id

    def lines(self, parts: int) -> list[set[int]]:
        """Return the lines that count, for each of so many files."""
        lines: list[set[int]] = [set() for _ in range(parts)]
        for place in self.chosen.values():
            lines[place.part].add(place.result.number)
        return lines


def merge_parts(parts: Sequence[Part]) -> Merged:
    """Choose the last result of each case: the one that ended last or, if that is unknown, the later one in order."""
    chosen: dict[CaseKey, Place] = {}
    replaced: dict[CaseKey, Place] = {}
    for number, part in enumerate(parts):
        for name, result in part.results.items():
            if name in part.replaced:
                replaced[name] = Place(number, part.replaced[name])
            before = chosen.get(name)
            if before is None:
                chosen[name] = Place(number, result)
                continue
            here = Place(number, result)
            is_same = result.is_of(before.result)
            is_later = _is_later(result, before.result)
            chosen[name] = here if is_later else before
            if not is_same:
                replaced[name] = before if is_later else here
    return Merged(chosen, replaced)


def _is_later(result: Line, before: Line) -> bool:
    """Whether a result that is read later is also the later result."""
    return result.ended is None or before.ended is None or result.ended >= before.ended


def foreign_fault(parts: Sequence[Part]) -> str | None:
    """Return why files are not parts of one run; None if they may be.

    Parts of one run have collected the same evals. Either all of them are dry runs, or none is.
    """
    mocked = next((part for part in parts if part.is_mocked), None)
    real = next((part for part in parts if part.results and not part.is_mocked), None)
    if mocked is not None and real is not None:
        return f"{locate(mocked.path, None)} holds results of a dry run, {locate(real.path, None)} does not"
    suites: dict[str, Part] = {}
    for part in parts:
        if part.suite is not None:
            suites.setdefault(part.suite, part)
    if len(suites) > 1:
        first, second, *_ = suites.values()
        return (
            f"{locate(first.path, None)} and {locate(second.path, None)} are of different evals: "
            f"their shards did not collect the same cases from the same eval files"
        )
    for part in parts:
        others = set[str]().union(*(other.eval_files for other in parts if other is not part))
        if part.suite is None and part.eval_files and others and part.eval_files.isdisjoint(others):
            return (
                f"{locate(part.path, None)} is of different evals: it holds results of "
                f"{_named(part.eval_files)}, the other files of {_named(others)}"
            )
    return None


def _named(files: set[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(sorted(files)[:_SHOWN]) + more


def changed_targets(parts: Sequence[Part], merged: Merged) -> Iterator[tuple[str, Part, Part]]:
    """Yield each target that had another definition in a later file, with the first file and that file.

    Only cases of one eval file are compared, because each folder may define its targets. Tests in Python may define
    their own for each case.
    """
    found: dict[tuple[str, str], dict[int, set[str]]] = {}
    for name, (part, line) in merged.chosen.items():
        file, target = name.eval_file, name.target
        if file is not None and not file.endswith(".py") and target is not None and line.result.target_hash is not None:
            found.setdefault((file, target), {}).setdefault(part, set()).add(line.result.target_hash)
    told = set[tuple[str, int]]()
    for (_, target), hashes in found.items():
        first, *others = sorted(hashes)
        for other in others:
            if hashes[other].isdisjoint(hashes[first]) and (target, other) not in told:
                told.add((target, other))
                yield target, parts[first], parts[other]


@dataclass(frozen=True, slots=True)
class Missing(Record):
    """The cases of shards without a result."""

    cases: int
    total: int
    shards: tuple[str, ...]
    """A text for each shard that lacks results."""


def find_missing(merged: Merged) -> Missing | None:
    """Return the missing cases of eval files, as far as shards tell; None: nothing is known.

    Tests that evaluate do not count, because only their run shows how many results they have.
    """
    chosen = [(name, line) for name, (_, line) in merged.chosen.items()]
    found = [(name, line) for name, line in chosen if not (name.eval_file or "").endswith(".py")]
    newest: Line | None = None
    for _, line in found:
        if line.result.shard is not None and (newest is None or _is_later(line, newest)):
            newest = line
    if newest is None or newest.result.shard is None:
        return None
    suite = newest.result.shard.suite
    own = [(name, line) for name, line in found if line.result.shard is not None and line.result.shard.suite == suite]
    runs = {line.result.run_id for _, line in own}
    shards = [(name.node_id, line.result.shard) for name, line in own if line.result.shard is not None]
    total = max(figures.total for _, figures in shards)
    missing = max(0, total - len({name.node_id for name, line in found if _is_of_suite(line, suite, runs)}))
    return Missing(missing, total, tuple(_lacking(newest.result.shard.count, shards)) if missing else ())


def _is_of_suite(line: Line, suite: str, runs: Container[str | None]) -> bool:
    """Whether a result is from a case of the suite; `runs` are the runs of this suite.

    The result of a crashed worker's case does not name its shard, nor does one of a run that resumed merged shards.
    """
    if line.result.shard is not None:
        return line.result.shard.suite == suite
    return line.status == "error" or (line.result.run_id is not None and line.result.run_id in runs)


def _lacking(count: int, found: Iterable[tuple[str | None, ShardFigures]]) -> Iterator[str]:
    cases: dict[int, int] = {}
    names: dict[int, set[str | None]] = {}
    for node_id, figures in found:
        if figures.count == count:
            cases[figures.index] = max(figures.cases, cases.get(figures.index, 0))
            names.setdefault(figures.index, set()).add(node_id)
    for index in range(1, count + 1):
        there = len(names.get(index, ()))
        if index not in cases:
            yield f"shard {index}/{count} has no results"
        elif there < cases[index]:
            yield f"shard {index}/{count} has results of {there:,} of its {cases[index]:,} cases"
