"""The large numbers of the first screen: pass rate, difference to the baseline, cost and time."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.compared import Compared
from pytest_agentv.reporting.html.reading import attempt_of
from pytest_agentv.reporting.html.texts import dollars, duration, points
from pytest_agentv.reporting.html.values import (
    cost_of,
    is_cached,
    judge_calls_of,
    judge_cost_of,
    may_cost,
    whole_cost_of,
)
from pytest_agentv.reporting.merging.replaced import are_reruns, with_earlier
from pytest_agentv.reporting.verdicts.case_reading import name_of
from pytest_agentv.reporting.verdicts.cases import measure_of
from pytest_agentv.reporting.verdicts.columns import bounds, percent

MINUS: Final = "\N{MINUS SIGN}"


@record
class Figure(Record):
    """One of the large numbers."""

    label: str
    value: str
    text: str
    bar: tuple[float, float, float] | None = None
    """Low, high and mean of an interval, 0 to 1."""


def figures(cases: Sequence[Case], compared: Compared, earlier: Sequence[JsonObject] = ()) -> tuple[Figure, ...]:
    """Return pass rate, difference to the baseline, cost and time. `earlier` are results that were replaced."""
    cost = _cost(cases, compared, earlier)
    return tuple(filter(None, (_rate(compared), _difference(compared), cost, _time(cases))))


def _rate(compared: Compared) -> Figure:
    rate, name = compared.statistics.rate, measure_of(compared.statistics.cases)
    if rate is None:
        is_dry = any("dry_run" in case.flags for case in compared.statistics.cases)
        return Figure(name, "–", "a dry run judges nothing" if is_dry else "no case could be judged")
    if rate.low is None or rate.high is None:
        return Figure(name, percent(rate.mean), "one case, or one group of cases: no interval")
    units = f"; {counted(rate.units, 'independent group')}" if rate.units < rate.n else f"; {counted(rate.n, 'case')}"
    text = f"95 %: {bounds(rate.low, rate.high)} for cases of this kind{units}"
    return Figure(name, percent(rate.mean), text, (rate.low, rate.high, rate.mean))


def _difference(compared: Compared) -> Figure | None:
    comparison = compared.comparison
    if comparison is None or comparison.difference is None:
        return None
    interval = comparison.difference.estimate.interval
    sure = "" if interval is None else f"95 %: {points(interval.low)} to {points(interval.high)}; "
    text = f"{sure}{comparison.worse} worse, {comparison.better} better of {len(comparison.pairing.pairs):,} compared"
    return Figure("Against the baseline", f"{points(comparison.difference.estimate.mean)} points", text)


def _cost(cases: Sequence[Case], compared: Compared, earlier: Sequence[JsonObject]) -> Figure:
    costs = [case.cost for case in cases if case.cost is not None]
    values = (*(case.result.value for case in cases), *earlier)
    for_judges = list(_cost_of_judges(values))
    cached = sum(is_cached(case.result.value) for case in cases)
    reruns, replaced = _costs_of_earlier(cases, earlier)
    if not (costs or reruns or replaced):
        why = "all answers came from the cache" if cached == len(cases) else "not reported"
        return Figure("Cost", "–", "; ".join([why, *for_judges]))
    parts = [f"{dollars(sum(costs) / len(costs))} a case"] if costs else []
    whole = sum(whole_cost_of(case.result.value) is not None for case in cases)
    asked = sum(may_cost(case.result.value) for case in cases)
    if whole < asked:
        parts.append(f"known for {whole:,} of {asked:,}")
    if cached:
        parts.append(f"{cached:,} from the cache")
    parts += _change_of_cost(cases, compared, earlier)
    if reruns:
        parts.append(f"{dollars(sum(reruns))} of it for {counted(len(reruns), 'rerun')}")
    if replaced:
        were = "was" if len(replaced) == 1 else "were"
        parts.append(f"{dollars(sum(replaced))} of it for {counted(len(replaced), 'result')} that {were} replaced")
    parts += for_judges
    return Figure("Cost", dollars(sum((*costs, *reruns, *replaced))), "; ".join(parts))


def _costs_of_earlier(cases: Sequence[Case], earlier: Sequence[JsonObject]) -> tuple[list[float], list[float]]:
    """Return the known costs of the results that reruns replaced, and of those replaced for other reasons."""
    values = (earlier, [case.result.value for case in cases])
    before, last = ([(name_of(value), attempt_of(value)) for value in some] for some in values)
    found: tuple[list[float], list[float]] = ([], [])
    for value, is_rerun in zip(earlier, are_reruns(before, last), strict=True):
        if (cost := cost_of(value)) is not None:
            found[0 if is_rerun else 1].append(cost)
    return found


def _cost_of_judges(values: Sequence[JsonObject]) -> Iterator[str]:
    costs = [cost for value in values if (cost := judge_cost_of(value)) is not None]
    if costs:
        known, calls = map(sum, zip(*map(judge_calls_of, values), strict=True))
        part = f", known for {known:,.0f} of {calls:,.0f} calls" if known < calls else ""
        yield f"judges took {dollars(math.fsum(costs))} beside it{part}"


def _change_of_cost(cases: Sequence[Case], compared: Compared, earlier: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the change of the cost, over the cases whose cost is known in both runs."""
    base = compared.base
    if base is None:
        return
    cost_now, cost_before = (
        with_earlier([value for value in some if not is_cached(value)], name_of, whole_cost_of)
        for some in (earlier, base.earlier)
    )
    known = [
        (now, before)
        for case in cases
        if case.change is not None and case.change.word != "changed" and case.change.before is not None
        if (now := cost_now(case.result.value)) is not None
        if (before := cost_before(case.change.before.value)) is not None
    ]
    old = math.fsum(before for _, before in known)
    if old <= 0:
        return
    change = round(100 * (math.fsum(now for now, _ in known) / old - 1))
    text = f"{change:+d} % against the baseline" if change else "as much as the baseline"
    part = f" over {counted(len(known), 'case')}" if len(known) < max(len(cases), len(base.results)) else ""
    yield f"{text.replace('-', MINUS)}{part}"


def _time(cases: Sequence[Case]) -> Figure:
    times = sorted(case.duration_ms for case in cases if case.duration_ms is not None)
    if not times:
        return Figure("Time of a case", "–", "not measured")
    slow = times[min(len(times) - 1, int(len(times) * 0.95))]
    answers = sum(len(case.marks) for case in cases if case.duration_ms is not None)
    text = f"median; 95 % take less than {duration(slow)}; {counted(answers, 'answer')}"
    return Figure("Time of a case", duration(statistics.median(times)), text)
