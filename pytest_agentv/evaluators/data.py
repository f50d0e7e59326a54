"""Checks of data: equal, a part, YAML, XML."""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Self
from xml.parsers import expat

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.cases.evaluators import load_evaluator
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    json_equal,
    locate_part,
    no_data,
    parse_answer,
    parse_json,
)
from pytest_agentv.evaluators.base import AnswerPath, Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge_reply import off_loop
from pytest_agentv.evaluators.run import judge, prepare
from pytest_agentv.evaluators.shared import shared_key, text_of_part
from pytest_agentv.evaluators.text import other_form, shown, verdict
from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject
from pytest_agentv.model.kind import definition
from pytest_agentv.model.results import Score
from pytest_agentv.model.text import compact_json, trim


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
