"""The history of several runs, as a whole and by case."""

import math
from collections.abc import Sequence

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import status_of
from pytest_agentv.reporting.html.reading import Run
from pytest_agentv.reporting.html.values import cost_of, may_cost, whole_cost_of
from pytest_agentv.reporting.verdicts.run_statistics import PassRate, pass_rate_of


@record
class Past(Record):
    """A case in one of the runs."""

    run: str
    when: str
    status: str
    passes: int
    judged: int
    score: float | None
    """The mean score of its answers; None: it could not be judged."""


@record
class PastRun(Record):
    """A run as a whole."""

    name: str
    when: str
    """A date and a time, or the name of the file."""
    rate: PassRate
    cost: float | None
    """US dollars, with those of replaced results; None: unknown."""
    cost_cases: int
    """Cases that know the cost of all their answers."""
    cases: int
    """Cases whose target was called. Cached answers cost nothing."""


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose results are known, oldest first."""
    return sorted((run for run in runs if run.results), key=lambda run: run.finished)


def past_runs(runs: Sequence[Run]) -> tuple[PastRun, ...]:
    """Return the figures of each run; empty if there is only one."""
    found = [_past(run, rate) for run in runs if (rate := pass_rate_of(run.cases)) is not None]
    return tuple(found) if len(found) > 1 else ()


def past_of_cases(runs: Sequence[Run]) -> dict[str, list[Past]]:
    """Return the history of each case by its key; empty if there is only one run."""
    found: dict[str, list[Past]] = {}
    for run in runs if len(runs) > 1 else ():
        when = when_of(run)
        for result in run.results:
            case = result.case
            score = None if case.is_error else math.fsum(case.scores) / case.judged
            past = Past(run.name, when, status_of(result.value, case), case.passes, case.judged, score)
            found.setdefault(result.key, []).append(past)
    return found


def _past(run: Run, rate: PassRate) -> PastRun:
    values = (*(result.value for result in run.results), *run.earlier)
    costs = [cost for value in values if (cost := cost_of(value)) is not None]
    whole = sum(whole_cost_of(result.value) is not None for result in run.results)
    asked = sum(may_cost(result.value) for result in run.results)
    return PastRun(run.name, when_of(run), rate, sum(costs) if costs else None, whole, asked)


def when_of(run: Run) -> str:
    """Return when a run ended, as `2026-11-22 06:00`, else the name of its file."""
    return run.finished[:16].replace("T", " ") or run.name
