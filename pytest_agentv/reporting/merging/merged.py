"""Chooses the last word on each case among several results files, and sees what is missing."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_agentv.errors import locate
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import ShardFigures
from pytest_agentv.reporting.merging.parts import CaseName, Part, Word

_SHOWN: Final = 3


class Place(NamedTuple):
    """A word, and the number of the part that it is in."""

    part: int
    word: Word


@record
class Merged(Record):
    """The last word on each case."""

    chosen: Mapping[CaseName, Place]
    replaced: Mapping[CaseName, Place]
    """Of cases with several results: the last one that does not count."""

    @property
    def run_id(self) -> str | None:
        """The newest run, of which all lines are to be: a resumed run goes on with one."""
        newest: Word | None = None
        for _, word in self.chosen.values():
            if word.run_id is not None and (newest is None or _is_later(word, newest)):
                newest = word
        return None if newest is None else newest.run_id

    def lines(self, parts: int) -> list[set[int]]:
        """Return the lines that count, for each of a number of parts."""
        lines: list[set[int]] = [set() for _ in range(parts)]
        for place in self.chosen.values():
            lines[place.part].add(place.word.line)
        return lines


def merge_parts(parts: Sequence[Part]) -> Merged:
    """Choose the last word on each case: by the time at which it ended, and where that is unknown, by order."""
    chosen: dict[CaseName, Place] = {}
    replaced: dict[CaseName, Place] = {}
    for number, part in enumerate(parts):
        for name, word in part.words.items():
            if name in part.replaced:
                replaced[name] = Place(number, part.replaced[name])
            before = chosen.get(name)
            if before is None:
                chosen[name] = Place(number, word)
                continue
            here = Place(number, word)
            is_later = _is_later(word, before.word)
            chosen[name] = here if is_later else before
            if not word.is_of(before.word):
                replaced[name] = before if is_later else here
    return Merged(chosen, replaced)


def foreign_fault(parts: Sequence[Part]) -> str | None:
    """Return why files are no parts of one run, if so: their runs collected different evals, or some were dry runs."""
    mocked = next((part for part in parts if part.is_mocked), None)
    real = next((part for part in parts if part.words and not part.is_mocked), None)
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


@record
class Missing(Record):
    """The cases of shards that have no result."""

    cases: int
    total: int
    shards: tuple[str, ...]
    """For each shard that lacks some, how many."""


def find_missing(merged: Merged) -> Missing | None:
    """Return which cases of eval files are missing, as far as shards tell; None: nothing is known of it.

    Tests that evaluate do not count: how many results one has is known only when it ran.
    """
    words = [(name, word) for name, (_, word) in merged.chosen.items() if not (name.eval_file or "").endswith(".py")]
    newest: Word | None = None
    for _, word in words:
        if word.shard is not None and (newest is None or _is_later(word, newest)):
            newest = word
    if newest is None or newest.shard is None:
        return None
    suite, count = newest.shard.suite, newest.shard.count
    own = [(name.node_id, word.shard) for name, word in words if word.shard is not None and word.shard.suite == suite]
    total = max(figures.total for _, figures in own)
    runs = {word.run_id for _, word in words if word.shard is not None and word.shard.suite == suite}
    missing = max(0, total - len({name.node_id for name, word in words if _is_of_suite(word, suite, runs)}))
    return Missing(missing, total, tuple(_lacking(count, own)) if missing else ())


def _is_of_suite(word: Word, suite: str, runs: Container[str | None]) -> bool:
    """Whether a result is of a case of the suite, which its runs are of.

    That of a case on which a worker crashed does not say its shard, nor does one of a run that went on with merged
    shards.
    """
    if word.shard is not None:
        return word.shard.suite == suite
    return word.status == "error" or (word.run_id is not None and word.run_id in runs)


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


def _is_later(word: Word, before: Word) -> bool:
    """Whether a word that is read later is the last one."""
    return word.ended is None or before.ended is None or word.ended >= before.ended


def _named(files: set[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(sorted(files)[:_SHOWN]) + more
