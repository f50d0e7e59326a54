"""The shared parts of judging evaluators: the form of a judge's reply, its fields, and the sections of prompts."""

import math
from typing import Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, Judge, Services
from pytest_agentv.models.base import Json, JsonObject, is_number
from pytest_agentv.models.text import compact_json, pretty_json, trim

FEEDBACK_LIMIT: Final = 4
"""The most hits, and the most misses, of a model's judgement."""

REPLY_CONTRACT: Final = """\
Reply with exactly one JSON object and no text before or after it:
{"score": 0.0, "hits": ["..."], "misses": ["..."], "reasoning": "..."}

- score: a number from 0.0 (worthless) to 1.0 (fully achieved)
- hits: at most four short strings, one for each thing that is right
- misses: at most four short strings, one for each thing that is wrong or lacking
- reasoning: one or two sentences that justify the score"""


def has_score(found: JsonObject) -> bool:
    """Whether an object's `score` is a finite number."""
    score = found.get("score")
    return is_number(score) and abs(score) < math.inf


def feedback(value: Json, limit: int | None = None) -> tuple[str, ...]:
    """Return the non-blank texts of a list, trimmed. Objects count as their JSON, and a bare text as a list of one."""
    entries = value if isinstance(value, list) else [value]
    shown = (compact_json(entry) if isinstance(entry, dict) else entry for entry in entries)
    texts = (trim(entry) for entry in shown if isinstance(entry, str))
    return tuple(text for text in texts if text)[:limit]


def reasoning_of(found: JsonObject, key: str = "reasoning") -> str | None:
    """Return an object's reasoning if it is a text and not blank."""
    reasoning = found.get(key)
    return reasoning if isinstance(reasoning, str) and trim(reasoning) else None


def require_judge(services: Services, who: str) -> Judge:
    """Return the judge. Without one, raises `EvaluatorError` (kind `config`) with advice."""
    if services.judge is None:
        message = (
            f"{who} has no judge to ask: write `judge_target: <name>` in the target's entry of targets.yaml, "
            "where <name> is a target with a model"
        )
        raise EvaluatorError(message, kind="config")
    return services.judge


def section(name: str, text: str) -> str:
    """Return a named section of a prompt."""
    return f"[[ ## {name} ## ]]\n{text}"


def question_of(context: Context) -> str:
    """Return the question that the target got, or the raw one if that is blank."""
    return context.prompt.question if trim(context.prompt.question) else context.case.question


def context_texts(context: Context) -> dict[str, str]:
    """Return what the target looked up as a section of a prompt, by name; empty if it reported nothing."""
    text = "\n\n".join(context.retrieved_context or ())
    return {"retrieved_context": text} if trim(text) else {}


def trace_texts(context: Context) -> dict[str, str]:
    """Return the steps to the answer as sections of a prompt, by name. Leaves out unknown ones.

    Source: scenario "LLM judge may consume trace (opt-in)".
    """
    summary = context.trace_summary
    steps = [event.to_plain() for event in context.trace or ()]
    shown = {"trace_summary": summary.to_plain() if summary else None, "trace": steps}
    return {name: pretty_json(value) for name, value in shown.items() if value}
