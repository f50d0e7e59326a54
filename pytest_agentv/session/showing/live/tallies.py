"""Counts the answers of a run while it goes on, and formats the counts."""

from dataclasses import dataclass

from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.figures import format_cost, format_duration, paid_cost_of


@dataclass(slots=True)
class Tally:
    """Counts of the answers of a run, or of one of its targets."""

    done: int = 0
    failed: int = 0
    errors: int = 0
    cost: float = 0.0
    busy_ms: float = 0.0
    """The summed durations of the counted cases."""
    cases: int = 0

    def judge(self, result: EvalResult) -> None:
        """Count the result of a case."""
        self.failed += result.status == "fail"
        self.errors += result.status == "error"
        self.busy_ms += result.duration_ms or 0
        self.cases += 1

    def troubles(self) -> list[str]:
        errors = [counted(self.errors, "error")] if self.errors else []
        return [*([f"{self.failed:,} failed"] if self.failed else []), *errors]


def paid(result: EvalResult) -> float:
    """Return the cost of a result including its judges. Cached answers and replies cost nothing."""
    judges = 0.0 if result.judge_metrics is None else result.judge_metrics.cost_usd or 0.0
    return judges + (paid_cost_of(result) or 0.0)


def line_text(tally: Tally, total: int, in_flight: int, elapsed_seconds: float) -> str:
    """Return the line: done, in flight, failed, errors, time, time left, cost and its forecast, rate."""
    parts = [f"{tally.done:,}/{total:,} done", f"{in_flight:,} in flight", *tally.troubles()]
    parts.append(format_duration(elapsed_seconds * 1000))
    goes_on = 0 < tally.done < total
    if goes_on:
        left = elapsed_seconds / tally.done * (total - tally.done)
        parts.append(f"about {format_duration(left * 1000)} left")
    if tally.cost:
        forecast = f" of about {format_cost(tally.cost / tally.done * total)}" if goes_on else ""
        parts.append(f"{format_cost(tally.cost)}{forecast}")
    if goes_on and elapsed_seconds > 0:
        parts.append(f"{60 * tally.done / elapsed_seconds:.0f}/min")
    return ", ".join(parts)


def log_text(tally: Tally, total: int, elapsed_seconds: float) -> str:
    """Return the line of a log: `evals: 30 % (15/48), 2 failed, $0.1200, 12.0 s`."""
    share = f"evals: {100 * tally.done // total} % ({tally.done:,}/{total:,})"
    cost = [format_cost(tally.cost)] if tally.cost else []
    return ", ".join([share, *tally.troubles(), *cost, format_duration(elapsed_seconds * 1000)])
