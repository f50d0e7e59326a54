"""Gates by tag."""

import pytest

from pytest_agentv.reports.gates import RateCheck, TagGate, parse_tag_gates


def test_one_gate_a_line():
    assert parse_tag_gates(["booking: min_rate=0.9 tier=critical", "", "small talk: tier=advisory min_rate=.7"]) == (
        TagGate("booking", 0.9, "critical"),
        TagGate("small talk", 0.7, "advisory"),
    )
    assert parse_tag_gates(["a: min_rate=1"]) == (TagGate("a", 1.0, "critical"),)
    assert str(parse_tag_gates(["a: min_rate=-0.0"])[0].min_rate) == "0.0"


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["booking"], "'booking': expected `<tag>: min_rate=<0 to 1> tier=<critical or advisory>`"),
        (["a: tier=critical"], "'a: tier=critical': min_rate is missing"),
        (["a: min_rate=1", "a: min_rate=0.5"], "the tag 'a' has two gates"),
        (["a: min_rate=0.9 min_rate=0.1"], "'a: min_rate=0.9 min_rate=0.1': min_rate is given twice: expected once"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(lines, fault):
    with pytest.raises(ValueError) as error:
        parse_tag_gates(lines)
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("rate", "min_rate", "text"),
    [
        (96 / 113, 0.85, "the pass rate 84.96 % of 9 cases is below 85.0 %"),
        (2099 / 2100, 1.0, "the pass rate 99.95 % of 9 cases is below 100.0 %"),
        (1 - 1e-8, 1.0, "the pass rate 99.999999 % of 9 cases is below 100.0 %"),
    ],
)
def test_a_rate_below_the_gate_does_not_look_like_it(rate, min_rate, text):
    assert RateCheck("gate::x", rate, min_rate, 9).text == text
