"""Compares the files and tags of a run with the baseline. These rows describe, and decide nothing."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.verdicts.cases import groups_of, values_of
from pytest_agentv.reporting.verdicts.pairing import Pair, deltas_of
from pytest_agentv.statistics.broken import MOST_FALSE, benjamini_hochberg
from pytest_agentv.statistics.pairs import compare_pairs

_LEAST_CASES: Final = 2


@record
class Part(Record):
    """The cases of a file, or with a tag."""

    name: str
    n: int
    mean: float
    delta: float
    q: float
    """Among all rows, of "not worse"."""

    @property
    def stands_out(self) -> bool:
        return self.q <= MOST_FALSE and self.delta < 0


def parts_of(pairs: Sequence[Pair]) -> list[Part]:
    """Return a row for each file and each tag with several compared cases, files first."""
    members: dict[str, list[Pair]] = {}
    for name, pair in sorted(_memberships(pairs), key=lambda entry: entry[0]):
        members.setdefault(name, []).append(pair)
    found = {name: group for name, group in members.items() if len(group) >= _LEAST_CASES}
    if len(found) < 2:
        return []  # a single row would repeat the figures of the run
    differences = [
        compare_pairs(deltas_of(group), groups_of([pair.new for pair in group]), graded=True)
        for group in found.values()
    ]
    q_values = benjamini_hochberg([1.0 if each.p_exact is None else each.p_exact for each in differences])
    return [
        Part(name, len(group), fmean(values_of([pair.new for pair in group])), each.estimate.mean, q)
        for (name, group), each, q in zip(found.items(), differences, q_values, strict=True)
    ]


def _memberships(pairs: Sequence[Pair]) -> Iterator[tuple[str, Pair]]:
    for pair in pairs:
        if pair.new.eval_file is not None:
            yield f"file {pair.new.eval_file}", pair
        for tag in pair.new.tags:
            yield f"tag {tag}", pair
