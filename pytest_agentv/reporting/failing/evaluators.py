"""Shows the results of evaluators: a table of scores, their findings, their reasoning."""

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import EvaluatorResult
from pytest_agentv.models.text import format_number
from pytest_agentv.reporting.escaping import columns, padded
from pytest_agentv.reporting.failing.sections import Look, block, indented
from pytest_agentv.reporting.figures import format_score

_SHORT: Final = 100


def evaluator_table(result: EvalResult, look: Look) -> str:
    rows = [("Evaluator", "Type", "Score", "Weight", "Verdict"), *_rows(result.evaluator_results or (), look)]
    if len(rows) == 1:
        return ""
    name_width, type_width = (max(columns(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(
        f"{padded(name, name_width)}  {padded(kind, type_width)}  {score:>5}  {weight:>6}  {verdict}"
        for name, kind, score, weight, verdict in rows
    )


def _rows(results: Sequence[EvaluatorResult], look: Look, depth: int = 0) -> Iterator[tuple[str, str, str, str, str]]:
    for result in results:
        yield (
            "  " * depth + look.name(result.name, 28),
            look.name(result.type, 18),
            format_score(result.score),
            "-" if result.weight is None else format_number(result.weight),
            "error" if result.error else result.verdict,
        )
        yield from _rows(result.evaluator_results or (), look, depth + 1)


def reasoning(result: EvalResult, look: Look) -> str:
    """Return the reasoning, one line per evaluator if there are several."""
    said = [(each.name, each.reasoning) for each in result.evaluator_results or () if each.reasoning]
    if len(said) <= 1:
        return block("Reasoning:", result.reasoning or "", look)
    lines = (f"{look.name(name, _SHORT)}: {look.head(reasoning)}" for name, reasoning in said)
    return "\n  ".join(["Reasoning:", *(indented(line, "  ") for line in lines)])


def raw_outputs(result: EvalResult, look: Look) -> str:
    """Return the unreadable output of judges, which explains why they score 0."""
    blocks = [
        block(f"Unreadable reply of {look.name(evaluator.name, 28)}:", evaluator.raw_output, look)
        for evaluator in result.evaluator_results or ()
        if evaluator.raw_output
    ]
    return "\n".join(blocks)


def findings(title: str, result: EvalResult, look: Look) -> str:
    """Return hits or misses, with the evaluators' names if there are several."""
    evaluators = result.evaluator_results or ()
    items = result.misses if title == "Misses" else result.hits
    if len(evaluators) > 1:
        named = [
            f"{look.name(evaluator.name, 28)}: {look.head(item)}"
            for evaluator in evaluators
            for item in (evaluator.misses if title == "Misses" else evaluator.hits)
        ]
        return _listed(title, named or list(map(look.head, items)))
    return _listed(title, list(map(look.head, items)))


def _listed(title: str, items: Sequence[str]) -> str:
    lines = (f"  - {indented(item, '    ')}" for item in items)
    return "\n".join([f"{title} ({len(items)}):", *lines]) if items else ""
