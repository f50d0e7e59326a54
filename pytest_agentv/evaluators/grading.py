"""What judging evaluators share: the contract of a judge's reply, asking for it, reading it, and prompt sections."""

import json
import math
import re
from collections.abc import Callable
from typing import Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import EvaluationContext, EvaluatorServices, Judge
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.scores import Score, clamp_score
from pytest_agentv.models.text import pretty_json, trim

FEEDBACK_LIMIT: Final = 4
"""The most hits, and the most misses, that a model's judgement may list."""

REPLY_CONTRACT: Final = """\
Reply with exactly one JSON object and no text before or after it:
{"score": 0.0, "hits": ["..."], "misses": ["..."], "reasoning": "..."}

- score: a number from 0.0 (worthless) to 1.0 (fully achieved)
- hits: at most four short strings, one for each thing that is right
- misses: at most four short strings, one for each thing that is wrong or lacking
- reasoning: one or two sentences that justify the score"""

NO_JUDGEMENT: Final = "The judge's reply holds no JSON object with a number as `score`."

_OBJECT_START: Final = re.compile(r'\{\s*["}]')


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def json_object(text: str) -> JsonObject | None:
    """Return the JSON object that a text consists of, or None when it is anything else."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def first_json_object(text: str, accepts: Callable[[JsonObject], bool]) -> JsonObject | None:
    """Return the first acceptable JSON object of a text: alone, in a code fence or amid prose.

    Objects within a JSON object are parts of it and never returned on their own.
    """
    start = _OBJECT_START.search(text)
    while start:
        end = start.start() + 1
        try:
            found, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            pass
        except RecursionError:
            return None
        else:
            if accepts(found):
                return found  # type: ignore[no-any-return]
        start = _OBJECT_START.search(text, end)
    return None


def has_score(found: JsonObject) -> bool:
    """Whether an object's `score` is a number; NaN and infinity are none."""
    score = found.get("score")
    return isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < math.inf


def feedback(value: Json, limit: int | None = None) -> tuple[str, ...]:
    """Return the non-blank strings of a list, trimmed; what is no list gives none."""
    entries = value if isinstance(value, list) else []
    texts = (trim(entry) for entry in entries if isinstance(entry, str))
    return tuple(text for text in texts if text)[:limit]


def reasoning_of(found: JsonObject) -> str | None:
    """Return an object's `reasoning` where it is a text that says something."""
    reasoning = found.get("reasoning")
    return reasoning if isinstance(reasoning, str) and trim(reasoning) else None


def read_judgement(reply: str) -> Score:
    """Turn a judge's free-form reply into a score; one without a valid object scores 0 and keeps the reply.

    Source: scenario "Parse JSON evaluator response".
    """
    found = first_json_object(reply, has_score)
    if found is None:
        return Score(0.0, reasoning=NO_JUDGEMENT, raw_output=reply)
    return Score(
        clamp_score(found["score"]),
        hits=feedback(found.get("hits"), FEEDBACK_LIMIT),
        misses=feedback(found.get("misses"), FEEDBACK_LIMIT),
        reasoning=reasoning_of(found),
    )


def require_judge(services: EvaluatorServices, who: str) -> Judge:
    """Return the judge. Raises `EvaluatorError` (kind `config`) that says what to write when there is none."""
    if services.judge is None:
        message = (
            f"{who} has no judge to ask: write `judge_target: <name>` in the target's entry of targets.yaml, "
            "where <name> is a target with a model"
        )
        raise EvaluatorError(message, kind="config")
    return services.judge


async def ask_judge(
    judge: Judge, system_prompt: str, user_prompt: str, context: EvaluationContext, read: Callable[[str], Score]
) -> Score:
    """Ask once and read the reply; the score keeps what was asked. Raises `EvaluatorError` when there is no reply."""
    reply = await judge.ask(system_prompt, user_prompt, context)
    request = {"user_prompt": user_prompt, "system_prompt": system_prompt, "target": judge.name}
    return read(reply).replace(request=request)


def section(name: str, text: str) -> str:
    """Return a named section of a prompt."""
    return f"[[ ## {name} ## ]]\n{text}"


def question_of(context: EvaluationContext) -> str:
    """Return the question as the target was asked it, or the raw one where that is blank."""
    return context.prompt.question if trim(context.prompt.question) else context.case.question


def trace_sections(context: EvaluationContext) -> tuple[str, ...]:
    """Return the sections that show how the answer came about; none where nothing is known.

    Source: scenario "LLM judge may consume trace (opt-in)".
    """
    summary = context.trace_summary
    steps = [event.to_plain() for event in context.trace or ()]
    shown = {"trace_summary": summary.to_plain() if summary else None, "trace": steps}
    return tuple(section(name, pretty_json(value)) for name, value in shown.items() if value)
