"""Explains on one line why a case failed: the reason first, the numbers last."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.results import NOTHING_COUNTS, EvalResult, EvaluatorResult, RepeatFigures
from pytest_agentv.model.secrets import Masker
from pytest_agentv.model.text import format_fixed, format_number
from pytest_agentv.reports.figures import format_score, on_one_line, shown, visible

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
    if result.evaluator_results:
        # Those that lowered the score: with a weight, and a score below the threshold.
        counted = [each for each in result.evaluator_results if each.weight != 0 and each.score < 1]
        weak = [each for each in counted if each.score < (result.threshold or 1)] or counted
        parts = [f"{on_one_line(visible(each.name), _LONGEST_NAME)}: {_reason(each, masker)}" for each in weak]
    else:
        parts = [_said(result.misses, result.reasoning, masker)]
    reason = "; ".join(filter(None, parts)) or (NOTHING_COUNTS if _counts_nothing(result) else "the score is too low")
    return f"{on_one_line(reason, _LONGEST_LINE - len(arithmetic))}{arithmetic}"


def _reason(result: EvaluatorResult, masker: Masker) -> str:
    if result.type == "composite" and result.evaluator_results and not result.misses:
        members = [each for each in result.evaluator_results if each.score < 1]
        said = (f"{on_one_line(visible(each.name), _LONGEST_NAME)} {_reason(each, masker)}" for each in members)
        return ", ".join(said) or (NOTHING_COUNTS if _counts_nothing(result) else format_fixed(result.score, 2))
    words: Sequence[str] = result.misses
    if result.type == "heuristic":  # keywords: missing, or present and forbidden
        words = [
            f'missing "{miss.removeprefix(_MISSING)}"' if miss.startswith(_MISSING) else f'has "{miss}"'
            for miss in words
        ]
    return _said(words, result.reasoning, masker) or format_fixed(result.score, 2)


def _counts_nothing(result: EvalResult | EvaluatorResult) -> bool:
    parts = result.evaluator_results or ()
    return bool(parts) and all(each.weight == 0 for each in parts)


def _said(misses: Sequence[str], reasoning: str | None, masker: Masker) -> str:
    """Return the first misses or, without any, the first sentence of the reasoning."""
    if misses:
        more = [f"and {len(misses) - _MOST_MISSES} more"] if len(misses) > _MOST_MISSES else []
        first = (on_one_line(shown(miss, masker), _LONGEST_MISS) for miss in misses[:_MOST_MISSES])
        return ", ".join([*first, *more])
    sentence = shown(reasoning or "", masker).strip().partition("\n")[0].partition(". ")[0]
    return on_one_line(sentence, 2 * _LONGEST_MISS).removesuffix(".")


def _arithmetic(result: EvalResult) -> str:
    if result.threshold is None or result.score >= result.threshold:
        return ""
    score, threshold = format_fixed(result.score, 2), format_fixed(result.threshold, 2)
    if score == threshold:
        score, threshold = format_number(result.score), format_number(result.threshold)
    return f" ({score} < {threshold})"


# Describes the answers of a repeated case in words.

_SOURCES: Final[Mapping[str, str]] = {
    "command line": " of the command line",
    "case": " of the case",
    "file": " of the file",
    "ini": " of the ini file",
    "default": ", the default",
}


def repeat_headline(result: EvalResult, figures: RepeatFigures) -> str:
    """Return `3 of 5 answers pass, 4 are needed (threshold 0.8, min_pass_rate 0.8 of the file)`."""
    threshold = "" if result.threshold is None else f"threshold {format_number(result.threshold)}, "
    rate = f"min_pass_rate {format_number(figures.min_pass_rate)}{_SOURCES.get(figures.min_pass_rate_source, '')}"
    return f"{passes_text(figures)}, {needed_text(figures)} ({threshold}{rate})"


def passes_text(figures: RepeatFigures) -> str:
    """Return `3 of 5 answers pass`, counting judged answers only."""
    verb = "answer passes" if figures.judged == 1 and figures.passes == 1 else "answers pass"
    return f"{figures.passes} of {figures.judged} {verb}"


def needed_text(figures: RepeatFigures) -> str:
    """Return `4 are needed`, with the number of answers if not all were judged."""
    needed = f"{figures.needed}" if figures.judged == figures.planned else f"{figures.needed} of {figures.planned}"
    text = f"{needed} {'is' if figures.needed == 1 else 'are'} needed"
    return f"{text}, {figures.errors} could not be had" if figures.errors else text


def scores_line(figures: RepeatFigures, shown: str) -> str:
    """Return the scores of all answers, and which answer the rest of the text is about."""
    scores = ", ".join(map(format_score, figures.scores))
    return f"Scores of the answers: {scores}. What follows is about {shown}."


# Finds the results of finished runs that an `xfail` mark turns around.

STRICT_PASSES: Final = "Failed because they passed (strict `xfail`)"


def failed_as_expected(result: EvalResult | JsonObject) -> bool:
    """Whether a low score was expected. An error never is."""
    return _value(result, "status") == "fail" and isinstance(_value(result, "xfail"), str)


def expected_failures(results: Iterable[EvalResult | JsonObject]) -> frozenset[str]:
    """Return the node ids of the cases that failed as expected."""
    return frozenset(filter(None, (_node_id(each) for each in results if failed_as_expected(each))))


def unexpected_passes(results: Iterable[EvalResult | JsonObject]) -> frozenset[str]:
    """Return the node ids of items that failed because they passed: their mark is strict.

    A test may have several results. It failed as expected if one of them failed.
    """
    strict, others = set[str](), set[str]()
    for each in results:
        if _value(each, "xfail_strict") is True:
            (strict if _value(each, "status") == "pass" else others).add(_node_id(each))
    return frozenset(filter(None, strict - others))


def _node_id(result: EvalResult | JsonObject) -> str:
    node_id = _value(result, "node_id")
    return node_id if isinstance(node_id, str) else ""


def _value(result: EvalResult | JsonObject, name: str) -> Any:
    return getattr(result, name) if isinstance(result, EvalResult) else result.get(name)
