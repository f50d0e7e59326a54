"""The first screen below the verdict: cases to look at first, targets, frequent reasons."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import NO_TARGET, Case
from pytest_agentv.reporting.html.compared import Compared
from pytest_agentv.reporting.html.judgements import Judgement
from pytest_agentv.reporting.html.texts import dollars, duration, filter_link, spelled
from pytest_agentv.reporting.html.values import cost_of, may_cost, text_of, whole_cost_of
from pytest_agentv.reporting.verdicts.columns import bounds, percent
from pytest_agentv.reporting.verdicts.run_statistics import PassRate, pass_rate_of

_MOST_FIRST: Final = 8
_MOST_REASONS: Final = 5


@record
class First(Record):
    """A case to look at first."""

    case: Case
    word: str
    tone: str
    text: str


@record
class TargetRow(Record):
    """A target with the figures of its cases."""

    name: str
    link: str
    rate: str
    interval: str
    failed: int
    errors: int
    flaky: int
    cost: str
    median: str


@record
class Reason(Record):
    """A reason that several failing cases share."""

    text: str
    evaluator: str
    count: int
    link: str
    name: str
    """Identifies it among the reasons of a report."""


def firsts(cases: Sequence[Case]) -> tuple[First, ...]:
    """Return what broke, then errors, then the lowest failing cases."""
    broken = [
        First(case, "✕ Broken", "fail", case.change.short if case.change else "") for case in cases if case.is_broken
    ]
    errors = [First(case, "! Error", "error", case.why) for case in cases if case.status == "error"]
    rest = [case for case in cases if case.status == "fail" and not case.is_broken]
    failed = [First(case, "✕ Failed", "fail", case.why) for case in sorted(rest, key=_drop)]
    space = _MOST_FIRST - min(len(errors), 2)
    shown = broken[:space]
    shown += errors[: max(2, _MOST_FIRST - len(shown) - len(failed))]
    return (*shown, *failed[: max(0, _MOST_FIRST - len(shown))])


def _drop(case: Case) -> float:
    """Return the change of a case's score. The largest drops come first."""
    return case.change.delta or 0.0 if case.change is not None else 0.0


def target_rows(cases: Sequence[Case], earlier: Sequence[JsonObject] = ()) -> tuple[TargetRow, ...]:
    """Return a row for each target. `earlier` are results that were replaced: they were paid for."""
    return tuple(
        _target_row(name, [case for case in cases if case.target == name], _known_costs(name, earlier))
        for name in names_of_targets(cases)
    )


def _known_costs(target: str, earlier: Sequence[JsonObject]) -> list[float]:
    own = (value for value in earlier if (text_of(value, "target") or NO_TARGET) == target)
    return [cost for value in own if (cost := cost_of(value)) is not None]


def names_of_targets(cases: Sequence[Case]) -> list[str]:
    return sorted({case.target for case in cases})


def reasons(cases: Sequence[Case]) -> tuple[Reason, ...]:
    """Return the reasons that several failing cases share, the most frequent first."""
    known = {name: each for case in cases for name, each in reasons_of(case).items()}
    found = Counter(name for case in cases for name in reasons_of(case))
    return tuple(
        Reason(known[name].reason, known[name].name, count, filter_link(outcome="fail", reason=name), name)
        for name, count in found.most_common(_MOST_REASONS)
        if count > 1  # the list above shows the reason of a single case
    )


def reasons_of(case: Case) -> dict[str, Judgement]:
    """Return why a case failed: evaluators below the threshold by the name that links have for their reasons."""
    low = case.low if case.status == "fail" else ()
    return {spelled(f"{each.name}: {each.reason}"): each for each in low if each.reason}


def also(compared: Compared) -> Iterator[tuple[str, str]]:
    """Yield further differences from the baseline: a text, and a link to the cases (empty: no link)."""
    if compared.comparison is None:
        return
    worse, better = compared.count("worse"), compared.count("better")
    yield from (
        (f"{count:,} {word}", filter_link(change=word) if count else "")
        for word, count in (("worse", worse), ("better", better))
    )
    for word, count in (("new", compared.count("new")), ("changed", compared.count("changed"))):
        if count:
            yield f"{count:,} {word}", filter_link(change=word)
    if gone := len(compared.comparison.pairing.gone):
        yield f"{gone:,} gone", ""
    if skipped := len(compared.comparison.pairing.skipped):
        yield f"{skipped:,} skipped", ""


def _target_row(name: str, cases: Sequence[Case], earlier_costs: Sequence[float]) -> TargetRow:
    rate: PassRate | None = pass_rate_of([case.judged for case in cases])
    times = [case.duration_ms for case in cases if case.duration_ms is not None]
    costs = [case.cost for case in cases if case.cost is not None]
    whole = sum(whole_cost_of(case.result.value) is not None for case in cases)
    return TargetRow(
        name=name,
        link=filter_link(target=name),
        rate="–" if rate is None else percent(rate.mean),
        interval="" if rate is None or rate.low is None or rate.high is None else bounds(rate.low, rate.high),
        failed=sum(case.status == "fail" for case in cases),
        errors=sum(case.status == "error" for case in cases),
        flaky=sum(case.is_flaky for case in cases),
        cost=_sum_of([*costs, *earlier_costs], whole, sum(may_cost(case.result.value) for case in cases)),
        median=duration(statistics.median(times)) if times else "–",
    )


def _sum_of(costs: Sequence[float], whole: int, cases: int) -> str:
    """Return a sum of costs. If it is not the whole cost of all cases, add for how many it is."""
    if not costs:
        return "–"
    part = f" ({whole:,} of {cases:,})" if whole < cases else ""
    return f"{dollars(sum(costs))}{part}"
