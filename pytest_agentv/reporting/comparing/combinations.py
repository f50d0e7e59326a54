"""The table of a run with several targets, or other combinations."""

from collections.abc import Iterator, Sequence

from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.comparing.runs_table import CaseOutcome, table_lines, without_combination
from pytest_agentv.reporting.figures import cost_of, duration_of, is_part, tokens_of


def combination_lines(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield a row for each combination, the best of each column marked with `*`, then the cases on which they disagree.

    Yields nothing for a run with fewer than two combinations.
    """
    groups: dict[str, dict[str, CaseOutcome]] = {}
    for result in sorted(results, key=lambda each: (each.combination or "", each.node_id or "")):
        if result.combination is not None:
            case = without_combination(result.node_id or result.eval_id, result.combination)
            cases = groups.setdefault(result.combination, {})
            name = f"{case} ({result.eval_id})" if case in cases else case  # several in a Python test
            cases[name] = _outcome(result)
    if len(groups) > 1:
        yield from table_lines(groups)


def _outcome(result: EvalResult) -> CaseOutcome:
    usage = tokens_of(result)
    return CaseOutcome(
        status=result.status,
        score=result.score,
        cost_usd=cost_of(result),
        tokens=None if usage is None else usage.total,
        duration_ms=duration_of(result),
        is_priced=not is_part(result, "priced"),
        is_metered=not is_part(result, "metered"),
        is_cached=bool(result.cached),
    )
