"""Chooses the last result of each case among several results files, and finds missing ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.errors import locate
from pytest_agentv.files.problems import Hint, Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.results import EvalResult, ShardFigures
from pytest_agentv.reports.figures import ended_at
from pytest_agentv.reports.judged_cases import CaseKey
from pytest_agentv.reports.read import FINDINGS, TEXTS, case_in, key_of, result_fault
from pytest_agentv.reports.view import failed_as_expected
from pytest_agentv.store.readers import iter_foreign


class Line(NamedTuple):
    """A line of a results file: the result of its case, without texts, which may be too large to keep."""

    path: Path
    number: int
    result: EvalResult
    status: str
    """`pass`, `fail`, `error`, `fail as expected`; `judged`: it has only a score."""

    def is_of(self, other: "Line") -> bool:
        """Whether two lines are from one attempt: a resumed run rewrites some lines, and a merged file holds copies."""
        ours, theirs = ((ended_at(each.timestamp), each.duration_ms) for each in (self.result, other.result))
        return ours[0] is not None and ours == theirs

    def is_later(self, before: "Line") -> bool:
        """Whether a line that is read later is also the later result."""
        ended, earlier = ended_at(self.result.timestamp), ended_at(before.result.timestamp)
        return ended is None or earlier is None or ended >= earlier


@dataclass(frozen=True, slots=True)
class ResultsFile(Record):
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


def read_part(path: Path) -> ResultsFile:
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
            status: str = "judged" if case.status == "scored" else case.status
            status = "fail as expected" if failed_as_expected(case.result) else status
            result = Line(path, entry.line, case.result, status)
            before = results.pop(name, None)  # keeps cases in the order of their last results
            if before is not None and not result.is_of(before):
                replaced[name] = before
            results[name] = result
    return ResultsFile(path, results, replaced, tuple(problems), tuple(hints))


_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Merged(Record):
    """The last result of each case."""

    chosen: Mapping[CaseKey, Line]
    replaced: Mapping[CaseKey, Line]
    """For cases with several results, the last one that does not count."""

    @property
    def run_id(self) -> str | None:
        """The id of the newest run. All merged lines get it, because a resumed run can resume only one."""
        newest = _newest(line for line in self.chosen.values() if line.result.run_id is not None)
        return None if newest is None else newest.result.run_id


def _newest(lines: Iterable[Line]) -> Line | None:
    newest: Line | None = None
    for line in lines:
        newest = line if newest is None or line.is_later(newest) else newest
    return newest


def merge_parts(parts: Iterable[ResultsFile]) -> Merged:
    """Choose the last result of each case: the one that ended last or, if that is unknown, the later one in order."""
    chosen: dict[CaseKey, Line] = {}
    replaced: dict[CaseKey, Line] = {}
    for part in parts:
        replaced |= part.replaced
        for name, line in part.results.items():
            before = chosen.get(name)
            if before is None:
                chosen[name] = line
                continue
            last, other = (line, before) if line.is_later(before) else (before, line)
            chosen[name] = last
            if not last.is_of(other):
                replaced[name] = other
    return Merged(chosen, replaced)


def foreign_fault(parts: Sequence[ResultsFile]) -> str | None:
    """Return why files are not parts of one run; None if they may be.

    Parts of one run have collected the same evals. Either all of them are dry runs, or none is.
    """
    mocked = next((part for part in parts if part.is_mocked), None)
    real = next((part for part in parts if part.results and not part.is_mocked), None)
    if mocked is not None and real is not None:
        return f"{locate(mocked.path, None)} holds results of a dry run, {locate(real.path, None)} does not"
    suites: dict[str, ResultsFile] = {}
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


def changed_targets(parts: Sequence[ResultsFile], merged: Merged) -> Iterator[tuple[str, Path, Path]]:
    """Yield each target that had another definition in a later file, with the first file and that file.

    Only cases of one eval file are compared, because each folder may define its targets. Tests in Python may define
    their own for each case.
    """
    found: dict[tuple[str, str], dict[Path, set[str]]] = {}
    for name, line in merged.chosen.items():
        file, target, target_hash = name.eval_file, name.target, line.result.target_hash
        if file is not None and not file.endswith(".py") and target is not None and target_hash is not None:
            found.setdefault((file, target), {}).setdefault(line.path, set()).add(target_hash)
    changed: dict[tuple[str, Path], Path] = {}
    for (_, target), hashes in found.items():
        first, *others = [part.path for part in parts if part.path in hashes]
        changed |= {(target, other): first for other in others if hashes[other].isdisjoint(hashes[first])}
    yield from ((target, first, other) for (target, other), first in changed.items())


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
    found = [(name, line) for name, line in merged.chosen.items() if not (name.eval_file or "").endswith(".py")]
    newest = _newest(line for _, line in found if line.result.shard is not None)
    if newest is None or newest.result.shard is None:
        return None
    suite = newest.result.shard.suite
    own = [(name, line) for name, line in found if line.result.shard is not None and line.result.shard.suite == suite]
    runs = {line.result.run_id for _, line in own} - {None}
    shards = [(name.node_id, line.result.shard) for name, line in own if line.result.shard is not None]
    # The result of a crashed worker's case does not name its shard, nor does one of a run that resumed merged shards.
    others = [(name, line) for name, line in found if line.result.shard is None]
    others = [(name, line) for name, line in others if line.status == "error" or line.result.run_id in runs]
    total = max(figures.total for _, figures in shards)
    missing = max(0, total - len({name.node_id for name, _ in (*own, *others)}))
    return Missing(missing, total, tuple(_lacking(newest.result.shard.count, shards)) if missing else ())


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
