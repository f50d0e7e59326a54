"""How long a case took: its parts, and of repeated cases each answer on a common axis."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.judgements import Judgement, judgements_of
from pytest_agentv.reporting.html.values import list_of, mapping_of, mappings_of, number_of, text_of

PARTS: Final = ("target", "tools", "waiting", "judges", "other")
"""The target without its tools; its tools; waits between the requests of a call; evaluators; set-up and calls that
failed. The page draws them by their place in this tuple."""

_LEAST_OTHER: Final = 0.05
"""Share of the whole from which what is not told is worth a part of its own."""

_Part = list[Json]
"""A number of `PARTS`, and milliseconds."""


def parts_of(case: Case) -> list[_Part]:
    """Return the parts of a case's time; of a repeated case the sums over its answers."""
    answers = mappings_of(case.result.value, "answers")
    if not answers:
        # The judges of one answer say nothing of the others', so these are a part of the rest.
        is_repeated = len(case.marks) > 1
        return _parts(case.result.value, () if is_repeated else case.judgements)
    sums = [0.0] * len(PARTS)
    for answer in answers:
        for part, milliseconds in _parts(answer, judgements_of(answer)):
            sums[part] += milliseconds
    return [[part, round(total, 1)] for part, total in enumerate(sums) if total]


def lanes_of(case: Case) -> list[JsonObject]:
    """Return a lane for each answer: its outcome, its parts, and when it began, in milliseconds after the first.

    Empty where there is one answer, or the results hold the answers in no detail. Beginnings are left out where one is
    not known.
    """
    answers = mappings_of(case.result.value, "answers")
    if len(answers) < 2:
        return []
    starts = [_start(answer) for answer in answers]
    known = [start for start in starts if start is not None]
    first = min(known) if len(known) == len(answers) else None
    return [_lane(answer, start, first) for answer, start in zip(answers, starts, strict=True)]


def _lane(answer: JsonObject, start: datetime | None, first: datetime | None) -> JsonObject:
    lane: JsonObject = {"status": text_of(answer, "status"), "parts": _parts(answer, judgements_of(answer))}
    if start is None or first is None:
        return lane
    return {**lane, "at": round((start - first).total_seconds() * 1000, 1)}


def _start(answer: JsonObject) -> datetime | None:
    """Return when an answer began: its timestamp says when it was there."""
    duration = number_of(answer, "duration_ms")
    if duration is None:
        return None
    try:
        end = datetime.fromisoformat(text_of(answer, "timestamp"))
        return end.replace(tzinfo=None) - timedelta(milliseconds=duration)
    except (ValueError, OverflowError):
        return None


def _parts(value: JsonObject, judgements: Sequence[Judgement]) -> list[_Part]:
    metrics = mapping_of(value, "execution_metrics")
    times = mapping_of(metrics, "tool_durations")
    tools = sum(ms for name in times for ms in list_of(times, name) if isinstance(ms, int | float))
    measured = number_of(metrics, "duration_ms")
    target = max(0.0, (measured or 0.0) - tools)
    waited = number_of(value, "waited_ms") or 0.0
    judges = sum(each.duration_ms or 0.0 for each in judgements if each.depth == 0)
    whole = number_of(value, "duration_ms") or 0.0
    if whole:
        judges = min(judges, max(0.0, whole - target - tools - waited))  # several may judge at once
    other = max(0.0, whole - target - tools - waited - judges)
    if measured is None:
        target, other = other, 0.0  # nobody said how long the target took: the most of the rest
    parts = (target, tools, waited, judges, other if other > _LEAST_OTHER * whole else 0.0)
    return [[part, round(milliseconds, 1)] for part, milliseconds in enumerate(parts) if milliseconds > 0]
