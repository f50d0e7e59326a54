"""Panels: several judges of one evaluator, asked side by side, whose scores become one by a vote."""

import asyncio
import dataclasses
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import SLACK
from pytest_agentv.model.base import JsonObject, format_number
from pytest_agentv.model.results import Score, clamp_score

Vote: TypeAlias = Literal["majority", "mean", "median", "all"]
"""What a panel says: 1 or 0 by the judges that pass the answer (more than half, all), or an average of the scores."""

_AVERAGES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
}

Ask: TypeAlias = Callable[[Any, Context], Awaitable[Score]]
"""Asks one judge."""
Finish: TypeAlias = Callable[[Any, Score], Score]
"""Holds a score against the threshold of the evaluator, and negates it."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a judge of a panel said."""

    judge: str
    score: Score
    """As the judge gave it; with `error`, it gave none."""
    finished: Score
    """Against the threshold, and negated."""
    passes: bool

    def to_plain(self) -> JsonObject:
        score = self.score
        if score.error is not None:
            unreadable = {"reply": score.raw_output} if score.raw_output else {}
            return {"judge": self.judge, "error": score.error, **unreadable}
        told = {"hits": list(score.hits), "misses": list(score.misses), "reasoning": score.reasoning}
        plain = {"judge": self.judge, "score": clamp_score(score.value), "passes": self.passes}
        return {**plain, **{key: value for key, value in told.items() if value}}

    def __str__(self) -> str:
        return f"{self.judge} {'no answer' if self.score.error is not None else format_number(self.score.value)}"


async def ask_panel(evaluator: Any, context: Context, ask: Ask, finish: Finish) -> Score:
    """Ask all judges of an evaluator side by side, and let those vote that answer.

    The score has `error` unless these are more than half. Raises what else the evaluator raises.
    """
    asked = [ask(evaluator, each) for each in _contexts(evaluator.judged_by, context)]
    replies: list[_Reply] = []
    for name, found in zip(evaluator.judged_by, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        score = Score(0.0, error=str(found), error_kind=found.kind) if isinstance(found, EvaluatorError) else found
        if isinstance(score, BaseException):
            raise score
        finished = score if score.error is not None else finish(evaluator, score)
        is_enough = clamp_score(finished.value) + SLACK >= context.threshold
        replies.append(_Reply(name, score, finished, is_enough and not finished.unmet_required))
    answered = [each for each in replies if each.score.error is None]
    lost = {each.judge: each.score for each in replies if each.score.error is not None}
    details: JsonObject = {"vote": evaluator.vote, "judges": [each.to_plain() for each in replies]}
    if 2 * len(answered) <= len(replies):
        reasons = "; ".join(f"{name}: {score.error}" for name, score in lost.items())
        error = f"{len(answered)} of {len(replies)} judges answered, and a panel needs more than half: {reasons}"
        return Score(0.0, error=error, error_kind=next(iter(lost.values())).error_kind, details=details)
    score = _voted(evaluator, answered, finish)
    values = [clamp_score(each.score.value) for each in answered]
    spread = round(max(values) - min(values), 6)
    passed = f"{sum(each.passes for each in answered)} of {len(answered)} judges pass it, vote {evaluator.vote}"
    told = f"{passed}: {', '.join(map(str, replies))} (spread {format_number(spread)})"
    is_enough = score.value + SLACK >= context.threshold and not score.unmet_required
    left_out = [f"judge {name!r} of the panel is left out: {score.error}" for name, score in lost.items()]
    return score.replace(
        hits=(told, *score.hits) if is_enough else score.hits,
        misses=score.misses if is_enough else (told, *score.misses),
        reasoning="; ".join(f"{each.judge}: {each.score.reasoning}" for each in answered if each.score.reasoning)
        or None,
        details={**details, "spread": spread},
        warnings=(*score.warnings, *left_out),
    )


def _contexts(judges: Sequence[str], context: Context) -> Iterator[Context]:
    """Yield the context of each judge. One that is asked several times has its questions numbered."""
    asked: Counter[str] = Counter()
    for name in judges:
        services = dataclasses.replace(context.services, judge=context.services.judges.get(name))
        yield context.replace(services=services, twin=(*context.twin, asked[name]))
        asked[name] += 1


def _voted(evaluator: Any, answered: Sequence[_Reply], finish: Finish) -> Score:
    """Return the score with what all judges found. Where a vote counts, each score is finished, else their average is.

    Required rubrics are unmet if half of the judges say so; one says so for all where all have to pass.
    """
    average = _AVERAGES.get(evaluator.vote)
    said = [(each.judge, each.score if average else each.finished) for each in answered]
    scores = [score for _, score in said]
    needed = len(said) if evaluator.vote == "all" else len(said) // 2 + 1
    is_enough = sum(each.passes for each in answered) >= needed
    unmet = [each.unmet_required for each in scores if each.unmet_required]
    is_unmet = len(unmet) > len(said) - needed
    score = Score(
        average([clamp_score(each.value) for each in scores]) if average else float(is_enough),
        hits=tuple(f"[{name}] {hit}" for name, score in said for hit in score.hits),
        misses=tuple(f"[{name}] {miss}" for name, score in said for miss in score.misses),
        request={**(scores[0].request or {}), "target": ", ".join(name for name, _ in said)},
        judge_retries=sum(each.judge_retries or 0 for each in scores) or None,
        unmet_required=tuple(dict.fromkeys(text for each in unmet for text in each)) if is_unmet else None,
        verdict="fail" if is_unmet else None,
        unknown="; ".join(dict.fromkeys(each.unknown for each in scores if each.unknown)) or None,
        warnings=tuple(dict.fromkeys(warning for each in scores for warning in each.warnings)),
    )
    return finish(evaluator, score) if average else score
