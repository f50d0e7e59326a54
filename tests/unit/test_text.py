"""How values are written as text, and how many columns texts take on a terminal."""

import json
import math
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.base import compact_json, digits_apart, format_fixed, format_number, json_fault
from pytest_agentv.reports.figures import columns, padded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (1e21, "1e+21"),
        (math.nan, "null"),
        ({"total": 2.0, "lines": [1.0, (3.0,)]}, '{"total":2,"lines":[1,[3]]}'),
        ({"a": 1e16, "b": [1e-7, 1e20]}, '{"a":10000000000000000,"b":[1e-07,100000000000000000000]}'),
        ({"text": "2.0] NaN", "value": 0.5}, '{"text":"2.0] NaN","value":0.5}'),
        (MappingProxyType({"a": MappingProxyType({"b": 2.0})}), '{"a":{"b":2}}'),
    ],
)
def test_json_has_the_numbers_that_javascript_writes(value: object, text: str) -> None:
    assert compact_json(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1234567890123456789, "1234567890123456789"),
        (-(10**400), "-1" + "0" * 400),
        (1e21, "1e+21"),
        (True, "1"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
    ],
)
def test_a_whole_number_keeps_all_its_digits(number: float, text: str) -> None:
    assert format_number(number) == text


LOOP: dict[str, object] = {}
LOOP["self"] = LOOP
DIGITS = "hold a whole number of more than 4300 digits"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("mute")


@pytest.mark.parametrize(
    ("value", "fault", "fault_of_texts"),
    [
        ({"a": [1, 0.5, None, True, "x", Path("y")]}, None, None),
        ({"a": 10**4299, "b": -(2**64)}, None, None),
        ({"a": 10**4300}, DIGITS, DIGITS),
        ([-(10**4300)], DIGITS, DIGITS),
        (LOOP, "are nested more than 100 levels deep", "are nested more than 100 levels deep"),
        ({"a": {1, 2}}, "hold a value of type set, which is no JSON", None),
        ({1: 2}, "have a key that is no text", None),
        ({10**4300: 2}, "have a key that is no text", DIGITS),
        ([Mute()], "hold a value of type Mute, which is no JSON", "hold a value of type Mute, which has no text"),
    ],
)
def test_what_cannot_be_written_is_told(value: object, fault: str | None, fault_of_texts: str | None) -> None:
    assert json_fault(value) == fault
    assert json_fault(value, with_texts=True) == fault_of_texts


@given(st.recursive(st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists))
def test_no_value_is_changed_by_it(value: object) -> None:
    assert json.loads(compact_json(value)) == value


@given(st.floats(0, 1e20), st.floats(0, 1e20))
def test_the_decimals_that_tell_two_numbers_apart_keep_their_order(low: float, high: float) -> None:
    low, high = sorted((low, high))
    digits = digits_apart(low, high, 2)
    shown = [float(format_fixed(each, digits)) for each in (low, high)]
    assert shown == sorted(shown)
    assert shown[0] < high or digits == 2


@pytest.mark.parametrize(("low", "high", "digits"), [(1, 2, 2), (0.8996, 0.9, 4), (0.3, 0.1 + 0.2, 2), (1, 1, 2)])
def test_two_numbers_are_shown_with_the_fewest_decimals_that_differ(low: float, high: float, digits: int) -> None:
    assert digits_apart(low, high, 2) == digits


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("\u4e16\u754c", 4), ("e\u0301", 1), ("\uff21", 2), ("", 0), ("Gr\u00fc\u00dfe", 5)]
)
def test_columns_of_a_text(text: str, width: int) -> None:
    assert columns(text) == width
    assert columns(padded(text, 8)) == 8
