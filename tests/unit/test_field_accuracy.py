"""`field_accuracy` and the dates it reads: AgentV's worked samples, with its faults around dates mended."""

import asyncio
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import read_path
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.data import (
    FieldAccuracy,
    FieldCheck,
    expected_data,
    parse_date,
    parse_number,
)
from pytest_agentv.model.base import ABSENT, compact_json
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import Score


def score_of(checks, candidate, expected, aggregation="weighted_average") -> Score:
    answer = candidate if isinstance(candidate, str) else compact_json(candidate)
    config = FieldAccuracy(fields=tuple(checks), aggregation=aggregation)
    return score_by(config, answer, ({"role": "assistant", "content": expected},))


def score_by(config, answer, messages) -> Score:
    case = EvalCase("c", "d", "/e", 1, "o", "q", (), (), expected_messages=messages)
    return asyncio.run(config.evaluate(Context(case, Prompt("q"), answer))).replace(warnings=())


def exact(path, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="exact", **fields)


def number(path, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="numeric_tolerance", **fields)


def a_date(path, *formats, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="date", formats=formats or None, **fields)


NO_NUMBER, NO_DATE = "non-numeric value", "unparseable candidate date"
BEYOND = "outside tolerance: diff={}, tolerance={}"


@pytest.mark.parametrize(
    ("check", "given", "expected", "miss"),
    [
        (number("a", tolerance=0.1), 0.8, 0.7, None),  # rounding errors of floats are no difference
        (number("a", tolerance=0.1), 100000000.2, 100000000.1, None),
        (number("a", tolerance=0.1), 0.30000000000000004, 0.2, None),
        (number("a"), "1e3", 1000, None),
        (number("a", tolerance=0.05, relative=True), 0.04, 0, None),
        (number("a", tolerance=1.0), 10**299, 10**299, None),
        (number("a", tolerance=1.0), 17 * 10**307, 17 * 10**307, None),
        (number("a", tolerance=1.0), 104.5, 100, BEYOND.format("4.50", "1")),
        (number("a"), "1,999.00", "1,234.50", BEYOND.format("764.50", "0")),
        (number("a"), 12345678901234567891, 12345678901234567890, BEYOND.format("1.00", "0")),
        (number("a", tolerance=0.01), 1.013, 1, BEYOND.format("0.013", "0.01")),  # never shown as the tolerance
        (number("a", tolerance=0.05, relative=True), 0.02, 0.01, BEYOND.format("0.01", "0.05 of 0.01")),
        (number("a", tolerance=0.5), 1e30, 1, BEYOND.format("1e+30", "0.5")),
        *((number("a"), given, 1, NO_NUMBER) for given in ("abc", "", True, None, [1], {}, "1,5", "1 999 €", "1'999")),
        *(
            (number("a"), given, 2, NO_NUMBER)
            for given in ("2 million", "2M", "2 kg", "2 to 3", "2/1", "2e5,5", "2%-3%")
        ),
        *((number("a"), given, 2026, NO_NUMBER) for given in ("2026-01-15", "2.026,50", "1,234,5678")),
        *((number("a", tolerance=1.0), given, 1, NO_NUMBER) for given in (10**999, -(10**999))),
        (exact("a"), "1", 1, "type mismatch: got string, expected number"),
        (exact("a"), True, 1, "type mismatch: got boolean, expected number"),
        (exact("a"), None, {}, "value mismatch"),
        (a_date("a"), "2025-01-15T23:30:00-05:00", "2025-01-15", "date mismatch: got 2025-01-16, expected 2025-01-15"),
        *((a_date("a"), given, "2025-01-15", NO_DATE) for given in ("soon", 5, None, "2025.01.15", "01/02/2025")),
    ],
)
def test_a_field_is_held_against_the_expected_one(check, given, expected, miss):
    score = score_of([check], {"a": given}, {"a": expected})
    assert (score.value, score.misses) == ((0, (f"a ({miss})",)) if miss else (1, ()))
    assert score.unchecked == (f"a ({miss})" if miss in (NO_NUMBER, NO_DATE) else None), "it cannot be negated"


@pytest.mark.parametrize(
    "given", ["-1234.5", "-1,234.50", "-1234.5 USD", "-$1,234.5", "\u20ac-1,234.5", "-1234.5 %", "-1234.5\u20ac"]
)
def test_a_currency_or_a_percent_sign_may_be_beside_a_number(given):
    assert parse_number(given) == -1234.5


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_any_two_numbers_can_be_compared(left, right):
    score = score_of([number("a", tolerance=1.0)], {"a": left}, {"a": right})
    assert score.value == (1 if abs(left - right) <= 1 else 0) or abs(left - right) == pytest.approx(1)


def test_a_path_is_read_as_in_all_checks():
    assert score_of([exact("$.a"), exact("$[0]")], {"a": 1}, {"a": 2}).misses[0] == "a (value mismatch)"
    with pytest.raises(ValidationError, match="a path such as items"):
        exact("items[*].price")


@pytest.mark.parametrize("rows", [[{"a": 1}], [{"a": 1}, {"a": 2}]])
def test_a_list_amid_text_is_the_answer(rows):
    answer = f"Sure:\n```json\n{compact_json(rows)}\n```"
    assert score_of([exact("[0].a")], answer, rows).hits == ("[0].a",)
    assert score_of([exact("a")], answer, {"a": 1}).misses == ("a (required, missing)",)


def test_a_missing_optional_field_weighs_nothing():
    score = score_of([exact("a", required=False)], {}, {"a": 1})
    unknown = "No field of the answer counts: each weighs 0, or is optional and missing"
    assert score == Score(0.0, hits=("a: optional field missing",), reasoning="1/1 fields matched", unknown=unknown)


def test_four_hits_and_four_misses_are_shown_and_all_are_counted():
    names = [f"f{index}" for index in range(12)]
    candidate = {name: index % 2 for index, name in enumerate(names)}
    score = score_of([exact(name) for name in names], candidate, dict.fromkeys(names, 1))
    assert score.hits == ("f1", "f3", "f5", "f7")
    assert score.misses == tuple(f"f{index} (value mismatch)" for index in (0, 2, 4, 6))
    assert score.reasoning == "6/12 fields matched"


@pytest.mark.parametrize("answer", ["no json", "", "{'a': 1}", '{"a": 1', '{"a": NaN}', "5", "} {"])
def test_an_answer_without_json_scores_0(answer):
    fault = "Failed to parse candidate answer as JSON"
    assert score_of([exact("a")], answer, {"a": 1}) == Score(0.0, misses=(fault,), unchecked=fault)


A_FILE = {"type": "file", "path": "ideal.json", "text": '{"a": 2}\n', "resolvedPath": "/e/ideal.json"}
A_PICTURE = {"type": "file", "path": "a.png", "mediaType": "image/png", "sha256": "0", "resolvedPath": "/e/a.png"}


def said(content):
    return {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    ("messages", "data"),
    [
        *((messages, None) for messages in ((), ({"role": "assistant"},), (said(None),), (said("plain text"),))),
        (({"role": "user", "content": {"a": 1}},), None),
        ((said({"a": 1}), said('{"a": 2}'), said("")), {"a": 2}),
        ((said({"a": 1}), said('```json\n{"a": 2}\n```')), {"a": 2}),
        ((said({"a": 1}), said('The order: {"a": 2}')), {"a": 2}),
        ((said({"a": 2}), said("Anything else?")), {"a": 2}),
        ((said({"a": 2}), said([{"type": "text", "value": "Anything else?"}])), {"a": 2}),
        *(
            ((said(parts),), {"a": 2})
            for parts in (
                [{"type": "text", "value": '{"a": 2}'}],
                ["The order:", A_FILE],
                [{"type": "text", "value": '{"a":'}, {"type": "text", "value": "2}"}],
                [A_PICTURE, {"type": "image", "value": "b.png"}, A_FILE],
            )
        ),
        *(
            ((said(data),), data)  # a list that is not of parts
            for data in (
                [],
                ["a", "b"],
                [{"a": 1}],
                [1],
                [{"type": "note", "value": "x"}],
                [{"type": "text"}, {"a": 1}],
            )
        ),
    ],
)
def test_the_expected_data_are_those_of_the_last_message_that_has_some(messages, data):
    if data is None:
        unknown = "No expected data found: `expected` holds no JSON"
        found = score_by(FieldAccuracy(fields=(exact("a"),)), '{"a":1}', messages)
        assert found == Score(0.0, misses=(unknown,), unknown=unknown)
    else:
        assert expected_data(messages) == data


@pytest.mark.parametrize("content", [[A_PICTURE], [{"type": "text", "value": "120 euros"}], [{**A_FILE, "text": "{"}]])
def test_expected_parts_without_json_are_an_error(content):
    with pytest.raises(EvaluatorError, match="the text and file parts of the expected message hold no JSON"):
        score_of([exact("a")], {"a": 1}, content)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[1]", 2),
        ("a.b.0", 1),
        ("a[b][0]", 1),
        ("n", None),
        ("k.0", "zero"),
        ("a.b[2]", ABSENT),
        ("a.b.x", ABSENT),
        ("n.x", ABSENT),
        ("a.b[-1]", ABSENT),
        ("a.b.length", 2),
        ("a.length", ABSENT),
        ("k.length", "long"),
        ("k.0.length", ABSENT),
    ],
)
def test_paths_lead_through_mappings_and_lists(path, value):
    assert read_path({"a": {"b": [1, 2]}, "n": None, "k": {"0": "zero", "length": "long"}}, path) == value


@pytest.mark.parametrize(
    ("candidate", "expected", "formats"),
    [
        ("15-JAN-2025", "2025-01-15", ("DD-MMM-YYYY",)),
        ("01/02/2025", "2025-02-01", ("DD/MM/YYYY",)),
        ("2025-01-15 10:30", "2025-01-15T23:59:59", ()),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Auckland"])
def test_the_same_calendar_date_is_a_hit_in_every_time_zone(monkeypatch, candidate, expected, formats, zone):
    monkeypatch.setenv("TZ", zone)
    score = score_of([a_date("d", *formats)], {"d": candidate}, {"d": expected})
    assert score == Score(1.0, hits=("d",), reasoning="1/1 fields matched")


@pytest.mark.parametrize(
    ("check", "expected", "fault"),
    [
        (a_date("a"), "soon", "the expected 'a' is the text 'soon', and no date that can be read"),
        (a_date("a"), "2025.01.15", "the expected 'a' is the text '2025.01.15', and no date that can be read"),
        (a_date("a"), None, "the expected 'a' is null, and no date that can be read"),
        (
            a_date("a", required=False),
            20250115,
            "the expected 'a' is the number 20250115, and no date that can be read",
        ),
        (number("a"), "1,5", "the expected 'a' is the text '1,5', and no number"),
        (number("a"), "2026-12-31", "the expected 'a' is the text '2026-12-31', and no number"),
        (number("a"), "", "the expected 'a' is the text '', and no number"),
        (number("a"), "Infinity", "the expected 'a' is the text 'Infinity', and no number"),
    ],
)
@pytest.mark.parametrize("answer", ['{"a": "2025-01-15"}', "{}", "no JSON"])
def test_an_expected_value_that_cannot_be_read_is_an_error(check, expected, fault, answer):
    config = FieldAccuracy(fields=(check,))
    messages = ({"role": "assistant", "content": {"a": expected}},)
    case = EvalCase("c", "d", "/e", 1, "o", "q", (), (), expected_messages=messages)
    with pytest.raises(EvaluatorError, match=re.escape(fault)) as raised:
        score_by(config, answer, messages)
    assert raised.value.kind == "config"
    with pytest.raises(EvaluatorError, match=re.escape(fault)):
        config.prepare(Services(case=case))
    (doubt,) = config.doubts(case)
    assert fault in doubt


@pytest.mark.parametrize("check", [a_date("a", required=False), number("a", required=False)])
@pytest.mark.parametrize("expected", [None, ""])
def test_nothing_may_be_expected_of_an_optional_field(check, expected):
    assert score_of([check, exact("b")], {"b": 1}, {"a": expected, "b": 1}).value == 1
    assert score_of([check, exact("b")], {"a": "2025-01-15", "b": 1}, {"a": expected, "b": 1}).value == 0.5


JANUARY_5 = date(2025, 1, 5)


@pytest.mark.parametrize(
    ("text", "formats", "found"),
    [
        *(
            (text, (), JANUARY_5)
            for text in ("2025-01-05", " 2025-01-05T10:00:00.123Z", "20250105", "2025-01-06T01:00+02:00")
        ),
        *(
            (text, (), None)
            for text in ("", "5", "2025", "2025-13-01", "2025-02-30", "0001-01-01T00:00:00+05:00", "2025-01-15 and")
        ),
        *(
            (text, ("DD_MM_YYYY", written), JANUARY_5)
            for text, written in (
                ("2025.01.05", "YYYY.MM.DD"),
                ("05/Jan/2025", "DD/MMM/YYYY"),
                ("05JAN2025", "DDMMMYYYY"),
                ("5/1/25", "d/m/yy"),
                ("January 5, 2025", "MMMM D, YYYY"),
                ("05.01.25", "dd.mm.yy"),
                ("2025-05-01", "YYYY-DD-MM"),
                ("5. Jan 2025, 10:30", "%d. %b %Y, %H:%M"),
                ("5 de Jan de 2025", "%d de %b de %Y"),
                ("2025-01-05", "DD/MM/YYYY"),
            )
        ),
        ("01/02/2025", ("DD/MM/YYYY", "MM/DD/YYYY"), date(2025, 2, 1)),
        ("13/02/2025", ("MM/DD/YYYY", "DD/MM/YYYY"), date(2025, 2, 13)),
        ("13/02/2025", ("MM/DD/YYYY",), None),
        ("02/2025", ("MM/YYYY",), date(2025, 2, 1)),
    ],
)
def test_a_date_is_read_as_the_first_format_that_fits_says_or_as_iso_8601(text, formats, found):
    assert parse_date(text, formats) == found


@pytest.mark.parametrize(
    "written", ["EU", "ISO8601", "DD/MM", "YYYY", "Monday", "%Q", "%", "MM/MM/YYYY", "\ud800 YYYY"]
)
def test_a_format_that_is_none_is_an_error(written):
    with pytest.raises(ValidationError, match="MMMM, MMM, MM or M, DD or D, and separators"):
        a_date("d", written)


@given(st.text(max_size=12) | st.text("YyMmDd%/.- bBaAHT:", max_size=16))
def test_any_text_is_a_format_or_none_a_date_or_none_and_an_answer(text):
    assert isinstance(parse_date(text), date | None)
    assert score_of([exact("a")], text, {"a": 1}).value in (0.0, 1.0)


def test_a_number_too_large_for_a_float_is_a_miss():
    assert score_of([number("a", tolerance=1.0)], '{"a":1e999}', {"a": 1}).misses == ("a (non-numeric value)",)
