"""Asks a model for the rubrics of one case, and reads its reply."""

from collections.abc import Sequence
from typing import Final

from pytest_agentv.cli.rubrics.edits import WrittenRubric
from pytest_agentv.engine.attempts import invoke_with_retries
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.judging.grading import section
from pytest_agentv.evaluators.judging.json_text import first_json_object
from pytest_agentv.evaluators.judging.thoughts import without_thoughts
from pytest_agentv.models.answers import candidate_answer
from pytest_agentv.models.base import Json, JsonObject, Record, is_number
from pytest_agentv.models.finish_reasons import incomplete_reason
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.options.defaults import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_SECONDS
from pytest_agentv.models.records import record
from pytest_agentv.models.text import trim
from pytest_agentv.prompts.prompt import Prompt
from pytest_agentv.providers.base import Adapter, ProviderRequest

ATTEMPTS: Final = 3
"""How often to ask a model before giving up because no reply holds rubrics."""

_MOST: Final = 1_000_000
"""The largest accepted weight."""

_SHOWN: Final = 200
"""Most characters of a reply in a message."""

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


@record
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
    shown = f"{reply[:_SHOWN]}…" if len(reply) > _SHOWN else reply
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
    found = first_json_object(without_thoughts(reply), lambda found: bool(_described(found.get("rubrics"))))
    items = _described(found["rubrics"]) if found else []
    ids = _unique_ids(items)
    return tuple(_rubric(rubric_id, item) for rubric_id, item in zip(ids, items, strict=True))


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


def _unique_ids(items: Sequence[JsonObject]) -> list[str]:
    ids: list[str] = []
    for number, item in enumerate(items, start=1):
        given = masked(_text(item.get("id"))) or f"rubric-{number}"
        ids.append(given if given not in ids else f"{given}-{number}")
    return ids


def _rubric(rubric_id: str, item: JsonObject) -> WrittenRubric:
    required = item.get("required")
    return WrittenRubric(
        rubric_id,
        masked(_text(item["description"])),
        _weight(item.get("weight")),
        required if isinstance(required, bool) else True,
    )


def _weight(value: Json) -> float:
    is_weight = is_number(value) and 0 <= value <= _MOST
    return float(value) if is_weight else 1.0


def _text(value: Json) -> str:
    """Return a text on one line without characters that files cannot hold; empty for any other value."""
    return " ".join(value.split()).encode("utf-8", "replace").decode() if isinstance(value, str) else ""
