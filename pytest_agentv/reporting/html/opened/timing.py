"""Splits the time of a case into parts, and puts the answers of a repeated case on a common time axis."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from pytest_agentv.models.base import Json, JsonObject, is_amount
from pytest_agentv.reporting.html.cases import Case, status_of_answer
from pytest_agentv.reporting.html.judgements import Judgement, judgements_of
from pytest_agentv.reporting.html.values import list_of, mapping_of, mappings_of, number_of, text_of

PARTS: Final = ("target", "tools", "waiting", "judges", "other")
"""The target without its tools; its tools; waits between the requests of a call; evaluators; set-up and calls that
failed. The page draws them by their place in this tuple."""

_LEAST_OTHER: Final = 0.05
"""The least share of the whole time for which unexplained time becomes a part of its own."""

_Part = list[Json]
"""An index of `PARTS`, and milliseconds."""


def parts_of(case: Case) -> list[_Part]:
    """Return the parts of a case's time. For a repeated case, return sums over its answers."""
    answers = mappings_of(case.result.value, "answers")
    if not answers:
        # The judgements are of one answer. The time for the other answers counts as rest.
        is_repeated = len(case.marks) > 1
        return _parts(case.result.value, () if is_repeated else case.judgements)
    sums = [0.0] * len(PARTS)
    for answer in answers:
        for part, milliseconds in _parts(answer, judgements_of(answer)):
            sums[part] += milliseconds
    return [[part, round(total, 1)] for part, total in enumerate(sums) if total]


def lanes_of(case: Case) -> list[JsonObject]:
    """Return a lane for each answer: its outcome, its parts, and its start in milliseconds after the first.

    Empty for a single answer, or if the results do not hold the answers. Starts are left out if one is unknown.
    """
    answers = mappings_of(case.result.value, "answers")
    if len(answers) < 2:
        return []
    starts = [_start(answer) for answer in answers]
    known = [start for start in starts if start is not None]
    first = min(known) if len(known) == len(answers) else None
    return [_lane(answer, start, first) for answer, start in zip(answers, starts, strict=True)]


def _lane(answer: JsonObject, start: datetime | None, first: datetime | None) -> JsonObject:
    lane: JsonObject = {"status": status_of_answer(answer), "parts": _parts(answer, judgements_of(answer))}
    if start is None or first is None:
        return lane
    return {**lane, "at": round((start - first).total_seconds() * 1000, 1)}


def _start(answer: JsonObject) -> datetime | None:
    """Return when an answer started. Its timestamp says when it ended."""
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
    tools = sum(ms for name in times for ms in list_of(times, name) if is_amount(ms))
    measured = number_of(metrics, "duration_ms")
    target = max(0.0, (measured or 0.0) - tools)
    waited = number_of(value, "waited_ms") or 0.0
    judges = sum(each.duration_ms or 0.0 for each in judgements if each.depth == 0)
    whole = number_of(value, "duration_ms") or 0.0
    if whole:
        judges = min(judges, max(0.0, whole - target - tools - waited))  # several may judge at once
    other = max(0.0, whole - target - tools - waited - judges)
    if measured is None:
        target, other = other, 0.0  # the target's time was not measured: assume the rest
    parts = (target, tools, waited, judges, other if other > _LEAST_OTHER * whole else 0.0)
    return [[part, round(milliseconds, 1)] for part, milliseconds in enumerate(parts) if milliseconds > 0]
