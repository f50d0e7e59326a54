"""Checks of data: JSON and its schemas, fields, dates, numbers, and how many fields are right."""

import json
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from xml.parsers import expat

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.cases.evaluators import load_evaluator
from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    json_equal,
    json_values,
    locate_in_answer,
    no_data,
    off_loop,
    parse_answer,
    parse_json,
    read_path,
)
from pytest_agentv.evaluators.base import AnswerPath, Evaluator, ExpectedData, scope_of
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
from pytest_agentv.model.secrets import beginning

# Checks of data: equal, a part, YAML, XML.


class Equals(Evaluator):
    """The answer is a text, or, as JSON, some data."""

    kind = "equals"
    takes_data = True
    is_graded = False
    examples = (
        {"answer": "  yes\n", "assert": [{"equals": "yes"}]},
        {"answer": '{"sent": true, "items": 2}', "assert": [{"equals": {"items": 2, "sent": True}}]},
    )

    value: ExpectedData = Field(
        description="a text, around which blanks do not count; or data, which the JSON of the answer must be. With "
        "`path`, the text `120` equals the number 120, and the number equals no text",
        examples=["yes"],
    )

    def summary(self) -> str:
        return self.value if isinstance(self.value, str) else compact_json(self.value)

    @classmethod
    def keys_of(cls, value: Json) -> dict[str, Json]:
        return {"value": value}

    async def evaluate(self, context: Context) -> Score:
        part, text = context.part, context.candidate_answer
        # A cell of a table is compared as a text, also where it holds a number.
        if isinstance(self.value, str) and (part is ABSENT or isinstance(part, str | int | float)):
            answer, wanted = trim(text), trim(self.value)
            form = other_form(wanted, answer, operator.eq)
            held = shown(answer) if part is ABSENT or isinstance(part, str) else shown(answer)[1:-1]
            return verdict(answer == wanted, f"is {shown(wanted)}", f"is {held}, not {shown(wanted)}{form}")
        data = part
        if part is ABSENT and (data := parse_json(text)) is ABSENT:
            data = await off_loop(len(text), parse_answer, text)
        wanted = shown(self.summary()) if isinstance(self.value, str) else _brief(self.value)
        if data is ABSENT:
            return Score(0.0, misses=(f"holds no JSON, and so is not {wanted}",))
        return verdict(json_equal(data, self.value), f"is {wanted}", f"is {_brief(data)}, not {wanted}")


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

    def summary(self) -> str:
        return self.check.name or self.check.derived_name() if self.check is not None else ""

    @property
    def _held(self) -> Sequence[Evaluator]:
        return () if self.check is None else (self.check,)

    def prepare(self, services: Services) -> Evaluator:
        return self.model_copy(update={"check": self.check and prepare(self.check, services)})

    def required_score(self, threshold: float) -> float:
        return 1.0 if self.check is None else self.check.required_score(threshold)

    async def evaluate(self, context: Context) -> Score:
        part, miss = await off_loop(len(context.candidate_answer), locate_in_answer, context, self.path)
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


class SyntaxCheck(Evaluator):
    """The whole answer is of a format."""

    short_key = None
    is_graded = False

    name_of_format: ClassVar[str]

    async def evaluate(self, context: Context) -> Score:
        text = context.candidate_answer
        fault = await off_loop(10 * len(text), self.fault, text)  # YAML takes longer than JSON
        name = self.name_of_format
        return verdict(fault is None, f"is {name}", no_data(name, text, fault))

    def fault(self, text: str) -> str | None:
        """Return why a text is not of the format. Raises `EvaluatorError` for one that is not read to its end."""
        raise NotImplementedError


class IsYaml(SyntaxCheck):
    """The whole answer is YAML with a mapping or a list. A sentence alone would be YAML too, and is refused.

    All JSON is YAML. YAML of more than 100 levels of nesting is an error: nobody judges the answer.
    """

    kind = "is-yaml"
    name_of_format = "YAML"
    examples = ({"answer": "order: 1001\nitems: [tent]", "assert": [{"is-yaml": True}]},)

    def fault(self, text: str) -> str | None:
        """Read only the syntax: create no object, and follow no alias."""
        if isinstance(parse_json(text), dict | list):  # all JSON is YAML 1.2; the package reads YAML 1.1
            return None
        depth, anchors, has_data = 0, set(), False
        try:
            for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                if isinstance(event, yaml.AliasEvent) and event.anchor not in anchors:
                    return f"the alias *{event.anchor} has no anchor"
                anchors.add(getattr(event, "anchor", None))
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                has_data = has_data or depth > 0
                if depth > DEEPEST:
                    fault = f"the answer is nested more than {DEEPEST} levels deep, which is not read"
                    raise EvaluatorError(fault, "config")
        except (yaml.YAMLError, UnicodeEncodeError) as error:  # half a character cannot be encoded
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}" if mark is not None else ""
            return f"{getattr(error, 'problem', None) or str(error).splitlines()[0]}{where}"
        return None if has_data else "it is a text, and no mapping or list"


class IsXml(SyntaxCheck):
    """The whole answer is well-formed XML, and declares its prefixes."""

    kind = "is-xml"
    name_of_format = "XML"
    examples = ({"answer": "<order><id>1001</id></order>", "assert": [{"is-xml": True}]},)

    def fault(self, text: str) -> str | None:
        # With a separator, expat checks prefixes: other readers refuse one that is not declared. No name has a line
        # break. The answer is a text: the encoding that it declares does not matter.
        parser = expat.ParserCreate("utf-8", "\n")
        try:
            parser.Parse(trim(text).encode("utf-8", "surrogatepass"), True)
        except (expat.ExpatError, ValueError) as error:
            return str(error)
        return None


# `is-json` and `contains-json`: JSON in the answer, and its schema.

_SHOWN_FAULTS: Final = 3
_NOT_SEARCHED: Final = "Error executing regex"
"""How the fault of a pattern begins that was given up, because it tries too many ways to match."""


def _schema(value: Json, info: ValidationInfo) -> Json:
    """Return a schema. Reads it from a file if a text names one. Raises `ValueError` for an invalid one."""
    scope = scope_of(info)
    where = ""
    if isinstance(value, str) and scope is not None:
        where, value = f"{value}: ", _read_schema(value, scope)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping | bool):
        raise expected("a JSON Schema (a mapping) or the path of its file")
    slipped = {"negate", "path", "weight", "threshold"} & (value.keys() if isinstance(value, Mapping) else set())
    if slipped:
        raise ValueError(f"{where}{min(slipped)!r} is no keyword of a schema: keys of the check stand beside it")
    try:
        _validator(json.dumps(value, sort_keys=True))
    except (TypeError, ValueError, RecursionError) as error:  # YAML has dates and keys that JSON lacks
        fault = _fault(error) if hasattr(error, "instance_path") else error
        raise ValueError(f"{where}is no JSON Schema: {fault}") from None
    return value


def _read_schema(path: str, scope: Scope) -> Json:
    file = scope.references.read(path, scope.place.at("value"), is_text=True)
    if file is None:
        return None
    try:
        return strict_json(file.text)
    except ValueError as error:
        raise ValueError(f"{file.display_path} is no JSON: {error}") from None


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

    async def evaluate(self, context: Context) -> Score:
        return await off_loop(len(context.candidate_answer), self.check, context)

    def check(self, context: Context) -> Score:
        """Judge an answer; blocks."""
        raise NotImplementedError

    def faults(self, data: Json) -> list[str]:
        """Return the first faults of data by the schema. Raises `EvaluatorError` if the schema cannot judge."""
        if self.value is None:
            return []
        try:
            found = list(_validator(json.dumps(self.value, sort_keys=True)).iter_errors(data))
        except (ValueError, RecursionError) as error:  # nested too deeply, or half a character
            raise EvaluatorError(f"the schema cannot be used: {error}", "config") from None
        if given_up := next((each for each in found if each.message.startswith(_NOT_SEARCHED)), None):
            raise EvaluatorError(f"a pattern of the schema cannot be judged: {_fault(given_up)}", "timeout")
        found.sort(key=lambda each: list(map(str, each.instance_path)))
        return [_fault(each) for each in found[:_SHOWN_FAULTS]]


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Return the validator of a schema, which is given as JSON. Raises `ValueError` with the place of a fault."""
    import jsonschema_rs  # noqa: PLC0415 - 60 ms, only for checks with a schema

    plain = jsonschema_rs.EmailOptions(allow_display_text=False)
    return jsonschema_rs.validator_for(schema, validate_formats=True, email_options=plain, offline=True)


def _fault(error: Any) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    text = beginning(error.message, 200)
    return f"{where.removeprefix('.')}: {text}" if where else text


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
        hit = "is JSON" if self.value is None else "is JSON as the schema wants it"
        return Score(0.0, misses=tuple(faults)) if faults else Score(1.0, hits=(hit,))


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


def _date_format(written: str) -> str:
    """Return a format that reads the date that it writes. Without a day, it is the first of the month."""
    form, first_of_a_month = _of_strptime(written), date(2024, 12, 1)
    with suppress(ValueError, re.error):  # a part that is there twice makes a wrong pattern
        if datetime.strptime(first_of_a_month.strftime(form), form).date() == first_of_a_month:
            return written
    parts = "YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators"  # formats of `strptime` are read as well
    raise expected(f"a date format ({parts}), such as DD/MM/YYYY")


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
    formats: Items[Annotated[Text, AfterValidator(_date_format)]] | None = Field(
        default=None,
        description="with `date`: formats such as `DD/MM/YYYY` or `%d.%m.%Y`; dates in ISO 8601 need none",
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"


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
            self._expected(services.case)
        return self

    async def evaluate(self, context: Context) -> Score:
        score = await off_loop(len(context.candidate_answer), self._score, context)
        return score.replace(warnings=tuple(self.doubts(context.case)))

    def doubts(self, case: EvalCase) -> Iterator[str]:
        """Yield why no answer can be right, and the required fields that count as met, as in AgentV."""
        data, faults = expected_data(case.expected_messages), list(self._faults(case.expected_messages))
        yield from faults
        if data is ABSENT and not faults:
            yield "there is no expected data, so no answer can pass: write it into `expected`, as a mapping or as JSON"
        for path in (each.path for each in self.fields if each.required and data is not ABSENT):
            if read_path(data, path) is ABSENT:
                yield f"the expected data has no {path!r}: this field counts as met, whatever the answer has there"

    def _expected(self, case: EvalCase) -> Json | Absent:
        if faults := list(self._faults(case.expected_messages)):
            raise EvaluatorError("; ".join(faults), "config")
        return expected_data(case.expected_messages)

    def _faults(self, messages: Sequence[JsonObject]) -> Iterator[str]:
        """Yield why no answer can be compared with the expected data."""
        data = expected_data(messages)
        if data is ABSENT and any(_is_of_parts(message.get("content")) for message in messages):
            yield "the text and file parts of the expected message hold no JSON to compare the answer with"
        for check in self.fields:
            wanted = read_path(data, check.path)
            is_left_out = not check.required and wanted in (None, "")  # a field that the answer may lack as well
            if wanted is ABSENT or is_left_out or check.match == "exact" or read_as(check, wanted) is not None:
                continue
            readable = "date that can be read (2025-01-15 can, and dates in the listed `formats`)"
            what = readable if check.match == "date" else "number"
            yield f"the expected {check.path!r} is {describe_value(wanted)}, and no {what}"

    def _score(self, context: Context) -> Score:
        """Score an answer's fields; 0 when the answer holds no JSON or nothing is expected."""
        candidate, expected = parse_answer(context.candidate_answer), self._expected(context.case)
        unknown = _NOTHING_EXPECTED if expected is ABSENT else None
        if candidate is ABSENT:
            return Score(0.0, misses=(_NO_JSON,), unknown=unknown, unchecked=_NO_JSON)
        if expected is ABSENT:
            return Score(0.0, misses=(_NOTHING_EXPECTED,), unknown=unknown)
        findings = [check_field(check, candidate, expected) for check in self.fields]
        is_mean = self.aggregation == "weighted_average"
        hits = [text for matched, text, _ in findings if matched]
        misses = [text for matched, text, _ in findings if not matched]
        if is_mean and not any(weight for _, _, weight in findings):
            unknown = "No field of the answer counts: each weighs 0, or is optional and missing"
        mean = weighted_mean([(float(matched or False), weight) for matched, _, weight in findings])
        return Score(
            mean if is_mean else float(not misses),
            hits=tuple(hits[:4]),  # the reasoning counts all of them
            misses=tuple(misses[:4]),
            reasoning=f"{len(hits)}/{len(findings)} fields matched",
            unknown=unknown,
            unchecked="; ".join(text for matched, text, _ in findings if matched is None) or None,
        )


def check_field(check: FieldCheck, candidate: Json, expected: Json) -> tuple[bool | None, str, float]:
    """Return whether a field matches (None: the answer's value could not be read), the hit or miss, and its weight."""
    path = check.path
    wanted, given = read_path(expected, path), read_path(candidate, path)
    if wanted is ABSENT:
        return True, f"{path}: no expected value", check.weight
    if given is ABSENT and check.required:
        return False, f"{path} (required, missing)", check.weight
    if given is ABSENT:
        return True, f"{path}: optional field missing", 0.0
    got, goal = read_as(check, given), read_as(check, wanted)
    if check.match == "exact":
        is_met, note = json_equal(got, goal), _type_difference(got, goal)
    elif got is None or goal is None:
        side = "candidate" if got is None else "expected"
        note = f"unparseable {side} date" if check.match == "date" else "non-numeric value"
        return None if got is None else False, f"{path} ({note})", check.weight
    elif check.match == "date":
        is_met, note = got == goal, f"date mismatch: got {got}, expected {goal}"
    else:
        is_met, note = _compare_numbers(check, got, goal)
    says_more = not is_met or check.match == "numeric_tolerance"
    return is_met, f"{path} ({note})" if says_more else path, check.weight


def read_as(check: FieldCheck, value: Json) -> Any:
    """Return a value as a check compares it: as it is, as a number or as a date; None if it is no such value."""
    if check.match == "numeric_tolerance":
        return parse_number(value)
    if check.match == "date":
        return parse_date(value, check.formats or ()) if isinstance(value, str) else None
    return value


def _type_difference(given: Json, wanted: Json) -> str:
    """Say how values differ, in the words of AgentV's messages: a list and null are objects."""
    words = {bool: "boolean", str: "string", int: "number", float: "number"}
    got, expected = words.get(type(given), "object"), words.get(type(wanted), "object")
    return "value mismatch" if got == expected else f"type mismatch: got {got}, expected {expected}"


def _compare_numbers(check: FieldCheck, number: float, goal: float) -> tuple[bool, str]:
    share = abs(goal) if check.relative and goal else 1
    difference = abs(number - goal)
    # As floats, 0.8 and 0.7 are not exactly 0.1 apart.
    rounding = sum(math.ulp(each) for each in (number, goal) if type(each) is float)
    if (difference - rounding) / share <= check.tolerance * (1 + 1e-9):
        return True, f"within tolerance: diff={format_fixed(difference, 2)}"
    shown = format_fixed(difference, digits_apart(difference, check.tolerance * share, 2))
    part = "" if share == 1 else f" of {format_number(share)}"
    return False, f"outside tolerance: diff={shown}, tolerance={format_number(check.tolerance)}{part}"


def expected_data(messages: Sequence[JsonObject]) -> Json | Absent:
    """Return the mapping or list of the last assistant message that has one; `ABSENT` if none has."""
    for message in reversed(messages):
        content = message.get("content") if message["role"] == "assistant" else None
        if _is_of_parts(content):
            texts = [_text_of(item) for item in content or ()]
            content = content if None in texts else "\n".join(filter(None, texts))
        data = parse_answer(content) if isinstance(content, str) else content
        if isinstance(data, Mapping | list | tuple):
            return data
    return ABSENT


def _is_of_parts(content: Json) -> bool:
    return isinstance(content, list | tuple) and any(map(_is_part, content))


def _is_part(item: Json) -> bool:
    """Whether an entry of a list is a part of a message, and no data."""
    return isinstance(item, Mapping) and (
        (item.get("type") in ("text", "image") and "value" in item) or "resolvedPath" in item
    )


def _text_of(item: Json) -> str | None:
    """Return the text of an entry of a message, empty for a picture; None for data."""
    if isinstance(item, str):
        return item
    return str(item.get("value" if item["type"] == "text" else "text", "")) if _is_part(item) else None


# The dates and numbers of fields.

_PART: Final = re.compile(r"y{4}|yy|m{1,4}|dd?", re.IGNORECASE)
_PARTS: Final = {"yyyy": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d"}


def _of_strptime(written: str) -> str:
    return written if "%" in written else _PART.sub(lambda found: _PARTS[found[0].lower()], written)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date of a text, in UTC, in the first of some formats that fits, or in ISO 8601; None: it is none."""
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


def parse_number(value: Json) -> float | None:
    """Return a number, or that of a text such as `1,234.50`, `10.9 USD` or `5 %`; None for any other value."""
    if isinstance(value, str):
        found = _NUMBER.fullmatch(_BESIDE.sub(r"\1", value.strip()))
        digits = found[0].replace(",", "") if found else ""
        value = found and (float(digits) if found[1] or found[2] else whole_number(digits))
    return value if is_number(value) and abs(value) < math.inf else None
