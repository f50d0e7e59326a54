"""The scores of each evaluator."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.judgements import judgements_of
from pytest_agentv.reporting.html.texts import filter_link
from pytest_agentv.reporting.html.values import mappings_of

BINS: Final = 10
_MOST_ROWS: Final = 12


@record
class Histogram(Record):
    """The scores of an evaluator in ten bins."""

    name: str
    kind: str
    link: str
    heights: tuple[float, ...]
    """Square roots, 0 to 1. Otherwise a bin at 1 would hide all others."""
    counts: tuple[int, ...]
    threshold: float | None
    text: str
    is_partial: bool = False
    """Whether only one answer of a repeated case is known."""


def histograms(cases: Sequence[Case]) -> tuple[Histogram, ...]:
    """Return the scores of each evaluator that judged, the most used first."""
    scores: dict[tuple[str, str], list[float]] = {}
    partial: set[tuple[str, str]] = set()
    for case in cases:
        answers = mappings_of(case.result.value, "answers")
        for each in [each for answer in answers for each in judgements_of(answer)] or case.judgements:
            if each.depth == 0 and not each.error:
                scores.setdefault((each.name, each.type), []).append(each.score)
                if len(case.marks) > 1 and not answers:
                    partial.add((each.name, each.type))
    thresholds = {case.judged.threshold for case in cases if case.judgements}
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    ordered = sorted(scores.items(), key=lambda entry: -len(entry[1]))
    return tuple(
        _histogram(*key, found, threshold).replace(is_partial=key in partial) for key, found in ordered[:_MOST_ROWS]
    )


def _histogram(name: str, kind: str, scores: Sequence[float], threshold: float | None) -> Histogram:
    bins = Counter(min(BINS - 1, int(min(1, max(0, score)) * BINS + 1e-9)) for score in scores)
    counts = tuple(bins[number] for number in range(BINS))
    top = math.sqrt(max(counts))
    low = sum(score < threshold - 1e-9 for score in scores) if threshold is not None else 0
    below = f", {low:,} of {len(scores):,} below" if threshold is not None else f" of {counted(len(scores), 'score')}"
    return Histogram(
        name=name,
        kind=kind,
        link=filter_link(evaluator=name),
        heights=tuple(round(math.sqrt(count) / top, 3) for count in counts),
        counts=counts,
        threshold=threshold,
        text=f"mean {math.fsum(scores) / len(scores):.2f}{below}",
    )
