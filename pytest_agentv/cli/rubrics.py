"""Asks a model for the rubrics of cases."""

from dataclasses import dataclass
from typing import Final

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.judge_reply import reply_objects, section
from pytest_agentv.model.base import Json, JsonObject, Record, is_number
from pytest_agentv.model.messages import candidate_answer, incomplete_reason
from pytest_agentv.model.options import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_SECONDS
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import trim
from pytest_agentv.providers.base import Adapter, ProviderRequest


@dataclass(frozen=True, slots=True)
class WrittenRubric(Record):
    """A rubric that a model wrote."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = True


ATTEMPTS: Final = 3
"""How often to ask a model before giving up because no reply holds rubrics."""

SYSTEM_PROMPT: Final = """\
You write rubrics: statements that a judge later holds an answer against, one by one, without seeing anything else.

Write three to seven of them for the case that you are given.
- Each can be checked on the answer alone and is either satisfied or not.
- Each is about one thing, and no two are about the same.
- Together they cover the expected outcome, and demand nothing beyond it.

Reply with exactly one JSON object and no text before or after it:
{"rubrics": [{"id": "names-the-fee", "description": "...", "weight": 1, "required": true}]}

- id: a short name in lower case, its words joined by hyphens
- description: the statement, as one sentence
- weight: a number above 0; 1 unless the rubric counts more or less than the others
- required: whether an answer that does not satisfy it fails, whatever else is right"""


@dataclass(frozen=True, slots=True)
class RubricRequest(Record):
    """The facts of a case for which to write rubrics. Unknown ones are empty."""

    eval_id: str
    expected_outcome: str
    question: str = ""
    reference_answer: str = ""


class RubricError(AgentvError):
    """A model wrote no rubrics."""


async def write_rubrics(provider: Adapter, request: RubricRequest) -> tuple[WrittenRubric, ...]:
    """Ask for the rubrics of a case, up to three times, and mask them. Raises `RubricError`."""
    reply = ""
    for _ in range(ATTEMPTS):
        reply = await _ask(provider, request)
        if rubrics := read_rubrics(reply):
            return rubrics
    reply = masked(reply)
    shown = f"{reply[:200]}…" if len(reply) > 200 else reply
    raise RubricError(f"case {request.eval_id!r}: no rubrics in {ATTEMPTS} replies of the model; the last one: {shown}")


def build_user_prompt(request: RubricRequest) -> str:
    """Return the non-empty sections of the case."""
    texts = {
        "question": request.question,
        "expected_outcome": request.expected_outcome,
        "reference_answer": request.reference_answer,
    }
    return "\n\n".join(section(name, text) for name, text in texts.items() if trim(text))


def read_rubrics(reply: str) -> tuple[WrittenRubric, ...]:
    """Return the rubrics of a reply; empty if it holds no JSON object with a list of rubrics."""
    try:
        found = [items for _, each in reply_objects(reply) if (items := _described(each.get("rubrics")))]
    except ValueError:
        found = []
    rubrics: list[WrittenRubric] = []
    for number, item in enumerate(found[0] if found else (), start=1):
        given = masked(_text(item.get("id"))) or f"rubric-{number}"
        is_taken = any(rubric.id == given for rubric in rubrics)
        weight, required = item.get("weight"), item.get("required")
        rubrics.append(
            WrittenRubric(
                f"{given}-{number}" if is_taken else given,
                masked(_text(item["description"])),
                float(weight) if is_number(weight) and 0 <= weight <= 1_000_000 else 1.0,
                required if isinstance(required, bool) else True,
            )
        )
    return tuple(rubrics)


async def _ask(provider: Adapter, request: RubricRequest) -> str:
    asked = ProviderRequest(
        Prompt(build_user_prompt(request)),
        eval_id=request.eval_id,
        system_prompt=SYSTEM_PROMPT,
        timeout_seconds=DEFAULT_TIMEOUT_SECONDS,
    )
    attempts = await invoke_with_retries(provider, asked, DEFAULT_MAX_RETRIES)
    response = attempts.response
    error = attempts.error or (response and (response.error or incomplete_reason(response.finish_reason)))
    if error or response is None:
        raise RubricError(f"case {request.eval_id!r}: the model could not be asked: {error}")
    return candidate_answer(response.output_messages)


def _described(value: Json) -> list[JsonObject]:
    """Return the items of a list that have a description."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict) and _text(item.get("description"))]


def _text(value: Json) -> str:
    """Return a text on one line without characters that files cannot hold; empty for any other value."""
    return " ".join(value.split()).encode("utf-8", "replace").decode() if isinstance(value, str) else ""
