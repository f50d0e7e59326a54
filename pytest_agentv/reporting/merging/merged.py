"""Chooses the last result of each case among several results files, and finds missing ones."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_agentv.errors import locate
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import ShardFigures
from pytest_agentv.reporting.merging.parts import CaseResult, Part
from pytest_agentv.reporting.verdicts.case_reading import CaseName

_SHOWN: Final = 3


class Place(NamedTuple):
    """A result, and the number of the file that it is in."""

    part: int
    result: CaseResult


@record
class Merged(Record):
    """The last result of each case."""

    chosen: Mapping[CaseName, Place]
    replaced: Mapping[CaseName, Place]
    """For cases with several results, the last one that does not count."""

    @property
    def run_id(self) -> str | None:
        """The id of the newest run. All merged lines get it, because a resumed run can resume only one."""
        newest: CaseResult | None = None
        for _, result in self.chosen.values():
            if result.run_id is not None and (newest is None or _is_later(result, newest)):
                newest = result
        return None if newest is None else newest.run_id

    def lines(self, parts: int) -> list[set[int]]:
        """Return the lines that count, for each of so many files."""
        lines: list[set[int]] = [set() for _ in range(parts)]
        for place in self.chosen.values():
            lines[place.part].add(place.result.line)
        return lines


def merge_parts(parts: Sequence[Part]) -> Merged:
    """Choose the last result of each case: the one that ended last or, if that is unknown, the later one in order."""
    chosen: dict[CaseName, Place] = {}
    replaced: dict[CaseName, Place] = {}
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
            if is_same and before.result.is_in_baseline and not result.is_in_baseline:
                is_later = False  # a copy without that mark would be added to the baseline again
            chosen[name] = here if is_later else before
            if not is_same:
                replaced[name] = before if is_later else here
    return Merged(chosen, replaced)


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


def changed_targets(parts: Sequence[Part], merged: Merged) -> Iterator[tuple[str, Part, Part]]:
    """Yield each target that had another definition in a later file, with the first file and that file.

    Only cases of one eval file are compared, because each folder may define its targets. Tests in Python may define
    their own for each case.
    """
    found: dict[tuple[str, str], dict[int, set[str]]] = {}
    for name, (part, result) in merged.chosen.items():
        file, target = name.eval_file, name.target
        if file is not None and not file.endswith(".py") and target is not None and result.target_hash is not None:
            found.setdefault((file, target), {}).setdefault(part, set()).add(result.target_hash)
    told = set[tuple[str, int]]()
    for (_, target), hashes in found.items():
        first, *others = sorted(hashes)
        for other in others:
            if hashes[other].isdisjoint(hashes[first]) and (target, other) not in told:
                told.add((target, other))
                yield target, parts[first], parts[other]


@record
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
    chosen = [(name, result) for name, (_, result) in merged.chosen.items()]
    found = [(name, result) for name, result in chosen if not (name.eval_file or "").endswith(".py")]
    newest: CaseResult | None = None
    for _, result in found:
        if result.shard is not None and (newest is None or _is_later(result, newest)):
            newest = result
    if newest is None or newest.shard is None:
        return None
    suite = newest.shard.suite
    own = [(name, result) for name, result in found if result.shard is not None and result.shard.suite == suite]
    runs = {result.run_id for _, result in own}
    shards = [(name.node_id, result.shard) for name, result in own if result.shard is not None]
    total = max(figures.total for _, figures in shards)
    missing = max(0, total - len({name.node_id for name, result in found if _is_of_suite(result, suite, runs)}))
    return Missing(missing, total, tuple(_lacking(newest.shard.count, shards)) if missing else ())


def _is_of_suite(result: CaseResult, suite: str, runs: Container[str | None]) -> bool:
    """Whether a result is from a case of the suite; `runs` are the runs of this suite.

    The result of a crashed worker's case does not name its shard, nor does one of a run that resumed merged shards.
    """
    if result.shard is not None:
        return result.shard.suite == suite
    return result.status == "error" or (result.run_id is not None and result.run_id in runs)


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


def _is_later(result: CaseResult, before: CaseResult) -> bool:
    """Whether a result that is read later is also the later result."""
    return result.ended is None or before.ended is None or result.ended >= before.ended


def _named(files: set[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(sorted(files)[:_SHOWN]) + more
