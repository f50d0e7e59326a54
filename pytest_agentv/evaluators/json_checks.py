"""`is-json` and `contains-json`: JSON in the answer, and its schema."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema

from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_values, no_data
from pytest_agentv.evaluators.base import Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.judge_reply import off_loop
from pytest_agentv.model.base import ABSENT, Json
from pytest_agentv.model.kind import expected
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import TooDeepError, strict_json, whole_number

SHOWN_FAULTS: Final = 3
_NOT_SEARCHED: Final = "Error executing regex"
"""How the fault of a pattern begins that was given up, because it tries too many ways to match."""
_SHOWN: Final = 200
"""Characters of a fault that a miss shows."""

_SLIPPED: Final = {
    **{key: f"write it beside the schema: {{is-json: …, {key}: …}}" for key in ("negate", "path", "weight")},
    "threshold": "it is a key of the case; this check scores 0 or 1",
}
"""Keys of a check that are no keywords, with what to write. `name` is often in a schema of other programs."""


def _schema(value: Json, info: ValidationInfo) -> Json:
    """Return a schema. Reads it from a file if a text names one. Raises `ValueError` for an invalid one."""
    scope = scope_of(info)
    slipped = next((key for key in _SLIPPED if key in value), None) if isinstance(value, Mapping) else None
    if slipped is not None:
        fault = f"is a key of the check, and checks nothing in a schema ({_SLIPPED[slipped]})"
        if scope is None:
            raise ValueError(f"{slipped!r} {fault}")
        scope.place.at("value", slipped).error(fault)
        return None
    where = f"{value}: " if isinstance(value, str) else ""
    if isinstance(value, str):
        value = value if scope is None else _read_schema(value, scope)
    if value is None or (isinstance(value, str) and scope is None):
        return value
    if not isinstance(value, Mapping | bool):
        raise expected("a JSON Schema (a mapping) or the path of its file")
    invalid = schema_fault(value)
    if invalid:
        raise ValueError(f"{where}{invalid}")
    return value


def _read_schema(path: str, scope: Scope) -> Json:
    file = scope.references.read(path, scope.place.at("value"), is_text=True)
    if file is None:
        return None
    try:
        return json.loads(file.text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{file.display_path} is no JSON: {reason}") from None


class JsonCheck(Evaluator):
    """A check of JSON, which a JSON Schema may describe."""

    takes_data = True
    is_graded = False

    value: Annotated[
        Any,
        AfterValidator(_schema),
        WithJsonSchema({"anyOf": [{"type": ["object", "boolean"]}, {"type": "string"}]}),
    ] = Field(
        default=None,
        description="a JSON Schema, or the path of its file; default: any JSON will do",
        examples=[{"type": "object", "required": ["price"]}],
    )

    def summary(self) -> str:
        title = self.value.get("title") if isinstance(self.value, Mapping) else None
        return title if isinstance(title, str) else ""

    @classmethod
    def keys_of(cls, value: Json) -> dict[str, Json]:
        return {} if value is None or value is True else {"value": value}

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Judge an answer in a thread. Raises `EvaluatorError` for an unusable schema."""
        if isinstance(self.value, str):
            raise EvaluatorError(f"the schema {self.value!r} was not read: an eval file or `agentv` reads it", "config")
        return await off_loop(len(context.candidate_answer), self.check, context)

    def check(self, context: Context) -> Score:
        """Judge an answer; blocks."""
        raise NotImplementedError

    def faults(self, data: Json) -> list[str]:
        """Return the faults of data by the schema, at most `SHOWN_FAULTS`. Raises `EvaluatorError`."""
        if self.value is None:
            return []
        try:
            found = list(_validator(json.dumps(self.value, sort_keys=True)).iter_errors(data))
        except (ValueError, RecursionError) as error:  # nested too deeply, or half a character
            raise EvaluatorError(f"the schema cannot be used: {error}", "config") from None
        if given_up := next((each for each in found if each.message.startswith(_NOT_SEARCHED)), None):
            raise EvaluatorError(f"a pattern of the schema cannot be judged: {_fault(given_up)}", "timeout")
        found.sort(key=lambda each: list(map(str, each.instance_path)))
        return [_fault(each) for each in found[:SHOWN_FAULTS]]


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Return the validator of a schema, which is given as JSON. Raises `ValueError` with the place of a fault."""
    import jsonschema_rs  # noqa: PLC0415 - 60 ms, only for checks with a schema

    plain = jsonschema_rs.EmailOptions(allow_display_text=False)
    return jsonschema_rs.validator_for(schema, validate_formats=True, email_options=plain, offline=True)


def _fault(error: Any) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    text = masked(error.message)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{where.removeprefix('.')}: {text}" if where else text


def schema_fault(schema: Json) -> str | None:
    """Return why a value cannot be used as a JSON Schema; None if it can."""
    try:
        _validator(json.dumps(schema, sort_keys=True))
    except (TypeError, ValueError, RecursionError) as error:  # YAML has dates and keys that JSON lacks
        return f"is no JSON Schema: {_fault(error) if hasattr(error, 'instance_path') else error}"
    return None


class IsJson(JsonCheck):
    r"""The whole answer is JSON that fits a JSON Schema.

    Its formats are checked, and unknown ones ignored. Its patterns are in the language of JavaScript: `$` is the end of
    the text, and `\d` and `\w` are ASCII. A `$ref` leads to a place within the schema: nothing is fetched.
    """

    kind = "is-json"
    examples = (
        {"answer": "[1, 2]", "assert": [{"is-json": True}]},
        {
            "answer": '{"price": 120}',
            "assert": [{"is-json": {"required": ["price"], "properties": {"price": {"type": "number"}}}}],
        },
    )

    def check(self, context: Context) -> Score:
        try:
            data = strict_json(context.candidate_answer, whole_number) if context.part is ABSENT else context.part
        except TooDeepError:
            raise EvaluatorError("the answer is nested too deeply to be read as JSON", "config") from None
        except ValueError as error:
            return Score(0.0, misses=(no_data("JSON", context.candidate_answer, error),))
        faults = self.faults(data)
        if faults:
            return Score(0.0, misses=tuple(faults))
        return Score(1.0, hits=("is JSON" if self.value is None else "is JSON as the schema wants it",))


class ContainsJson(JsonCheck):
    """The answer contains a JSON object or list that fits a JSON Schema; other text around it is allowed.

    Only objects fit a schema that has `required` or `properties` and no `type`. JSON that is cut or broken ends the
    search: a part of it does not count.
    """

    kind = "contains-json"
    examples = (
        {"answer": 'Here it is: {"price": 120}', "assert": [{"contains-json": {"required": ["price"]}}]},
        {"answer": "The list: [1, 2]", "assert": [{"contains-json": True}]},
    )

    def check(self, context: Context) -> Score:
        first: list[str] | None = None
        try:
            for value in self._candidates(context.candidate_answer):
                faults = self.faults(value)
                if not faults:
                    return Score(1.0, hits=("contains JSON" if self.value is None else "contains JSON as wanted",))
                first = first or faults
        except ValueError as error:
            return Score(0.0, misses=(str(error),), unchecked=str(error))
        nothing = "contains no JSON object" if self._is_of_objects() else "contains no JSON"
        return Score(0.0, misses=tuple(first or (nothing,)))

    def _candidates(self, answer: str) -> Iterator[Json]:
        for value in json_values(answer):
            if isinstance(value, list) and self._is_of_objects():
                yield from (item for item in value if isinstance(item, dict))
            else:
                yield value

    def _is_of_objects(self) -> bool:
        """Whether the schema is for objects. By the letter, a mark such as [1] would pass for `{required: [price]}`."""
        keys = self.value if isinstance(self.value, Mapping) else {}
        return "type" not in keys and ("required" in keys or "properties" in keys)
