"""`equals`: the answer is a text, or data."""

import math
import operator
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.comparing.answer_data import holds_objects, is_one_of_several, parse_answer, parse_json
from pytest_agentv.evaluators.comparing.equality import json_equal
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.evaluators.kinds.text.check import other_form, shown, verdict
from pytest_agentv.models.base import ABSENT, Absent, Json
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import compact_json, trim


def _of_json(value: Json) -> Json:
    """Return a value that JSON has. Raises `ValueError` for infinity and NaN, which no answer equals."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError("JSON has neither infinity nor NaN, so no answer equals this")
        if isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return value


class Equals(Evaluator):
    """The answer is a text, or, as JSON, some data."""

    kind = "equals"
    takes_data = True
    is_graded = False
    examples = (
        {"answer": "  yes\n", "assert": [{"equals": "yes"}]},
        {"answer": '{"sent": true, "items": 2}', "assert": [{"equals": {"items": 2, "sent": True}}]},
    )

    value: Annotated[Any, AfterValidator(_of_json)] = Field(
        description="a text, around which blanks do not count; or data, which the JSON of the answer must be. With "
        "`path`, the text `120` equals the number 120, and the number equals no text",
        examples=["yes"],
    )

    def summary(self) -> str:
        return self.value if isinstance(self.value, str) else compact_json(self.value)

    @classmethod
    def keys_of(cls, value: Json) -> dict[str, Json]:
        return {"value": value}

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        if isinstance(self.value, str) and _is_text(context.part):
            answer, wanted = trim(context.candidate_answer), trim(self.value)
            form = other_form(wanted, answer, operator.eq) or _of_same_value(wanted, context.part, answer)
            held = shown(answer) if context.part is ABSENT or isinstance(context.part, str) else shown(answer)[1:-1]
            return verdict(answer == wanted, f"is {shown(wanted)}", f"is {held}, not {shown(wanted)}{form}")
        text = context.candidate_answer
        data = await off_loop(len(text), _data, text) if context.part is ABSENT else context.part
        wanted = shown(self.summary()) if isinstance(self.value, str) else _brief(self.value)
        if data is ABSENT:
            return await off_loop(len(text), _score_of_none, text, self.value, wanted)
        return verdict(json_equal(data, self.value), f"is {wanted}", f"is {_brief(data)}, not {wanted}")


def _is_text(part: Json | Absent) -> bool:
    """Whether a part is compared with a text as a text: cells of tables are texts, also where they hold a number."""
    return part is ABSENT or isinstance(part, str | int) or (isinstance(part, float) and math.isfinite(part))


def _of_same_value(wanted: str, part: Json | Absent, answer: str) -> str:
    """Return a note if a check misses only because a number or a flag is written in another way: 120.50 or True."""
    if isinstance(part, bool):
        return f" (the same flag, but its text is {shown(answer)})" if wanted.casefold() == answer else ""
    if not isinstance(part, int | float):
        return ""
    try:
        is_same = float(wanted) == part
    except ValueError:
        return ""
    return f" (the same number, but its text is {shown(answer)})" if is_same else ""


def _data(answer: str) -> Json | Absent:
    whole = parse_json(answer)
    return parse_answer(answer) if whole is ABSENT else whole


def _score_of_none(text: str, value: Json, wanted: str) -> Score:
    """Score an answer without one JSON value. If it holds several, it is unknown which of them counts."""
    held = "several JSON objects, and none is all of it: it" if holds_objects(text) else "no JSON, and so"
    is_there = is_one_of_several(text, value)
    unchecked = f"holds {wanted}, but not alone, so it is not known whether the answer is that" if is_there else None
    return Score(0.0, misses=(f"holds {held} is not {wanted}",), unchecked=unchecked)


def _brief(value: Json) -> str:
    return shown(compact_json(value))[1:-1]
