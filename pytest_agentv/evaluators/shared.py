"""The keys that all kinds share: judge a part of the answer, negate the verdict, be required."""

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context
from pytest_agentv.model.base import ABSENT, Json
from pytest_agentv.model.cases import AnyEvaluator
from pytest_agentv.model.results import EvaluatorResult, Score, clamp_score, is_score
from pytest_agentv.model.text import compact_json, format_number

KEYS: Final = ("required", "negate", "path")
ROUNDING: Final = 1e-9
"""How far a score may be outside 0..1 without a warning."""
SLACK: Final = 1e-9
"""How far a float may be below a score that it has to reach."""

FORM_DIFFERS: Final = " (only the Unicode form differs: "
CHARACTER_DIFFERS: Final = " (only a character differs: "
"""How the note begins that a check misses a text which people would find."""

_NEGATED: Final = "negated: hits and misses are swapped"


def shared_key(evaluator: AnyEvaluator, key: str) -> Any:
    """Return the value of a key that all kinds share; None if the kind has its own key of that name."""
    return None if key in _own_keys(type(evaluator)) else getattr(evaluator, key, None)


@cache
def _own_keys(kind: type[object]) -> frozenset[str]:
    """Return the shared keys that a class redefines. The last class that annotates a key is the base of all kinds."""
    return frozenset(key for key in KEYS if sum(key in inspect.get_annotations(each) for each in kind.__mro__) > 1)


def narrowed(evaluator: AnyEvaluator, context: Context) -> Context | Score:
    """Return the context of the part to judge, or the score of an answer without that part."""
    path = shared_key(evaluator, "path")
    if path is None:
        return context
    from pytest_agentv.evaluators.answer_data import locate_part  # noqa: PLC0415 - only for evaluators with a path

    part, miss = locate_part(context.candidate_answer if context.part is ABSENT else context.part, path)
    if part is ABSENT:
        return Score(0.0, misses=(miss,), unchecked=miss)
    return context.replace(candidate_answer=text_of_part(part), part=part)


def text_of_part(part: Json) -> str:
    """Return a text unchanged, and other data as JSON."""
    return part if isinstance(part, str) else compact_json(part)


def require_judgements(members: Sequence[EvaluatorResult]) -> None:
    """Raise `EvaluatorError` if a member could not judge."""
    broken = list(_broken(members))
    if broken:
        reasons = ((member.name, (member.error or "").strip() or "it does not say why") for member in broken)
        message = "; ".join(f"member {name!r} could not judge: {reason}" for name, reason in reasons)
        raise EvaluatorError(message, kind=broken[0].error_kind or "crash", output=broken[0].raw_output)


def _broken(members: Sequence[EvaluatorResult]) -> Iterator[EvaluatorResult]:
    for member in members:
        if member.error is not None:
            yield member
        else:
            yield from _broken(member.evaluator_results or ())


def negated(score: Score) -> Score:
    """Negate a judgement. An error stays unchanged, because it says nothing about the answer.

    A value that is not a number also stays: it is an error, and must not become a pass. A check that was not made
    scores 0 either way. Raises `EvaluatorError` for a score that rests on unknown facts, which would become a pass too.
    """
    if score.error is not None or not is_score(score.value):
        return score
    if score.unknown is not None:
        error = EvaluatorError(f"{score.unknown}: there is nothing to negate", kind="config")
        error.results = score.results
        raise error
    if score.unchecked is not None:
        return score.replace(
            value=0.0,
            hits=(),
            misses=(score.unchecked, *score.hits),
            verdict=None,
            reasoning="negated, but the check could not be made",
            unmet_required=None,
        )
    doubts = [miss for miss in score.misses if FORM_DIFFERS in miss or CHARACTER_DIFFERS in miss]
    return score.replace(
        warnings=(*score.warnings, *doubts),  # it may pass, and nobody looks at the findings of what passes
        value=1 - score.value,  # not clamped, because a score outside of 0 to 1 causes a warning
        hits=tuple(score.misses),
        misses=tuple(score.hits),
        verdict=None,
        reasoning=f"{_NEGATED}; {score.reasoning}" if score.reasoning else _NEGATED,
        unmet_required=None,
    )


def with_requirement(evaluator: AnyEvaluator, score: Score, threshold: float) -> Score:
    """Return the score with `unmet_required` where a required evaluator is not satisfied."""
    needed = evaluator.required_score(threshold)
    if score.error is not None or clamp_score(score.value) + SLACK >= needed:
        return score
    unmet = (unmet_text(evaluator, score.misses), *(score.unmet_required or ()))
    return score.replace(unmet_required=unmet, verdict="fail")


def unmet_text(evaluator: AnyEvaluator, misses: Sequence[str]) -> str:
    """Say that a required evaluator is not satisfied, with its first miss."""
    return f"{evaluator.label}: {misses[0]}" if misses else evaluator.label


def clamping_warnings(given: float, value: float) -> tuple[str, ...]:
    """Say that a score was clamped; nothing if it was not, or only rounded."""
    if given == value or -ROUNDING <= given <= 1 + ROUNDING:
        return ()
    shown = format_number(given) if abs(given) < 1e21 else "too large to show"
    return (f"the score {shown} is outside 0 to 1 and counts as {format_number(value)}",)
