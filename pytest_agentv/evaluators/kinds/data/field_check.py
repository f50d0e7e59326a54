"""One field of a JSON answer: how a file describes it, and how it is compared with the expected data."""

import math
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from pytest_agentv.evaluators.base import AnswerPath
from pytest_agentv.evaluators.comparing.answer_data import read_path
from pytest_agentv.evaluators.comparing.date_formats import FORMAT_SCHEMA, KNOWN_PARTS, is_date_format
from pytest_agentv.evaluators.comparing.equality import json_equal
from pytest_agentv.evaluators.comparing.field_dates import parse_date
from pytest_agentv.evaluators.comparing.field_numbers import parse_number
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.kind import Amount, Items, Part, Text, expected
from pytest_agentv.models.records import record
from pytest_agentv.models.text import digits_apart, format_fixed, format_number

_ROUNDING: Final = 1e-9


@record
class FieldFinding:
    """The outcome of comparing one field."""

    matched: bool
    text: str
    """The hit, or the miss with its reason."""
    weight: float
    is_unread: bool = False
    """Whether the answer has a value that could not be read, so that nothing was compared."""


def _date_format(value: str) -> str:
    if not is_date_format(value):
        raise expected(f"a date format ({KNOWN_PARTS}), such as DD/MM/YYYY")
    return value


DateFormat: TypeAlias = Annotated[Text, AfterValidator(_date_format), WithJsonSchema(FORMAT_SCHEMA)]
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
        description="with `date`: formats such as `DD/MM/YYYY`, to tell days from months, or `YYYY.MM.DD`",
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"


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
        return FieldFinding(False, f"{check.path} (non-numeric value)", check.weight, is_unread=number is None)
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
    got, goal = _read_date(check, given), _read_date(check, wanted)
    if got is None or goal is None:
        side = "candidate" if got is None else "expected"
        return FieldFinding(False, f"{check.path} (unparseable {side} date)", check.weight, is_unread=got is None)
    if got == goal:
        return FieldFinding(True, check.path, check.weight)
    return FieldFinding(False, f"{check.path} (date mismatch: got {got}, expected {goal})", check.weight)


def _read_date(check: FieldCheck, value: Json) -> date | None:
    return parse_date(value, check.formats or ()) if isinstance(value, str) else None


def unreadable_as(check: FieldCheck, wanted: Json) -> str | None:
    """Return what an expected value should be, but cannot be read as; None if it can."""
    if check.match == "numeric_tolerance":
        number = parse_number(wanted)
        return None if number is not None and math.isfinite(number) else "number"
    if check.match == "date" and _read_date(check, wanted) is None:
        return "date that can be read (2025-01-15 can, and dates in the listed `formats`)"
    return None


def _type_name(value: Json) -> str:
    """The word of AgentV's messages: a list and null are objects."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "object"
