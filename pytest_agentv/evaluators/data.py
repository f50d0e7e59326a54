"""Checks of data: JSON and its schemas, fields, dates, numbers, and how many fields are right."""

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from xml.parsers import expat

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.cases.evaluators import load_evaluator
from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    json_equal,
    json_values,
    locate_part,
    no_data,
    off_loop,
    parse_answer,
    parse_json,
    read_path,
)
from pytest_agentv.evaluators.base import AnswerPath, Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.run import judge, prepare, shared_key, text_of_part
from pytest_agentv.evaluators.text import other_form, shown, verdict
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import (
    ABSENT,
    Absent,
    Json,
    JsonObject,
    TooDeepError,
    compact_json,
    digits_apart,
    format_fixed,
    format_number,
    is_number,
    strict_json,
    trim,
    whole_number,
)
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind import NOT_EMPTY, Amount, Items, Part, Text, definition, expected
from pytest_agentv.model.results import Score, weighted_mean
from pytest_agentv.model.secrets import masked

# Checks of data: equal, a part, YAML, XML.


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
        part = context.part
        # A cell of a table is compared as a text, also where it holds a number.
        is_text = part is ABSENT or isinstance(part, str | int) or (isinstance(part, float) and math.isfinite(part))
        if isinstance(self.value, str) and is_text:
            answer, wanted = trim(context.candidate_answer), trim(self.value)
            form = other_form(wanted, answer, operator.eq) or _of_same_value(wanted, part, answer)
            held = shown(answer) if part is ABSENT or isinstance(part, str) else shown(answer)[1:-1]
            return verdict(answer == wanted, f"is {shown(wanted)}", f"is {held}, not {shown(wanted)}{form}")
        text = context.candidate_answer
        data = await off_loop(len(text), _data, text) if part is ABSENT else part
        wanted = shown(self.summary()) if isinstance(self.value, str) else _brief(self.value)
        if data is ABSENT:
            return Score(0.0, misses=(f"holds no JSON, and so is not {wanted}",))
        return verdict(json_equal(data, self.value), f"is {wanted}", f"is {_brief(data)}, not {wanted}")


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


def _brief(value: Json) -> str:
    return shown(compact_json(value))[1:-1]


def _read_check(value: Json, info: ValidationInfo) -> Json:
    scope = scope_of(info)
    return value if scope is None or value is None else load_evaluator(scope.at(value, "check"))


class AnswerField(Evaluator):
    """A part of a JSON answer passes a check, or, without a check, is there."""

    model_config = ConfigDict(extra="allow")

    kind = "field"
    short_key = "path"
    examples = (
        {
            "answer": '{"items": [{"price": 120}]}',
            "assert": [{"field": {"path": "items[0].price", "equals": 120}}, {"not-field": "error"}],
        },
    )

    path: AnswerPath = Field(description="where the part is", examples=["items[0].price"])
    check: Annotated[
        Evaluator | None, BeforeValidator(_read_check), WithJsonSchema(definition("evaluator_mapping"))
    ] = Field(
        default=None,
        description="what it has to pass; its keys may also stand beside `path`: `{path: price, equals: 120}`",
        examples=[{"equals": 120}],
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_check(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the keys beside `path` that are not those of every kind as the check."""
        scope = scope_of(info)
        if scope is None or not isinstance(value, dict):
            return value
        own = {key: item for key, item in value.items() if key in cls.model_fields}
        rest = {key: item for key, item in value.items() if key not in own}
        if not rest:
            return own
        if own.get("check") is not None:
            scope.place.at("check").error("is written twice: its keys stand beside `path` too")
            return own
        return {**own, "check": load_evaluator(scope.at(rest))}

    @model_validator(mode="after")
    def _be_required(self, info: ValidationInfo) -> Self:
        """Take over `required` from the check, which is not called if the part is missing."""
        if scope_of(info) is None or self.check is None or shared_key(self.check, "required") is not True:
            return self
        return self.model_copy(update={"required": True, "check": self.check.model_copy(update={"required": False})})

    @classmethod
    def keys_of(cls, value: Json) -> JsonObject:
        """Keys beside a `type` are the check: `{path: price, type: equals, value: 1}`."""
        keys = super().keys_of(value)
        if "type" not in keys:
            return keys
        own = {key: item for key, item in keys.items() if key in cls.model_fields and key != "check"}
        return {**own, "check": {key: item for key, item in keys.items() if key not in own}}

    def summary(self) -> str:
        return self.check.name or self.check.describe() if self.check is not None else ""

    @property
    def asks_judge(self) -> bool:
        return self.check is not None and self.check.asks_judge

    @property
    def calls_targets(self) -> bool:
        return self.check is not None and self.check.calls_targets

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return ()

    def walk(self) -> Iterator[Evaluator]:
        yield self
        if self.check is not None:
            yield from self.check.walk()

    def prepare(self, services: Services) -> Evaluator:
        return self.model_copy(update={"check": self.check and prepare(self.check, services)})

    def required_score(self, threshold: float) -> float:
        return 1.0 if self.check is None else self.check.required_score(threshold)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Raises `EvaluatorError` when the check cannot judge."""
        answer = context.candidate_answer if context.part is ABSENT else context.part
        part, miss = await off_loop(len(context.candidate_answer), locate_part, answer, self.path)
        if self.check is None:
            if part is not ABSENT:
                return Score(1.0, hits=(f"{self.path} is there",))
            has_data = context.part is not ABSENT or parse_answer(context.candidate_answer) is not ABSENT
            unchecked = None if has_data else f"the answer holds no JSON, so {self.path} could not be checked"
            return Score(0.0, misses=(miss,), unchecked=unchecked)
        if part is ABSENT:  # without a value the check fails, even a negated one
            return Score(0.0, misses=(miss,), unchecked=miss)
        return await judge(self.check, context.replace(candidate_answer=text_of_part(part), part=part))


DEEPEST: Final = 100
"""Levels of nesting that are read. The time for more grows with their square."""


class IsYaml(Evaluator):
    """The whole answer is YAML with a mapping or a list. A sentence alone would be YAML too, and is refused.

    All JSON is YAML, and so is a mapping with a key twice. YAML of more than 100 levels of nesting is an error: nobody
    judges the answer.
    """

    kind = "is-yaml"
    short_key = None
    is_graded = False
    examples = ({"answer": "order: 1001\nitems: [tent]", "assert": [{"is-yaml": True}]},)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        text = context.candidate_answer
        return await off_loop(10 * len(text), _score_of_syntax, "YAML", text, _yaml_fault)


def _score_of_syntax(name: str, text: str, find_fault: Callable[[str], str | None]) -> Score:
    fault = find_fault(text)
    return Score(1.0, hits=(f"is {name}",)) if fault is None else Score(0.0, misses=(no_data(name, text, fault),))


def _yaml_fault(text: str) -> str | None:
    """Return why a text is not YAML. Raises `EvaluatorError` if it is nested too deeply.

    All JSON is YAML 1.2. The package reads YAML 1.1, and refuses an emoji that is escaped as two halves, for example.
    """
    import yaml  # noqa: PLC0415 - only for this check

    try:
        return _fault_of_syntax(yaml, text)
    except UnicodeEncodeError:
        return "it has half a character, which YAML cannot have"
    except EvaluatorError:
        if not _is_json(text):
            raise
    except yaml.YAMLError as error:
        if not _is_json(text):
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}" if mark is not None else ""
            return f"{getattr(error, 'problem', None) or str(error).splitlines()[0]}{where}"
    return None


def _fault_of_syntax(yaml: Any, text: str) -> str | None:
    """Return why a text is not YAML. Reads only its syntax: creates no object, and follows no alias."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth, anchors, has_data = 0, set(), False
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth, has_data = depth + 1, True
            if depth > DEEPEST:
                raise EvaluatorError(
                    f"the answer is nested more than {DEEPEST} levels deep, which is not read", "config"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                return f"the alias *{event.anchor} has no anchor"
        elif getattr(event, "anchor", None):
            anchors.add(event.anchor)
    return None if has_data else "it is a text, and no mapping or list"


def _is_json(text: str) -> bool:
    return isinstance(parse_json(text), dict | list)


_ENCODING: Final = "utf-8"
"""What expat is given. It ignores the encoding that the answer declares, because an answer is a text, not bytes."""


class IsXml(Evaluator):
    """The whole answer is well-formed XML, and declares its prefixes.

    A DOCTYPE may name a document, which is not loaded. One with declarations between brackets, which could define
    entities, is an error: nobody judges the answer.
    """

    kind = "is-xml"
    short_key = None
    is_graded = False
    examples = ({"answer": "<order><id>1001</id></order>", "assert": [{"is-xml": True}]},)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        text = context.candidate_answer
        return await off_loop(len(text), _score_of_syntax, "XML", trim(text), _xml_fault)


def _xml_fault(text: str) -> str | None:
    """Return why a text is not XML. Raises `EvaluatorError` for declarations: without them, no entities can grow."""
    # With a separator, expat checks prefixes: other readers refuse one that is not declared. No name has a line break.
    parser = expat.ParserCreate(_ENCODING, "\n")

    def refuse(name: str, system_id: str | None, public_id: str | None, has_declarations: int) -> None:  # noqa: ARG001
        if has_declarations:
            raise EvaluatorError("the answer has a DOCTYPE with declarations, which are not read", "config")

    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode(_ENCODING, "surrogatepass"), True)
    except (expat.ExpatError, ValueError) as error:
        return str(error)
    return None


# `is-json` and `contains-json`: JSON in the answer, and its schema.

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


# `field_accuracy`: fields of a JSON answer, compared one by one with the expected data (agentv-formats 6.8).


def _date_format(value: str) -> str:
    if not is_date_format(value):
        raise expected(f"a date format ({KNOWN_PARTS}), such as DD/MM/YYYY")
    return value


DateFormat: TypeAlias = Annotated[Text, AfterValidator(_date_format)]
"""The format of a date."""


class FieldCheck(Part):
    """One field of a JSON answer that is compared with the expected data."""

    path: AnswerPath = Field(description="where the field is: `order`, `items[0].price`")
    match: Literal["exact", "numeric_tolerance", "date"] = Field(description="how the two values are compared")
    required: bool = Field(default=True, description="whether a field that the answer lacks is a miss")
    weight: Amount = Field(default=1.0, description="its share in the score")
    tolerance: Amount = Field(default=0.0, description="with `numeric_tolerance`: how far apart the numbers may be")
    relative: bool = Field(
        default=False, description="with `numeric_tolerance`: the tolerance is a share of the expected number"
    )
    formats: Items[DateFormat] | None = Field(
        default=None,
        description="with `date`: formats such as `DD/MM/YYYY` or `%d.%m.%Y`; dates in ISO 8601 need none",
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"


SHOWN_FINDINGS: Final = 4
"""The most hits, and the most misses, that are listed. The reasoning counts all of them."""


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """The outcome of comparing one field."""

    matched: bool
    text: str
    """The hit, or the miss with its reason."""
    weight: float
    is_unread: bool = False
    """Whether the answer has a value that could not be read, so that nothing was compared."""


_NO_JSON: Final = "Failed to parse candidate answer as JSON"
_NOTHING_EXPECTED: Final = "No expected data found: `expected` holds no JSON"


class FieldAccuracy(Evaluator):
    """Fields of a JSON answer, compared one by one with those of the expected message."""

    kind = "field_accuracy"
    short_key = "fields"

    fields: Annotated[Items[FieldCheck], NOT_EMPTY] = Field(description="the fields that are compared")
    aggregation: Literal["weighted_average", "all_or_nothing"] = Field(
        default="weighted_average", description="how the fields make the score"
    )

    def prepare(self, services: Services) -> Evaluator:
        """Raises `EvaluatorError` if the expected data cannot be compared with any answer."""
        if services.case is not None:
            self.comparable_data(services.case.expected_messages)
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Raises `EvaluatorError` as `prepare` does."""
        answer, expected = context.candidate_answer, context.case.expected_messages
        score = await off_loop(len(answer), score_fields, self, answer, expected)
        return score.replace(warnings=tuple(self.doubts(context.case)))

    def doubts(self, case: EvalCase) -> Iterator[str]:
        """Yield why no answer can be right, and the required fields that the expected data lacks.

        These fields count as met, as in AgentV.
        """
        expected = self._expected_data(case.expected_messages)
        yield from expected_faults(self._deciding(), expected, case.expected_messages)
        if expected is ABSENT and not has_parts(case.expected_messages):
            yield (
                "there is no expected data, so no answer can pass: write it into `expected`, as a mapping or as JSON"
            )
        for check in self.fields if expected is not ABSENT else ():
            if check.required and read_path(expected, check.path) is ABSENT:
                yield (
                    f"the expected data has no {check.path!r}: this field counts as met, whatever the answer has there"
                )

    def comparable_data(self, messages: Sequence[JsonObject]) -> Json | Absent:
        """Return the expected data. Raises `EvaluatorError` if it cannot be compared with any answer."""
        data = self._expected_data(messages)
        faults = list(expected_faults(self._deciding(), data, messages))
        if faults:
            raise EvaluatorError("; ".join(faults), "config")
        return data

    def _expected_data(self, messages: Sequence[JsonObject]) -> Json | Absent:
        return expected_data(messages, [check.path for check in self.fields])

    def _deciding(self) -> Sequence[FieldCheck]:
        """Return the fields that the score depends on. In a mean, one of weight 0 is only shown."""
        is_mean = self.aggregation == "weighted_average"
        return [check for check in self.fields if check.weight or not is_mean]


def score_fields(config: FieldAccuracy, answer: str, expected_messages: Sequence[JsonObject]) -> Score:
    """Score an answer's fields; 0 when the answer holds no JSON or nothing is expected.

    Raises `EvaluatorError` if the expected data cannot be compared.
    """
    candidate, expected = parse_answer(answer), config.comparable_data(expected_messages)
    unknown = _NOTHING_EXPECTED if expected is ABSENT else None
    if candidate is ABSENT:
        return Score(0.0, misses=(_NO_JSON,), unknown=unknown, unchecked=_NO_JSON)
    if expected is ABSENT:
        return Score(0.0, misses=(_NOTHING_EXPECTED,), unknown=unknown)
    findings = [check_field(check, candidate, expected) for check in config.fields]
    is_mean = config.aggregation == "weighted_average"
    hits = [finding.text for finding in findings if finding.matched]
    misses = [finding.text for finding in findings if not finding.matched]
    weighed = [(float(finding.matched), finding.weight) for finding in findings]
    nothing_counts = is_mean and not any(finding.weight for finding in findings)
    return Score(
        weighted_mean(weighed) if is_mean else float(not misses),
        hits=tuple(hits[:SHOWN_FINDINGS]),
        misses=tuple(misses[:SHOWN_FINDINGS]),
        reasoning=f"{len(hits)}/{len(findings)} fields matched",
        unknown="No field of the answer counts: each weighs 0, or is optional and missing" if nothing_counts else None,
        unchecked=_unchecked(findings, is_mean=is_mean),
    )


def _unchecked(findings: Sequence[FieldFinding], *, is_mean: bool) -> str | None:
    """Return which values of the answer the score lacks, because they cannot be read; None: the score is certain."""
    if not is_mean and any(not finding.matched and not finding.is_unread for finding in findings):
        return None
    unread = [finding.text for finding in findings if finding.is_unread and (finding.weight or not is_mean)]
    return "; ".join(unread) or None


def check_field(check: FieldCheck, candidate: Json, expected: Json) -> FieldFinding:
    """Compare one field of the answer with the expected data."""
    path = check.path
    wanted, given = read_path(expected, path), read_path(candidate, path)
    if wanted is ABSENT:
        return FieldFinding(True, f"{path}: no expected value", check.weight)
    if given is ABSENT and check.required:
        return FieldFinding(False, f"{path} (required, missing)", check.weight)
    if given is ABSENT:
        return FieldFinding(True, f"{path}: optional field missing", 0.0)
    match check.match:
        case "exact":
            return _compare_exactly(check, given, wanted)
        case "numeric_tolerance":
            return _compare_numbers(check, given, wanted)
        case "date":
            return _compare_dates(check, given, wanted)


def _compare_exactly(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    if json_equal(given, wanted):
        return FieldFinding(True, check.path, check.weight)
    got, expected = _type_name(given), _type_name(wanted)
    reason = "value mismatch" if got == expected else f"type mismatch: got {got}, expected {expected}"
    return FieldFinding(False, f"{check.path} ({reason})", check.weight)


def _type_name(value: Json) -> str:
    """The word of AgentV's messages: a list and null are objects."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "object"


def _compare_numbers(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    number, goal = parse_number(given), parse_number(wanted)
    if number is None or goal is None:
        return FieldFinding(False, f"{check.path} (non-numeric value)", check.weight, is_unread=number is None)
    if not (math.isfinite(number) and math.isfinite(goal)):
        return FieldFinding(False, f"{check.path} (invalid numeric value)", check.weight)
    share = abs(goal) if check.relative and goal else 1
    difference = abs(number - goal)
    # As floats, 0.8 and 0.7 are not exactly 0.1 apart.
    rounding = sum(math.ulp(each) for each in (number, goal) if type(each) is float)
    if (difference - rounding) / share <= check.tolerance * (1 + 1e-9):
        return FieldFinding(True, f"{check.path} (within tolerance: diff={format_fixed(difference, 2)})", check.weight)
    shown = format_fixed(difference, digits_apart(difference, check.tolerance * share, 2))
    part = "" if share == 1 else f" of {format_number(share)}"
    reason = f"outside tolerance: diff={shown}, tolerance={format_number(check.tolerance)}{part}"
    return FieldFinding(False, f"{check.path} ({reason})", check.weight)


def _compare_dates(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    got, goal = _read_date(check, given), _read_date(check, wanted)
    if got is None or goal is None:
        side = "candidate" if got is None else "expected"
        return FieldFinding(False, f"{check.path} (unparseable {side} date)", check.weight, is_unread=got is None)
    if got == goal:
        return FieldFinding(True, check.path, check.weight)
    return FieldFinding(False, f"{check.path} (date mismatch: got {got}, expected {goal})", check.weight)


def _read_date(check: FieldCheck, value: Json) -> date | None:
    return parse_date(value, check.formats or ()) if isinstance(value, str) else None


def expected_faults(checks: Sequence[FieldCheck], data: Json | Absent, messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield why no answer can be compared with the expected data of messages. The author of the eval has to mend it."""
    if data is ABSENT and has_parts(messages):
        yield "the text and file parts of the expected message hold no JSON to compare the answer with"
    for check in checks:
        wanted = ABSENT if data is ABSENT else read_path(data, check.path)
        is_left_out = not check.required and wanted in (None, "")  # a field that the answer may lack as well
        what = None if wanted is ABSENT or is_left_out else unreadable_as(check, wanted)
        if what is not None:
            yield f"the expected {check.path!r} is {describe_value(wanted)}, and no {what}"


def unreadable_as(check: FieldCheck, wanted: Json) -> str | None:
    """Return what an expected value should be, but cannot be read as; None if it can."""
    if check.match == "numeric_tolerance":
        number = parse_number(wanted)
        return None if number is not None and math.isfinite(number) else "number"
    if check.match == "date" and _read_date(check, wanted) is None:
        return "date that can be read (2025-01-15 can, and dates in the listed `formats`)"
    return None


def expected_data(messages: Sequence[JsonObject], paths: Sequence[str] = ()) -> Json | Absent:
    """Return the mapping or list of the last assistant message that has one; `ABSENT` if none has.

    `paths` are those that are compared. Parts without JSON are data themselves if they have all of these paths.
    """
    for message in reversed(messages):
        data = _data_of(message.get("content", ABSENT), paths) if message["role"] == "assistant" else ABSENT
        if isinstance(data, Mapping | list | tuple):
            return data
    return ABSENT


def _data_of(content: Json, paths: Sequence[str]) -> Json | Absent:
    """Return the data of a content: that in its text, in its parts together, or the content itself."""
    if isinstance(content, str):
        return parse_answer(content)
    texts = content if isinstance(content, list | tuple) and all(isinstance(item, str) for item in content) else ()
    if _is_of_parts(content):
        found = parse_answer("\n".join(map(_text_of, content)))
        is_data = bool(paths) and all(read_path(content, path) is not ABSENT for path in paths)
        return content if found is ABSENT and is_data else found
    found = parse_answer("\n".join(texts)) if texts else ABSENT
    return content if found is ABSENT else found  # a list of texts is data, unless they hold JSON


def _text_of(item: Json) -> str:
    """Return the text of an item; that of a picture, or of another file that is no text, is empty."""
    if isinstance(item, str):
        return item
    text = {"text": item.get("value"), "file": item.get("text")}.get(item["type"])
    return text if isinstance(text, str) else ""


def has_parts(messages: Sequence[JsonObject]) -> bool:
    """Whether the content of an assistant message is a list of text and file parts."""
    return any(message["role"] == "assistant" and _is_of_parts(message.get("content")) for message in messages)


def _is_of_parts(content: Json) -> bool:
    """Whether a content is a list of texts and parts, with a part at least. Other lists are data."""
    items = content if isinstance(content, list | tuple) else ()
    return any(map(_is_part, items)) and all(isinstance(item, str) or _is_part(item) for item in items)


def _is_part(item: Json) -> bool:
    """Whether an item is a part. Those of files have the keys under which the loader puts what it has read."""
    if not isinstance(item, Mapping):
        return False
    key = {"text": "value", "image": "value", "file": "resolvedPath"}.get(str(item.get("type")))
    return key is not None and isinstance(item.get(key), str)


# The dates and numbers of fields.

KNOWN_PARTS: Final = "YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators"
"""What a format may consist of, for messages. Those of `strptime` are read as well."""

_PART: Final = re.compile(r"y{4}|yy|m{1,4}|dd?", re.IGNORECASE)
_PARTS: Final = {"yyyy": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d"}
_FIRST_OF_A_MONTH: Final = date(2024, 12, 1)


def is_date_format(written: str) -> bool:
    """Whether a format reads the date that it writes. Without a day, it is the first of the month."""
    form = _of_strptime(written)
    try:
        return datetime.strptime(_FIRST_OF_A_MONTH.strftime(form), form).date() == _FIRST_OF_A_MONTH
    except (ValueError, re.error):  # a part that is there twice makes a wrong pattern
        return False


def _of_strptime(written: str) -> str:
    return written if "%" in written else _PART.sub(lambda found: _PARTS[found[0].lower()], written)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date of a text in the first of some formats that fits, or in ISO 8601; None if there is none.

    A time with an offset is taken to UTC first; other times do not matter.
    """
    for form in (*map(_of_strptime, formats), None):
        try:
            moment = datetime.strptime(text.strip(), form) if form else datetime.fromisoformat(text.strip())
            return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
        except (ValueError, OverflowError):
            continue
    return None


_CURRENCY: Final = r"(?:[A-Z]{3}|[$\xa2-\xa5\u20a0-\u20cf])"
_BESIDE: Final = re.compile(rf"^([+-]?){_CURRENCY}\s*|\s*(?:{_CURRENCY}|%)$")
"""The sign or the code of a currency, or a percent sign, beside a number."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LARGEST: Final = 1e300
"""Beyond it, the difference of two whole numbers may be none that a float can hold."""


def parse_number(value: Json) -> float | None:
    """Return a number, or that of a text such as `1,234.50`, `10.9 USD` or `5 %`; None for any other value.

    A whole number keeps all its digits. One that is too large for a float is infinite.
    """
    if isinstance(value, str):
        found = _NUMBER.fullmatch(_BESIDE.sub(r"\1", value.strip()))
        digits = found[0].replace(",", "") if found else ""
        value = found and (float(digits) if found[1] or found[2] else whole_number(digits))
    if not is_number(value):
        return None
    try:
        return value if abs(value) < _LARGEST else float(value)
    except OverflowError:
        return math.inf
