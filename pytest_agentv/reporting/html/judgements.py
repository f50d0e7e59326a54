"""The results of a case's evaluators, and a short reason why the case did not pass."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.texts import first_sentence
from pytest_agentv.reporting.html.values import mapping_of, mappings_of, number_of, score_of, text_of, texts_of

DEFAULT_JUDGE: Final = "default judge"
_SLACK: Final = 1e-9
_MOST_MISSES: Final = 3


@record
class Judgement(Record):
    """The result of one evaluator."""

    name: str
    type: str
    score: float
    weight: float | None = None
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    model: str = ""
    error: str = ""
    duration_ms: float | None = None
    rubrics: tuple[JsonObject, ...] = ()
    """`{"text": …, "met": true}`."""
    depth: int = 0
    """The depth of a composite's members is one more than its own."""

    def is_low(self, threshold: float | None) -> bool:
        return bool(self.error) or self.score < (1.0 if threshold is None else threshold) - _SLACK

    @property
    def reason(self) -> str:
        """Why the score is not better, on one line."""
        if self.error:
            return first_sentence(self.error)
        if self.misses:
            return _missing(self.misses)
        return first_sentence(self.reasoning)


def judgements_of(value: JsonObject) -> tuple[Judgement, ...]:
    """Return the judgements of a result's evaluators. Members follow their composite."""
    written = mappings_of(value, "evaluator_results")
    if written:
        return tuple(_walk(written, 0))
    if value.get("error") is not None or not (value.get("reasoning") or value.get("hits") or value.get("misses")):
        return ()
    return (_judgement({**value, "name": DEFAULT_JUDGE, "type": "llm_judge", "judge_model": value.get("judge")}, 0),)


def why_of(value: JsonObject, judgements: Sequence[Judgement], threshold: float | None) -> str:
    """Return on one line why a case failed or broke. For a flaky pass, return what its failing answer lacks."""
    if value.get("status") == "error" or value.get("error") is not None:
        return first_sentence(text_of(value, "error"), 200)
    if value.get("status") == "pass" and not mapping_of(value, "repeat").get("flaky"):
        return ""
    parts = [first_sentence(text)] if (text := text_of(value, "assertion")) else []
    parts += [f"required: {text}" for text in texts_of(value, "unmet_required")]
    low = [each for each in judgements if each.depth == 0 and each.is_low(threshold)]
    parts += [f"{each.name}: {each.reason}" if each.reason else f"{each.name} {each.score:.2f}" for each in low]
    return "; ".join(parts) or first_sentence(text_of(value, "reasoning"))


def _walk(written: Iterable[JsonObject], depth: int) -> Iterator[Judgement]:
    for each in written:
        yield _judgement(each, depth)
        yield from _walk(mappings_of(each, "evaluator_results"), depth + 1)


def _judgement(value: JsonObject, depth: int) -> Judgement:
    return Judgement(
        name=text_of(value, "name"),
        type=text_of(value, "type"),
        score=score_of(value),
        weight=number_of(value, "weight"),
        hits=tuple(texts_of(value, "hits")),
        misses=tuple(texts_of(value, "misses")),
        reasoning=text_of(value, "reasoning"),
        model=text_of(value, "judge_model"),
        error=text_of(value, "error"),
        duration_ms=number_of(value, "duration_ms"),
        depth=depth,
    )


def _missing(misses: Sequence[str]) -> str:
    shown = "; ".join(first_sentence(miss, 80) for miss in misses[:_MOST_MISSES])
    return f"{shown} and {len(misses) - _MOST_MISSES} more" if len(misses) > _MOST_MISSES else shown
