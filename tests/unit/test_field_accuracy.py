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
from pytest_agentv.evaluators.answer_data import parse_answer, read_path
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.field_accuracy import (
    FieldAccuracy,
    FieldCheck,
    expected_data,
    is_date_format,
    parse_date,
    parse_number,
    score_fields,
)
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import Score
from pytest_agentv.model.text import compact_json


def score_of(checks, candidate, expected, aggregation="weighted_average") -> Score:
    answer = candidate if isinstance(candidate, str) else compact_json(candidate)
    config = FieldAccuracy(fields=tuple(checks), aggregation=aggregation)
    return score_fields(config, answer, ({"role": "assistant", "content": expected},))


def exact(path, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="exact", **fields)


def number(path, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="numeric_tolerance", **fields)


def a_date(path, *formats, **fields) -> FieldCheck:
    return FieldCheck(path=path, match="date", formats=formats or None, **fields)


def test_fields_of_a_fenced_answer_are_compared_one_by_one():
    checks = (
        exact("a", weight=2.0),
        number("b.c[0].d", tolerance=1.0),
        exact("x", required=False),
        exact("nope"),
    )
    answer = 'Here it is:\n```json\n{"a":"1","b":{"c":[{"d":"10.9 USD"}]}}\n```\nDone.'
    score = score_of(checks, answer, {"a": "1", "b": {"c": [{"d": 10}]}, "x": 5})
    hits = ("a", "b.c[0].d (within tolerance: diff=0.90)", "x: optional field missing", "nope: no expected value")
    assert score == Score(1.0, hits=hits, reasoning="4/4 fields matched")


def test_a_relative_tolerance_is_a_share_of_the_expected_value():
    checks = (number("a", tolerance=0.05, relative=True), number("z", tolerance=0.05, relative=True))
    score = score_of(checks, {"a": 104, "z": 0.04}, {"a": 100, "z": 0})
    assert score.value == 1
    assert score.hits == ("a (within tolerance: diff=4.00)", "z (within tolerance: diff=0.04)")


def test_a_number_outside_the_tolerance_is_a_miss():
    score = score_of([number("a", tolerance=1.0)], {"a": 104.5}, {"a": 100})
    assert score.value == 0
    assert score.misses == ("a (outside tolerance: diff=4.50, tolerance=1)",)


def test_rounding_errors_of_floats_are_no_difference():
    assert score_of([number("a", tolerance=0.1)], {"a": 0.8}, {"a": 0.7}).value == 1


@pytest.mark.parametrize(
    ("given", "expected", "tolerance"),
    [(100000000.2, 100000000.1, 0.1), (0.30000000000000004, 0.2, 0.1), ("1e3", 1000, 0), ("1,999.50 USD", 1999.5, 0)],
)
def test_numbers_are_compared_as_they_are_written(given, expected, tolerance):
    assert score_of([number("a", tolerance=tolerance)], {"a": given}, {"a": expected}).value == 1


@pytest.mark.parametrize(
    ("given", "expected", "miss"),
    [
        ("1,999.00", "1,234.50", "outside tolerance: diff=764.50, tolerance=0"),
        (12345678901234567891, 12345678901234567890, "outside tolerance: diff=1.00, tolerance=0"),
        ("1,5", 1, "non-numeric value"),
        ("1.234,50", 1.234, "non-numeric value"),
        ("1 999 €", 1, "non-numeric value"),
        ("1'999", 1, "non-numeric value"),
        ("2026-01-15", 2026, "non-numeric value"),
        ("3/4", 3, "non-numeric value"),
        ("1e5,5", 1, "non-numeric value"),
        ("1,234,5678", 1234, "non-numeric value"),
        ("2 million", 2, "non-numeric value"),
        ("2M", 2, "non-numeric value"),
        ("2 kg", 2, "non-numeric value"),
        ("2 to 3", 2, "non-numeric value"),
        ("10%-20%", 10, "non-numeric value"),
    ],
)
def test_numbers_that_only_begin_alike_differ(given, expected, miss):
    unchecked = f"a ({miss})" if miss == "non-numeric value" else None
    assert score_of([number("a")], {"a": given}, {"a": expected}) == Score(
        0.0, misses=(f"a ({miss})",), reasoning="0/1 fields matched", unchecked=unchecked
    )


@pytest.mark.parametrize(
    "given", ["-1234.5", "-1,234.50", "-1234.5 USD", "-$1,234.5", "\u20ac-1,234.5", "-1234.5 %", "-1234.5\u20ac"]
)
def test_a_currency_or_a_percent_sign_may_be_beside_a_number(given):
    assert parse_number(given) == -1234.5


def test_a_difference_beyond_the_tolerance_is_never_shown_as_the_tolerance():
    score = score_of([number("a", tolerance=0.01)], {"a": 1.013}, {"a": 1})
    assert score.misses == ("a (outside tolerance: diff=0.013, tolerance=0.01)",)
    score = score_of([number("a", tolerance=0.05, relative=True)], {"a": 0.02}, {"a": 0.01})
    assert score.misses == ("a (outside tolerance: diff=0.01, tolerance=0.05 of 0.01)",)


@pytest.mark.parametrize("given", ["abc", "", True, None, [1], {}])
def test_what_is_no_number_is_a_miss(given):
    score = score_of([number("a", tolerance=1.0)], {"a": given}, {"a": 1})
    assert score.misses == ("a (non-numeric value)",)


@pytest.mark.parametrize("given", ["1e999", "-1e999", "9" * 400])
def test_an_infinite_number_is_a_miss(given):
    score = score_of([number("a", tolerance=1.0)], f'{{"a":{given}}}', {"a": 1})
    assert score.misses == ("a (invalid numeric value)",)


def test_a_huge_difference_is_shown():
    score = score_of([number("a", tolerance=0.5)], {"a": 1e30}, {"a": 1})
    assert score.misses == ("a (outside tolerance: diff=1e+30, tolerance=0.5)",)


@pytest.mark.parametrize("large", [10**299, 17 * 10**307])
def test_huge_whole_numbers_can_be_compared(large):
    assert score_of([number("a", tolerance=1.0)], {"a": large}, {"a": large}).value == 1
    assert score_of([number("a", tolerance=1.0)], {"a": large}, {"a": -large}).value == 0


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


def test_types_count_and_null_is_a_value():
    checks = (exact("a"), exact("b"), exact("c"))
    score = score_of(checks, {"a": "1", "b": 2, "c": None}, {"a": 1, "b": 3, "c": {}})
    assert score.value == 0
    assert score.misses == (
        "a (type mismatch: got string, expected number)",
        "b (value mismatch)",
        "c (value mismatch)",
    )


def test_true_is_not_1():
    score = score_of([exact("a")], {"a": True}, {"a": 1})
    assert score.misses == ("a (type mismatch: got boolean, expected number)",)


def test_a_missing_required_field_is_a_miss():
    score = score_of([exact("a"), exact("b")], {"b": 1}, {"a": 1, "b": 1})
    assert score == Score(0.5, hits=("b",), misses=("a (required, missing)",), reasoning="1/2 fields matched")


def test_a_missing_optional_field_weighs_nothing():
    score = score_of([exact("a", required=False)], {}, {"a": 1})
    unknown = "No field of the answer counts: each weighs 0, or is optional and missing"
    assert score == Score(0.0, hits=("a: optional field missing",), reasoning="1/1 fields matched", unknown=unknown)


def test_all_or_nothing_asks_only_for_no_misses():
    checks = (exact("a"), exact("b", required=False))
    assert score_of(checks, {"a": 1}, {"a": 1, "b": 2}, "all_or_nothing").value == 1
    assert score_of(checks, {"a": 1, "b": 3}, {"a": 1, "b": 2}, "all_or_nothing").value == 0


def test_four_hits_and_four_misses_are_shown_and_all_are_counted():
    names = [f"f{index}" for index in range(12)]
    expected = dict.fromkeys(names, 1)
    candidate = {name: index % 2 for index, name in enumerate(names)}
    score = score_of([exact(name) for name in names], candidate, expected)
    assert score.hits == ("f1", "f3", "f5", "f7")
    assert score.misses == tuple(f"f{index} (value mismatch)" for index in (0, 2, 4, 6))
    assert score.reasoning == "6/12 fields matched"


@pytest.mark.parametrize("answer", ["no json", "", "{'a': 1}", '{"a": 1', '{"a": NaN}', "5", "} {"])
def test_an_answer_without_json_scores_0(answer):
    score = score_of([exact("a")], answer, {"a": 1})
    fault = "Failed to parse candidate answer as JSON"
    assert score == Score(0.0, misses=(fault,), unchecked=fault)


def test_an_answer_may_be_a_list():
    assert parse_answer('```json\n[{"a":1},{"a":2}]\n```') == [{"a": 1}, {"a": 2}]
    assert score_of([exact("[1].a")], [{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]).hits == ("[1].a",)


@pytest.mark.parametrize(
    "messages",
    [
        (),
        ({"role": "assistant"},),
        ({"role": "assistant", "content": None},),
        ({"role": "assistant", "content": "plain text"},),
        ({"role": "user", "content": {"a": 1}},),
    ],
)
def test_without_expected_data_the_score_is_0(messages):
    score = score_fields(FieldAccuracy(fields=(exact("a"),)), '{"a":1}', messages)
    unknown = "No expected data found in expected_messages"
    assert score == Score(0.0, misses=(unknown,), unknown=unknown)


def test_the_last_assistant_message_with_content_is_expected():
    messages = (
        {"role": "assistant", "content": {"a": 1}},
        {"role": "assistant", "content": '{"a": 2}'},
        {"role": "assistant", "content": ""},
    )
    assert expected_data(messages) == {"a": 2}


@pytest.mark.parametrize("last", ['```json\n{"a": 2}\n```', 'The order: {"a": 2}'])
def test_the_expected_data_may_have_text_around_it(last):
    messages = ({"role": "assistant", "content": {"a": 1}}, {"role": "assistant", "content": last})
    assert expected_data(messages) == {"a": 2}


def test_a_message_without_data_leaves_the_data_of_the_message_before():
    messages = ({"role": "assistant", "content": {"a": 1}}, {"role": "assistant", "content": "Anything else?"})
    assert expected_data(messages) == {"a": 1}


A_FILE = {"type": "file", "path": "ideal.json", "text": '{"a": 2}\n', "resolvedPath": "/e/ideal.json"}
A_PICTURE = {"type": "file", "path": "a.png", "mediaType": "image/png", "sha256": "0", "resolvedPath": "/e/a.png"}


@pytest.mark.parametrize(
    "content",
    [
        [A_FILE],
        [{"type": "text", "value": '{"a": 2}'}],
        ["The order:", A_FILE],
        [{"type": "text", "value": '{"a":'}, {"type": "text", "value": "2}"}],
        [A_PICTURE, {"type": "image", "value": "b.png"}, A_FILE],
        ['{"a": 2}'],
    ],
)
def test_the_expected_data_may_be_in_parts(content):
    assert expected_data(({"role": "assistant", "content": content},)) == {"a": 2}


@pytest.mark.parametrize(
    "content",
    [[], ["a", "b"], [{"a": 1}], [1], [{"type": "note", "value": "x"}], [{"type": "text", "value": "x"}, {"a": 1}]],
)
def test_a_list_that_is_not_of_parts_is_data(content):
    assert expected_data(({"role": "assistant", "content": content},)) == content


def test_parts_without_json_are_data_if_they_have_all_fields():
    blocks = [{"type": "text", "value": "Hello"}, {"type": "image", "value": "a.png"}]
    checks = [exact("[0].type"), exact("[1].type")]
    assert score_of(checks, blocks, blocks).value == 1
    assert score_of(checks, list(reversed(blocks)), blocks).value == 0
    with pytest.raises(EvaluatorError, match="hold no JSON"):
        score_of([*checks, exact("[2].type")], blocks, blocks)
    of_json = [{"type": "text", "value": '[{"type": "table"}]'}]
    assert score_of([exact("[0].type")], [{"type": "table"}], of_json).value == 1


def test_parts_without_data_leave_the_data_of_the_message_before():
    messages = (
        {"role": "assistant", "content": {"a": 1}},
        {"role": "assistant", "content": [{"type": "text", "value": "Anything else?"}]},
    )
    assert expected_data(messages) == {"a": 1}


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


@pytest.mark.parametrize("check", [exact("items.length"), number("items.length")])
def test_the_number_of_entries_can_be_compared(check):
    assert score_of([check], {"items": [3, 4]}, {"items": [1, 2]}).value == 1
    assert score_of([check], {"items": [1]}, {"items": [1, 2]}).value == 0


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


def test_a_time_with_an_offset_is_taken_to_utc():
    score = score_of([a_date("d")], {"d": "2025-01-15T23:30:00-05:00"}, {"d": "2025-01-15"})
    assert score.value == 0
    assert score.misses == ("d (date mismatch: got 2025-01-16, expected 2025-01-15)",)


@pytest.mark.parametrize("candidate", ["soon", 5, None, "2025.01.15", "01/02/2025", "Jan 15, 2025"])
def test_what_is_no_date_is_a_miss_that_cannot_be_negated(candidate):
    miss = "d (unparseable candidate date)"
    score = score_of([a_date("d")], {"d": candidate}, {"d": "2025-01-15"})
    assert score == Score(0.0, misses=(miss,), reasoning="0/1 fields matched", unchecked=miss)


@pytest.mark.parametrize(
    ("aggregation", "weight", "unchecked"),
    [
        ("weighted_average", 1.0, "d (unparseable candidate date)"),
        ("weighted_average", 0.0, None),
        ("all_or_nothing", 0.0, None),  # another field is wrong for certain
    ],
)
def test_a_value_that_cannot_be_read_leaves_open_only_what_it_decides(aggregation, weight, unchecked):
    checks = [a_date("d", weight=weight), exact("a")]
    score = score_of(checks, {"d": "soon", "a": 2}, {"d": "2025-01-15", "a": 1}, aggregation)
    assert score.unchecked == unchecked


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
        score_fields(config, answer, messages)
    assert raised.value.kind == "config"
    with pytest.raises(EvaluatorError, match=re.escape(fault)):
        config.prepare(Services(case=case))
    (doubt,) = config.doubts(case)
    assert fault in doubt


def test_an_expected_value_that_weighs_nothing_is_not_asked_for():
    checks = [a_date("d", weight=0), exact("a")]
    score = score_of(checks, {"d": "2025-01-15", "a": 1}, {"d": "n/a", "a": 1})
    assert (score.value, score.misses) == (1, ("d (unparseable expected date)",))
    with pytest.raises(EvaluatorError, match="the expected 'd' is the text 'n/a', and no date"):
        score_of(checks, {"d": "2025-01-15", "a": 1}, {"d": "n/a", "a": 1}, "all_or_nothing")


@pytest.mark.parametrize("check", [a_date("a", required=False), number("a", required=False)])
@pytest.mark.parametrize("expected", [None, ""])
def test_nothing_may_be_expected_of_an_optional_field(check, expected):
    assert score_of([check, exact("b")], {"b": 1}, {"a": expected, "b": 1}).value == 1
    assert score_of([check, exact("b")], {"a": "2025-01-15", "b": 1}, {"a": expected, "b": 1}).value == 0.5


@pytest.mark.parametrize("text", ["2025-01-05", " 2025-01-05T10:00:00.123Z", "20250105", "2025-01-06T01:00+02:00"])
def test_dates_of_iso_8601_are_read_without_formats(text):
    assert parse_date(text) == date(2025, 1, 5)


@pytest.mark.parametrize(
    "text", ["", "5", "2025", "2025-13-01", "2025-02-30", "0001-01-01T00:00:00+05:00", "2025-01-15 and"]
)
def test_other_texts_are_no_dates(text):
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *(
            ("2025.01.05", "YYYY.MM.DD"),
            ("05/Jan/2025", "DD/MMM/YYYY"),
            ("05JAN2025", "DDMMMYYYY"),
            ("5/1/25", "d/m/yy"),
        ),
        *(("January 5, 2025", "MMMM D, YYYY"), ("05.01.25", "dd.mm.yy"), ("2025-05-01", "YYYY-DD-MM")),
        *(
            ("5. Jan 2025, 10:30", "%d. %b %Y, %H:%M"),
            ("5 de Jan de 2025", "%d de %b de %Y"),
            ("2025-01-05", "DD/MM/YYYY"),
        ),
    ],
)
def test_a_date_in_a_listed_format_is_read_as_that_says(text, written):
    assert parse_date(text, ("DD_MM_YYYY", written)) == date(2025, 1, 5)


def test_the_first_format_that_fits_counts():
    assert parse_date("01/02/2025", ("DD/MM/YYYY", "MM/DD/YYYY")) == date(2025, 2, 1)
    assert parse_date("13/02/2025", ("MM/DD/YYYY", "DD/MM/YYYY")) == date(2025, 2, 13)
    assert parse_date("13/02/2025", ("MM/DD/YYYY",)) is None
    assert parse_date("02/2025", ("MM/YYYY",)) == date(2025, 2, 1)


@pytest.mark.parametrize(
    "written", ["EU", "ISO8601", "DD/MM", "YYYY", "Monday", "%Q", "%", "MM/MM/YYYY", "\ud800 YYYY"]
)
def test_a_format_that_is_none_is_an_error(written):
    with pytest.raises(ValidationError, match="MMMM, MMM, MM or M, DD or D, and separators"):
        a_date("d", written)


@given(st.text(max_size=12) | st.text("YyMmDd%/.- bBaAHT:", max_size=16))
def test_any_text_is_a_format_or_none(written):
    assert isinstance(is_date_format(written), bool)


@given(st.text(max_size=40))
def test_any_text_is_a_date_or_none(text):
    assert isinstance(parse_date(text), date | None)


@given(st.text(max_size=40))
def test_any_answer_can_be_scored(answer):
    assert score_of([exact("a")], answer, {"a": 1}).value in (0.0, 1.0)


def test_the_evaluator_scores_the_cases_answer():
    case = EvalCase(
        "c", "d", "/e", 1, "o", "q", (), (), expected_messages=({"role": "assistant", "content": {"a": 1}},)
    )
    context = Context(case, Prompt("q"), '{"a":1}')
    score = asyncio.run(FieldAccuracy(fields=(exact("a"),)).evaluate(context))
    assert score == Score(1.0, hits=("a",), reasoning="1/1 fields matched")
