"""Panels: several judges of one evaluator, asked side by side, whose scores become one by a vote."""

import asyncio
import dataclasses
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pytest_agentv.errors import ErrorKind, EvaluatorError
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import SLACK
from pytest_agentv.model.base import JsonObject, format_number
from pytest_agentv.model.results import Score, clamp_score

Vote: TypeAlias = Literal["majority", "mean", "median", "all"]
"""What a panel says: 1 or 0 by the judges that pass the answer (more than half, all), or a mean of the scores."""

Judging: TypeAlias = Callable[[Any, Context], Awaitable[Score]]
"""Asks one judge."""
Finish: TypeAlias = Callable[[Any, Score], Score]
"""Holds a score against the threshold of the evaluator, and negates it."""

_AVERAGES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
}


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a judge of a panel said."""

    judge: str
    score: Score
    """Its score as it gave it; its `error`: it gave none."""
    finished: Score
    """The score against the threshold, negated."""
    passes: bool

    def to_plain(self) -> JsonObject:
        score = self.score
        if score.error is not None:
            return {"judge": self.judge, "error": score.error}
        said = {"hits": list(score.hits), "misses": list(score.misses), "reasoning": score.reasoning}
        found = {"judge": self.judge, "score": clamp_score(score.value), "passes": self.passes}
        return {**found, **{key: value for key, value in said.items() if value}}

    def __str__(self) -> str:
        return f"{self.judge} {'no answer' if self.score.error is not None else format_number(self.score.value)}"


async def ask_panel(evaluator: Any, context: Context, ask: Judging, finish: Finish) -> Score:
    """Ask all judges of an evaluator side by side, and let them vote.

    The score has `error` unless more than half of them answered. Raises what else the evaluator raises.
    """
    found = await asyncio.gather(
        *(ask(evaluator, each) for each in _contexts(evaluator, context)), return_exceptions=True
    )
    replies: list[_Reply] = []
    for name, each in zip(evaluator.judged_by, found, strict=True):
        if isinstance(each, EvaluatorError):
            each = Score(0.0, error=str(each), error_kind=each.kind)  # noqa: PLW2901 - a judge that is left out
        if isinstance(each, BaseException):
            raise each
        finished = each if each.error is not None else finish(evaluator, each)
        is_enough = clamp_score(finished.value) + SLACK >= context.threshold
        replies.append(_Reply(name, each, finished, passes=is_enough and not finished.unmet_required))
    answered = [each for each in replies if each.score.error is None]
    details: JsonObject = {"vote": evaluator.vote, "judges": [each.to_plain() for each in replies]}
    if 2 * len(answered) <= len(replies):
        return _too_few(replies, answered, details)
    return _told(_voted(evaluator, answered, finish), replies, context.threshold, details)


def _contexts(evaluator: Any, context: Context) -> Iterator[Context]:
    """Yield the context of each judge. Who is asked several times has its questions numbered."""
    asked: Counter[str] = Counter()
    for name in evaluator.judged_by:
        services = dataclasses.replace(context.services, judge=context.services.judges.get(name))
        yield context.replace(services=services, twin=(*context.twin, asked[name]))
        asked[name] += 1


def _too_few(replies: Sequence[_Reply], answered: Sequence[_Reply], details: JsonObject) -> Score:
    lost = [each for each in replies if each.score.error is not None]
    told = "; ".join(dict.fromkeys(f"{each.judge}: {each.score.error}" for each in lost))
    error = f"{len(answered)} of {len(replies)} judges answered, and a panel needs more than half: {told}"
    kind: ErrorKind = lost[0].score.error_kind
    return Score(0.0, error=error, error_kind=kind, raw_output=lost[0].score.raw_output, details=details)


def _voted(evaluator: Any, answered: Sequence[_Reply], finish: Finish) -> Score:
    passed = sum(each.passes for each in answered)
    average = _AVERAGES.get(evaluator.vote)
    if average is None:
        is_enough = passed == len(answered) if evaluator.vote == "all" else 2 * passed > len(answered)
        return _joined(evaluator, 1.0 if is_enough else 0.0, [(each.judge, each.finished) for each in answered])
    value = average([clamp_score(each.score.value) for each in answered])
    return finish(evaluator, _joined(evaluator, value, [(each.judge, each.score) for each in answered]))


def _joined(evaluator: Any, value: float, said: Sequence[tuple[str, Score]]) -> Score:
    """Return a score with what all judges found.

    Required rubrics are unmet if half of the judges say so; one says so for all where all have to pass.
    """
    scores = [score for _, score in said]
    unmet = [each.unmet_required for each in scores if each.unmet_required]
    is_unmet = bool(unmet) and (evaluator.vote == "all" or 2 * len(unmet) >= len(scores))
    return Score(
        value,
        hits=tuple(f"[{name}] {hit}" for name, score in said for hit in score.hits),
        misses=tuple(f"[{name}] {miss}" for name, score in said for miss in score.misses),
        request={**(scores[0].request or {}), "target": ", ".join(name for name, _ in said)},
        judge_retries=sum(each.judge_retries or 0 for each in scores) or None,
        unmet_required=tuple(dict.fromkeys(text for each in unmet for text in each)) if is_unmet else None,
        verdict="fail" if is_unmet else None,
        unknown="; ".join(dict.fromkeys(each.unknown for each in scores if each.unknown)) or None,
        warnings=tuple(dict.fromkeys(warning for each in scores for warning in each.warnings)),
    )


def _told(score: Score, replies: Sequence[_Reply], threshold: float, details: JsonObject) -> Score:
    """Add who said what, and how far apart they are."""
    answered = [each for each in replies if each.score.error is None]
    values = [clamp_score(each.score.value) for each in answered]
    spread = round(max(values) - min(values), 6)
    passed = sum(each.passes for each in answered)
    told = (
        f"{passed} of {len(answered)} judges pass it: {', '.join(map(str, replies))} (spread {format_number(spread)})"
    )
    reasons = [f"{each.judge}: {each.score.reasoning}" for each in answered if each.score.reasoning]
    is_enough = score.value + SLACK >= threshold and not score.unmet_required
    lost = [
        f"judge {each.judge!r} of the panel is left out: {each.score.error}" for each in replies if each.score.error
    ]
    return score.replace(
        hits=(told, *score.hits) if is_enough else score.hits,
        misses=score.misses if is_enough else (told, *score.misses),
        reasoning="; ".join(reasons) or None,
        details={**details, "spread": spread},
        warnings=(*score.warnings, *dict.fromkeys(lost)),
    )
