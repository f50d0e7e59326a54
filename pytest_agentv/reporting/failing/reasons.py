"""Explains on one line why a case failed: the reason first, the numbers last."""

from collections.abc import Iterable, Sequence
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import NOTHING_COUNTS, EvaluatorResult
from pytest_agentv.models.text import format_fixed, format_number
from pytest_agentv.reporting.escaping import on_one_line, shown, visible

_MOST_MISSES: Final = 3
_LONGEST_MISS: Final = 80
_LONGEST_NAME: Final = 28
_LONGEST_LINE: Final = 300
_MISSING: Final = "missing: "


def reason_line(result: EvalResult, masker: Masker) -> str:
    """Return `facts: missing "30 days"; tone: too curt (0.50 < 0.80)`, at most 300 characters.

    Only for a case that its score decided. Hooks, required checks and repeated answers have texts of their own.
    """
    arithmetic = _arithmetic(result)
    weak = _weak(result)
    if result.evaluator_results:
        parts = [f"{on_one_line(visible(each.name), _LONGEST_NAME)}: {_reason(each, masker)}" for each in weak]
    else:
        parts = [_said(result.misses, result.reasoning, masker)]
    reason = "; ".join(filter(None, parts)) or (NOTHING_COUNTS if _counts_nothing(result) else "the score is too low")
    return f"{on_one_line(reason, _LONGEST_LINE - len(arithmetic))}{arithmetic}"


def _weak(result: EvalResult) -> list[EvaluatorResult]:
    """Return the evaluators that lowered the score: those with a weight and a score below the threshold."""
    counted = [each for each in result.evaluator_results or () if each.weight != 0 and each.score < 1]
    return [each for each in counted if each.score < (result.threshold or 1)] or counted


def _reason(result: EvaluatorResult, masker: Masker) -> str:
    if result.type == "composite" and result.evaluator_results and not result.misses:
        members = [each for each in result.evaluator_results if each.score < 1]
        said = (f"{on_one_line(visible(each.name), _LONGEST_NAME)} {_reason(each, masker)}" for each in members)
        return ", ".join(said) or (NOTHING_COUNTS if _counts_nothing(result) else format_fixed(result.score, 2))
    words = [_keyword(miss) for miss in result.misses] if result.type == "heuristic" else result.misses
    return _said(words, result.reasoning, masker) or format_fixed(result.score, 2)


def _counts_nothing(result: EvalResult | EvaluatorResult) -> bool:
    parts = result.evaluator_results or ()
    return bool(parts) and all(each.weight == 0 for each in parts)


def _keyword(miss: str) -> str:
    """Return the fault of a keyword: missing, or present and forbidden."""
    return f'missing "{miss.removeprefix(_MISSING)}"' if miss.startswith(_MISSING) else f'has "{miss}"'


def _said(misses: Sequence[str], reasoning: str | None, masker: Masker) -> str:
    """Return the first misses or, without any, the first sentence of the reasoning."""
    if misses:
        more = [f"and {len(misses) - _MOST_MISSES} more"] if len(misses) > _MOST_MISSES else []
        return ", ".join([*_lines(misses[:_MOST_MISSES], masker), *more])
    sentence = shown(reasoning or "", masker).strip().partition("\n")[0].partition(". ")[0]
    return on_one_line(sentence, 2 * _LONGEST_MISS).removesuffix(".")


def _lines(texts: Iterable[str], masker: Masker) -> Iterable[str]:
    return (on_one_line(shown(text, masker), _LONGEST_MISS) for text in texts)


def _arithmetic(result: EvalResult) -> str:
    if result.threshold is None or result.score >= result.threshold:
        return ""
    score, threshold = format_fixed(result.score, 2), format_fixed(result.threshold, 2)
    if score == threshold:
        score, threshold = format_number(result.score), format_number(result.threshold)
    return f" ({score} < {threshold})"
