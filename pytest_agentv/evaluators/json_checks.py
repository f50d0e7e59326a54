"""`is-json` and `contains-json`: JSON in the answer, and its schema."""

import itertools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema

from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import no_data, parse_json
from pytest_agentv.evaluators.base import Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.json_text import (
    FoundObject,
    FoundValue,
    json_objects,
    json_values,
    outer_objects,
    outer_values,
)
from pytest_agentv.evaluators.judge_reply import off_loop
from pytest_agentv.evaluators.schemas import (
    FormatHint,
    pattern_checker,
    reference_fault,
    schema_validator,
    validator_for,
)
from pytest_agentv.files.schema_words import doubtful_words, lacks_keywords
from pytest_agentv.model.base import ABSENT, Json
from pytest_agentv.model.kind import expected
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import MOST_DIGITS, strict_json

SHOWN_FAULTS: Final = 3
_TOO_DEEP: Final = "the schema or the answer is nested too deeply"
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
    invalid = (lacks_keywords(value) if isinstance(value, Mapping) else None) or schema_fault(value)
    if invalid:
        raise ValueError(f"{where}{invalid}")
    if scope is not None and isinstance(value, Mapping):
        for doubt in doubtful_words(value):
            scope.place.at("value").warn(doubt)
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
            validator = validator_for(json.dumps(self.value, sort_keys=True), data)
            found = sorted(validator.iter_errors(data), key=lambda each: list(map(str, each.absolute_path)))
        except TimeoutError as error:
            raise EvaluatorError(str(error), "timeout") from None
        except OverflowError:  # `multipleOf` divides, which the number 1e400 does not bear
            return ["holds a number that is too large to be checked"]
        except RecursionError:
            raise EvaluatorError(_TOO_DEEP, "config") from None
        except BaseException as error:  # the package `referencing` raises errors of its own
            if _is_panic(error):
                raise EvaluatorError(_TOO_DEEP, "config") from None
            if not isinstance(error, Exception):  # of pytest-timeout, for example
                raise
            raise EvaluatorError(f"the schema cannot be used: {error}", "config") from None
        return [_fault(each) for each in found[:SHOWN_FAULTS]]


def _is_panic(error: BaseException) -> bool:
    """Return whether code in Rust gave up. `rpds`, which `referencing` uses, does so where the stack is full."""
    return type(error).__name__ == "PanicException"


def _fault(error: Any) -> str:
    where = error.json_path.removeprefix("$").removeprefix(".")
    hint = f" ({error.cause})" if isinstance(error.cause, FormatHint) else ""
    text = masked(error.message)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{where}: {text}{hint}" if where else f"{text}{hint}"


def schema_fault(schema: Json) -> str | None:
    """Return why a value cannot be used as a JSON Schema; None if it can."""
    import jsonschema  # noqa: PLC0415 - 60 ms, only for checks with a schema

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            kind: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema, format_checker=pattern_checker())
        schema_validator(json.dumps(schema, sort_keys=True))
        return reference_fault(schema)
    except jsonschema.SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".")
        fault = masked(str(error.cause or error.message))[:_SHOWN]
        return f"is no JSON Schema: {where + ': ' if where else ''}{fault}"
    except (TypeError, ValueError) as error:  # YAML has dates and keys that JSON lacks
        return f"is no JSON Schema: {error}"
    except BaseException as error:
        if isinstance(error, RecursionError) or _is_panic(error):
            return "is no JSON Schema: it is nested too deeply"
        raise


class IsJson(JsonCheck):
    r"""The whole answer is JSON that fits a JSON Schema.

    Its formats `date`, `date-time`, `email`, `idn-email`, `ipv4`, `ipv6`, `regex` and `uuid` are checked, others not.
    Its patterns are in the language of JavaScript: `$` is the end of the text, and `\d` and `\w` are ASCII. One with a
    group that only Python has, such as `(?i)` or `(?P<name>…)`, is in Python's. One that cannot be judged is an error.
    So is an answer that Python cannot read, because it is nested too deeply: Python 3.11 reads about 1,000 levels.
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
        # Without a schema nobody reads the numbers, and JSON allows them any number of digits.
        parse_int = len if self.value is None else _whole
        try:
            data = strict_json(context.candidate_answer, parse_int) if context.part is ABSENT else context.part
        except ValueError as error:
            return Score(0.0, misses=(no_data("JSON", context.candidate_answer, error),))
        except RecursionError:
            raise EvaluatorError("the answer is nested too deeply to be read as JSON", "config") from None
        faults = self.faults(data)
        if faults:
            return Score(0.0, misses=tuple(faults))
        return Score(1.0, hits=("is JSON" if self.value is None else "is JSON as the schema wants it",))


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise EvaluatorError(f"the answer has a number of {len(digits):,} digits, which no schema can judge", "config")
    return int(digits)


_ONLY_A_PART: Final = "only a part of JSON that is cut or broken is as wanted"
_OF_OBJECTS: Final = frozenset(
    {
        *("additionalProperties", "dependencies", "dependentRequired", "dependentSchemas", "maxProperties"),
        *("minProperties", "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties"),
    }
)
_OF_ALL: Final = frozenset(
    {
        *("additionalItems", "contains", "items", "maxItems", "minItems", "prefixItems", "unevaluatedItems"),
        *("uniqueItems", "type", "const", "enum", "anyOf", "oneOf", "$ref"),
    }
)
"""Keywords that tell whether a list may fit, so that a schema is taken by the letter."""


class ContainsJson(JsonCheck):
    """The answer contains a JSON object or list that fits a JSON Schema; other text around it is allowed.

    Only objects fit a schema that names keys, as `required` does, and says nothing of lists. A part of a value that
    is cut or broken does not count.
    """

    kind = "contains-json"
    examples = (
        {"answer": 'Here it is: {"price": 120}', "assert": [{"contains-json": {"required": ["price"]}}]},
        {"answer": "The list: [1, 2]", "assert": [{"contains-json": True}]},
    )

    def check(self, context: Context) -> Score:
        answer = context.candidate_answer
        whole = parse_json(answer)
        values = itertools.chain(
            [whole] if isinstance(whole, dict | list) else [], _json_amid(answer, outer_values, outer_objects)
        )
        first: list[str] | None = None
        for faults in self._faults_of(values):
            if not faults:
                return Score(1.0, hits=("contains JSON" if self.value is None else "contains JSON as wanted",))
            first = first or faults
        if not all(self._faults_of(_json_amid(answer, json_values, json_objects))):
            return Score(0.0, misses=(_ONLY_A_PART,), unchecked=_ONLY_A_PART)
        nothing = "contains no JSON object" if _is_of_objects(self.value) else "contains no JSON"
        return Score(0.0, misses=(nothing,) if first is None else tuple(first))

    def _faults_of(self, values: Iterable[Json]) -> Iterator[list[str]]:
        """Yield the faults of each value that may fit the schema."""
        takes_lists = not _is_of_objects(self.value)
        return (self.faults(value) for value in values if takes_lists or not isinstance(value, list))


def _json_amid(answer: str, *readers: Callable[[str], Iterable[FoundValue | FoundObject]]) -> Iterator[Json]:
    for read in readers:  # the objects in a list also count by themselves
        yield from (found.value for found in read(answer))


def _is_of_objects(schema: Json) -> bool:
    """Whether a schema says what keys there are, and nothing of lists.

    By the letter, any list fits it: a mark such as [1] would pass for `{required: [price]}`.
    """
    return isinstance(schema, Mapping) and not _OF_OBJECTS.isdisjoint(schema) and _OF_ALL.isdisjoint(schema)
