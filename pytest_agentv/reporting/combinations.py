"""The table of a run with several targets, or other combinations: a row for each, and where they disagree."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.figures import cost_of, duration_of, format_cost, format_duration, format_score, tokens_of

_HEAD: Final = ("", "cases", "passed", "mean", "cost", "tokens", "median", "95 %")
_MOST_LISTED: Final = 10
_LONGEST_NAME: Final = 30


class _Column(NamedTuple):
    """How a figure is shown, and which one is best."""

    show: Callable[[float], str]
    best: Callable[[Sequence[float]], float]


_COLUMNS: Final = (
    _Column(lambda value: f"{value:,.0f}", max),
    _Column(format_score, max),
    _Column(format_cost, min),
    _Column(lambda value: f"{value:,.0f}", min),
    _Column(format_duration, min),
    _Column(format_duration, min),
)


def combination_lines(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield a row for each combination, the best of each column marked with `*`, then the cases on which they disagree.

    Yields nothing for a run with fewer than two combinations.
    """
    groups: dict[str, list[EvalResult]] = {}
    for result in sorted(results, key=lambda each: (each.combination or "", each.node_id or "")):
        if result.combination is not None:
            groups.setdefault(result.combination, []).append(result)
    if len(groups) < 2:
        return
    figures = {name: _figures(group) for name, group in groups.items()}
    columns = list(zip(*figures.values(), strict=True))
    best = [_best(column, values) for column, values in zip(_COLUMNS, columns, strict=True)]
    rows = [_HEAD, *(_row(name, groups[name], values, best) for name, values in figures.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()
    yield from _disagreements(groups)


def _figures(results: Sequence[EvalResult]) -> tuple[float | None, ...]:
    judged = [result for result in results if result.status != "error"]
    costs = [cost for result in results if (cost := cost_of(result)) is not None]
    usages = [usage.total for result in results if (usage := tokens_of(result)) is not None]
    times = sorted(time for result in judged if (time := duration_of(result)) is not None)
    return (
        sum(result.status == "pass" for result in results),
        statistics.fmean(result.score for result in judged) if judged else None,
        sum(costs) if costs else None,
        sum(usages) if usages else None,
        statistics.median(times) if times else None,
        times[max(0, -(-95 * len(times) // 100) - 1)] if times else None,
    )


def _best(column: _Column, values: Sequence[float | None]) -> str | None:
    """Return how the best value is shown; None if all are shown alike."""
    known = [value for value in values if value is not None]
    return column.show(column.best(known)) if len({column.show(value) for value in known}) > 1 else None


def _row(
    name: str, results: Sequence[EvalResult], values: Sequence[float | None], best: Sequence[str | None]
) -> tuple[str, ...]:
    shown = ["-" if value is None else column.show(value) for column, value in zip(_COLUMNS, values, strict=True)]
    marked = [f"{cell}*" if cell == top else f"{cell} " for cell, top in zip(shown, best, strict=True)]
    label = visible(name)
    cut = label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"
    return cut, str(len(results)), *marked


def _disagreements(groups: Mapping[str, Sequence[EvalResult]]) -> Iterator[str]:
    statuses: dict[str, dict[str, str]] = {}
    for name, results in groups.items():
        for result in results:
            case = (result.node_id or result.eval_id).removesuffix(f"@{name}")
            statuses.setdefault(case, {})[name] = result.status
    split = {case: found for case, found in statuses.items() if len(set(found.values())) > 1}
    if split:
        yield f"They disagree on {len(split)} of {len(statuses)} cases:"
    for case, found in list(split.items())[:_MOST_LISTED]:
        yield visible(f"  {case}: {', '.join(f'{name} {status}' for name, status in found.items())}")
    if len(split) > _MOST_LISTED:
        yield f"  … and {len(split) - _MOST_LISTED} more"
