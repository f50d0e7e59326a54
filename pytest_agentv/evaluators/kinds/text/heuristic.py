"""`heuristic`: keywords an answer must and must not hold, and signs that it is an error message.

Source: the requirement "Heuristic Grading". The score is hit ratio * (1 - miss ratio); an error sign is reported, and
does not change it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.models.base import Json
from pytest_agentv.models.kind import FILLED_TEXT, Items, Text
from pytest_agentv.models.masking.secrets import beginning
from pytest_agentv.models.scores import Score

ERROR_SIGN: Final = re.compile(
    r"""(?mx)
    Traceback\ \(most\ recent\ call\ last\):
    | ^[ \t]+at\ [^\n]{0,300}:\d+\)?[ \t]*$                         # a frame of a JavaScript or Java stack trace
    | ^[ \t]*(?:Uncaught\ |Unhandled\ )?[\w.$]*(?:Error|Exception):  # ValueError: x; java.io.IOException: x
    | ^[ \t]*(?:error|fatal|ERROR|FATAL|panic|PANIC|Fatal\ error):
    | ^Exception\ in\ thread\ "
    | ^thread\ '[^'\n]*'\ panicked\ at
    | ^Segmentation\ fault
    """
)
"""Stack traces and lines that begin with an error keyword, as programs print them; prose about errors has none."""

SHOWN_SIGN: Final = 100


def _one_or_more(value: Json) -> Json:
    return [value] if isinstance(value, str) else value


Keywords: TypeAlias = Annotated[
    Items[Text],
    BeforeValidator(_one_or_more),
    WithJsonSchema({"anyOf": [{"type": "array", "items": FILLED_TEXT}, FILLED_TEXT]}),
]


class Heuristic(Evaluator):
    """Words that the answer must and must not hold."""

    kind = "heuristic"
    short_key = "hits"

    hits: Keywords = Field(default=(), description="words that the answer must hold: a list, or one word")
    misses: Keywords = Field(default=(), description="words that the answer must not hold: a list, or one word")

    @model_validator(mode="after")
    def _needs_keywords(self) -> Self:
        if not self.hits and not self.misses:
            raise ValueError("heuristic needs keywords, or every answer would pass: hits, misses or both")
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return score_keywords(self, context.candidate_answer)


def score_keywords(config: Heuristic, answer: str) -> Score:
    """Score an answer by its keywords: case does not matter, parts of words count."""
    hits, misses = _found(config.hits, answer), _found(config.misses, answer)
    hit_ratio = len(hits) / len(config.hits) if config.hits else 1.0
    miss_ratio = len(misses) / len(config.misses) if config.misses else 0.0
    sign = error_sign(answer)
    details = {"hit_ratio": hit_ratio, "miss_ratio": miss_ratio, "has_error": sign is not None}
    lacking = tuple(keyword for keyword in config.hits if keyword not in hits)
    return Score(
        hit_ratio * (1 - miss_ratio),
        hits=hits,
        misses=(*misses, *(_missing(lacking, answer) if lacking else ())),
        reasoning=_reasoning(config, hits, misses, sign),
        details=details,
    )


def _missing(keywords: Iterable[str], answer: str) -> Iterator[str]:
    from pytest_agentv.evaluators.kinds.text.check import is_in_folded, other_form  # noqa: PLC0415 - only for misses

    folded = answer.casefold()
    for keyword in keywords:
        yield f"missing: {keyword}{other_form(keyword, folded, is_in_folded)}"


def error_sign(answer: str) -> str | None:
    """Return the first line that looks like an error of a program, or None."""
    found = ERROR_SIGN.search(answer)
    if found is None:
        return None
    line = answer[found.start() :].lstrip().partition("\n")[0].rstrip()
    return beginning(line, SHOWN_SIGN)


def _found(keywords: Sequence[str], answer: str) -> tuple[str, ...]:
    folded = answer.casefold()
    return tuple(keyword for keyword in keywords if keyword.casefold() in folded)


def _reasoning(config: Heuristic, hits: Sequence[str], misses: Sequence[str], sign: str | None) -> str:
    parts = []
    if config.hits:
        parts.append(f"{len(hits)}/{len(config.hits)} expected keywords found")
    if lacking := [keyword for keyword in config.hits if keyword not in hits]:
        parts.append("missing: " + ", ".join(lacking))
    if config.misses:
        parts.append(f"{len(misses)}/{len(config.misses)} forbidden keywords found")
    if sign is not None:
        parts.append(f"the answer looks like an error: {sign}")
    return "; ".join(parts) or "no keywords to look for"
