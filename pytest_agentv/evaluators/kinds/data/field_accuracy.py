"""`field_accuracy`: fields of a JSON answer, compared one by one with the expected data (agentv-formats 6.8)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from pytest_agentv.evaluators.base import AnswerPath, Context, Evaluator
from pytest_agentv.evaluators.comparing.answer_data import parse_answer, read_path
from pytest_agentv.evaluators.comparing.equality import json_equal
from pytest_agentv.evaluators.comparing.field_dates import parse_date
from pytest_agentv.evaluators.comparing.field_numbers import parse_number
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.models.base import ABSENT, Absent, Json, JsonObject
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.kind import NOT_EMPTY, Amount, Items, Part, Text
from pytest_agentv.models.records import record
from pytest_agentv.models.scores import Score, weighted_mean
from pytest_agentv.models.text import digits_apart, format_fixed, format_number

_NO_JSON: Final = "Failed to parse candidate answer as JSON"
_NOTHING_EXPECTED: Final = "No expected data found in expected_messages"

_NOTHING_COUNTS: Final = "No field of the answer counts: each weighs 0, or is optional and missing"

SHOWN_FINDINGS: Final = 4
"""The most hits, and the most misses, that are listed. The reasoning counts all of them."""

_ROUNDING: Final = 1e-9


@record
class FieldFinding:
    """The outcome of comparing one field."""

    matched: bool
    text: str
    """The hit, or the miss with its reason."""
    weight: float


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
    formats: Items[Text] | None = Field(
        default=None, description="with `date`: formats such as `DD/MM/YYYY`, to tell days from months"
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"


class FieldAccuracy(Evaluator):
    """Fields of a JSON answer, compared one by one with those of the expected message."""

    kind = "field_accuracy"
    short_key = "fields"

    fields: Annotated[Items[FieldCheck], NOT_EMPTY] = Field(description="the fields that are compared")
    aggregation: Literal["weighted_average", "all_or_nothing"] = Field(
        default="weighted_average", description="how the fields make the score"
    )

    async def evaluate(self, context: Context) -> Score:
        answer, expected = context.candidate_answer, context.case.expected_messages
        score = await off_loop(len(answer), score_fields, self, answer, expected)
        return score.replace(warnings=tuple(self.doubts(context.case)))

    def doubts(self, case: EvalCase) -> Iterator[str]:
        """Yield the required fields that the expected data lacks. They count as met, as in AgentV."""
        expected = expected_data(case.expected_messages)
        for check in self.fields if expected is not ABSENT else ():
            if check.required and read_path(expected, check.path) is ABSENT:
                yield (
                    f"the expected data has no {check.path!r}: this field counts as met, whatever the answer has there"
                )


def score_fields(config: FieldAccuracy, answer: str, expected_messages: Sequence[JsonObject]) -> Score:
    """Score an answer's fields; 0 when the answer holds no JSON or nothing is expected."""
    candidate, expected = parse_answer(answer), expected_data(expected_messages)
    unknown = _NOTHING_EXPECTED if expected is ABSENT else None
    if candidate is ABSENT:
        return Score(0.0, misses=(_NO_JSON,), unknown=unknown, unchecked=_NO_JSON)
    if expected is ABSENT:
        return Score(0.0, misses=(_NOTHING_EXPECTED,), unknown=unknown)
    findings = [check_field(check, candidate, expected) for check in config.fields]
    is_mean = config.aggregation == "weighted_average"
    hits = [finding.text for finding in findings if finding.matched]
    misses = [finding.text for finding in findings if not finding.matched]
    return Score(
        _weighted_mean(findings) if is_mean else _all_matched(findings),
        hits=tuple(hits[:SHOWN_FINDINGS]),
        misses=tuple(misses[:SHOWN_FINDINGS]),
        reasoning=f"{len(hits)}/{len(findings)} fields matched",
        unknown=_NOTHING_COUNTS if is_mean and not any(finding.weight for finding in findings) else None,
    )


def expected_data(messages: Sequence[JsonObject]) -> Json | Absent:
    """Return the mapping or list of the last assistant message that has one; `ABSENT` if none has."""
    for message in reversed(messages):
        content = message.get("content", ABSENT)
        data = parse_answer(content) if isinstance(content, str) else content
        if message["role"] == "assistant" and isinstance(data, Mapping | list | tuple):
            return data
    return ABSENT


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


def _compare_numbers(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    number, goal = parse_number(given), parse_number(wanted)
    if number is None or goal is None:
        return FieldFinding(False, f"{check.path} (non-numeric value)", check.weight)
    if not (math.isfinite(number) and math.isfinite(goal)):
        return FieldFinding(False, f"{check.path} (invalid numeric value)", check.weight)
    share = abs(goal) if check.relative and goal else 1
    difference = abs(number - goal)
    # As floats, 0.8 and 0.7 are not exactly 0.1 apart.
    rounding = sum(math.ulp(each) for each in (number, goal) if type(each) is float)
    if (difference - rounding) / share <= check.tolerance * (1 + _ROUNDING):
        return FieldFinding(True, f"{check.path} (within tolerance: diff={format_fixed(difference, 2)})", check.weight)
    shown = format_fixed(difference, digits_apart(difference, check.tolerance * share, 2))
    part = "" if share == 1 else f" of {format_number(share)}"
    reason = f"outside tolerance: diff={shown}, tolerance={format_number(check.tolerance)}{part}"
    return FieldFinding(False, f"{check.path} ({reason})", check.weight)


def _compare_dates(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    formats = check.formats or ()
    got = parse_date(given, formats) if isinstance(given, str) else None
    goal = parse_date(wanted, formats) if isinstance(wanted, str) else None
    if got is None or goal is None:
        side = "candidate" if got is None else "expected"
        return FieldFinding(False, f"{check.path} (unparseable {side} date)", check.weight)
    if got == goal:
        return FieldFinding(True, check.path, check.weight)
    return FieldFinding(False, f"{check.path} (date mismatch: got {got}, expected {goal})", check.weight)


def _weighted_mean(findings: Sequence[FieldFinding]) -> float:
    return weighted_mean([(float(finding.matched), finding.weight) for finding in findings])


def _all_matched(findings: Sequence[FieldFinding]) -> float:
    return 1.0 if all(finding.matched for finding in findings) else 0.0


def _type_name(value: Json) -> str:
    """The word of AgentV's messages: a list and null are objects."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "object"
