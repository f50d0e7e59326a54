"""Reads costs, tokens and times from results, and formats them for people."""

import math
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from pytest_agentv.models.base import is_amount
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import format_fixed
from pytest_agentv.models.traces import JudgeMetrics, TokenUsage, is_known

N = TypeVar("N", int, float)

_CENT = 0.01


def format_score(score: float) -> str:
    return format_fixed(score, 3)


def format_cost(dollars: float) -> str:
    """Format dollars with four decimals, or six below a cent, because model calls are cheap."""
    return f"${format_fixed(dollars, 4 if dollars >= _CENT or dollars == 0 else 6)}"


def format_duration(milliseconds: float) -> str:
    """`250 ms`, `1.2 s`, `2 min 5 s`."""
    if not math.isfinite(milliseconds):
        return "unknown"
    if round(milliseconds) < 1000:
        return f"{round(milliseconds)} ms"
    seconds = milliseconds / 1000
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_tokens(usage: TokenUsage) -> str:
    """`1,250 (1,000 in, 250 out)`."""
    cached = f", {usage.cached:,.0f} cached" if usage.cached else ""
    reasoning = f", {usage.reasoning:,.0f} of them for reasoning" if usage.reasoning else ""
    return f"{usage.total:,.0f} ({usage.input:,.0f} in, {usage.output:,.0f} out{reasoning}{cached})"


def cost_of(result: EvalResult) -> float | None:
    """Return the reported price of the answer in US dollars, if any. A cached answer has its original price."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_amount(metrics.cost_usd):
            return metrics.cost_usd
    return None


def paid_cost_of(result: EvalResult) -> float | None:
    """Return what this run paid for the answer in US dollars, if its price is reported: 0 for a cached answer."""
    cost = cost_of(result)
    return 0.0 if result.cached and cost is not None else cost


def asked_nothing(result: EvalResult) -> bool:
    """Whether a case could not be asked, so that there is no cost to know. If its worker died, it may have been."""
    detail = result.error_detail
    if detail is None or detail.stage != "setup" or result.attempts:
        return False
    return detail.kind != "crash" or result.duration_ms is not None  # nobody knows how long a worker took that died


def is_part(result: EvalResult, key: Literal["priced", "metered"]) -> bool:
    """Whether the cost or the tokens of a case cover only some of its answers."""
    parts = () if result.repeat is None else (result.repeat, result.repeat.confirm)
    return any(part is not None and getattr(part, key) is not None for part in parts)


def known_answers(result: EvalResult, key: Literal["priced", "metered"]) -> tuple[int, int]:
    """Return for how many answers of a case the cost or the tokens are known, and how many answers count."""
    is_known = (cost_of(result) if key == "priced" else tokens_of(result)) is not None
    if result.repeat is None:
        return int(is_known), 1
    parts = [part for part in (result.repeat, result.repeat.confirm) if part is not None]
    counts = [(part.asked, part.cached or 0, getattr(part, key) if is_known else 0) for part in parts]
    return known_of(counts, is_cached=bool(result.cached))


def known_of(parts: Iterable[tuple[N, N, N | None]], *, is_cached: bool) -> tuple[N, N]:
    """Return for how many answers a figure is known, and how many answers count.

    Cached answers count only if there are no others (`is_cached`): then the figures are theirs.

    Args:
        parts: Of the answers and of those that were asked again: how many there are, how many are cached, and for how
            many the figure is known; None: for all.
        is_cached: Whether all answers come from the cache.
    """
    counts = [(asked if is_cached else asked - cached, known) for asked, cached, known in parts]
    return sum(count if known is None else known for count, known in counts), sum(count for count, _ in counts)


def known_parts(result: EvalResult) -> Mapping[str, str]:
    """Return how many answers or calls each partial figure covers: `{"cost": "2 of 4 answers"}`."""
    if result.repeat is None and result.judge_metrics is None:
        return {}  # the figures of one answer are known or not
    judges = result.judge_metrics or JudgeMetrics(0)
    counts = {
        "cost": (*known_answers(result, "priced"), "answers"),
        "tokens": (*known_answers(result, "metered"), "answers"),
        "judge_cost": (judges.known_costs, judges.calls, "calls"),
    }
    if result.cached:
        del counts["cost"]  # cached answers cost nothing now
    return {name: f"{known} of {asked} {noun}" for name, (known, asked, noun) in counts.items() if 0 < known < asked}


def judge_cost_of(result: EvalResult) -> float | None:
    """Return the reported cost of the models that judged in US dollars, if any."""
    metrics = result.judge_metrics
    return metrics.cost_usd if metrics is not None and is_amount(metrics.cost_usd) else None


def tokens_of(result: EvalResult) -> TokenUsage | None:
    """Return the reported tokens of the answer, if any."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_known(metrics.token_usage):
            return metrics.token_usage
    return None


def duration_of(result: EvalResult) -> float | None:
    """Return the duration of the answer in milliseconds, if known."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_amount(metrics.duration_ms):
            return metrics.duration_ms
    return None


def place_of(result: EvalResult) -> str:
    """Return where a case is written: its line in the eval file, and the row of its table."""
    place = f"{result.eval_file}:{result.line}" if result.line else f"{result.eval_file}"
    return f"{place}, row {result.row}" if result.row else place


def case_name(result: EvalResult) -> str:
    """Return the name of a case to show: its node id, with its own id if a Python test has several cases."""
    return with_id(result.node_id or result.eval_id, result.eval_file, result.eval_id)


def with_id(name: str, eval_file: str | None, eval_id: str) -> str:
    """Return the name of an item, with the id of its case if it is a Python test with several cases."""
    is_python = (eval_file or "").endswith(".py")
    return f"{name} ({eval_id})" if is_python and not f"::{name}".endswith(f"::{eval_id}") else name


def moment_of(result: EvalResult) -> tuple[str, float | None]:
    """Return what tells an attempt from others of its case. A line that writes an attempt anew has the same."""
    return result.timestamp, result.duration_ms
