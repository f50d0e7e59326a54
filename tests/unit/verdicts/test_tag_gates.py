"""Gates by tag."""

import pytest
from verdict_cases import case

from pytest_agentv.reports.gates import RateCheck, TagGate, check_tags, parse_tag_gates, unmatched_tags


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
        (["a: min_rat=1"], "unknown word 'min_rat=1': expected min_rate=… or tier=… (did you mean 'min_rate'?)"),
        (["a: min_rate=2"], "pass rate 2 is out of range: expected a number from 0 to 1"),
        (["a: min_rate=1 tier=critcal"], "unknown tier 'critcal': expected critical or advisory (did you mean"),
        (["a: min_rate=1", "a: min_rate=0.5"], "the tag 'a' has two gates"),
        (["a: min_rate=0.9 min_rate=0.1"], "'a: min_rate=0.9 min_rate=0.1': min_rate is given twice: expected once"),
        (["a: min_rate=1 tier=advisory tier=critical"], "tier is given twice: expected once"),
        (["a: x", "b: y"], "'b: y'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(lines, fault):
    with pytest.raises(ValueError) as error:
        parse_tag_gates(lines)
    assert fault in str(error.value)


def test_a_tag_that_no_case_has_is_told():
    gates = parse_tag_gates(["bookng: min_rate=1", "vat: min_rate=1"])
    assert unmatched_tags(gates, {"booking", "vat"}) == "no case has the tag 'bookng' (did you mean 'booking'?)"
    assert unmatched_tags(gates, {"bookng", "vat"}) is None


@pytest.mark.parametrize(
    ("rate", "min_rate", "text"),
    [
        (96 / 113, 0.85, "the pass rate 84.96 % of 9 cases is below 85.0 %"),
        (2099 / 2100, 1.0, "the pass rate 99.95 % of 9 cases is below 100.0 %"),
        (1 - 1e-8, 1.0, "the pass rate 99.999999 % of 9 cases is below 100.0 %"),
        (0.84996, 0.84999, "the pass rate 84.996 % of 9 cases is below 85.0 %"),
        (0.0004, 0.5, "the pass rate 0.04 % of 9 cases is below 50.0 %"),
        (0.85, 0.85, "the pass rate 85.0 % of 9 cases reaches 85.0 %"),
        (0.85 - 1e-10, 0.85, "the pass rate 85.0 % of 9 cases reaches 85.0 %"),
        (1.0, 0.0, "the pass rate 100.0 % of 9 cases reaches 0.0 %"),
        (0.0, -0.0, "the pass rate 0.0 % of 9 cases reaches 0.0 %"),
    ],
)
def test_a_rate_below_the_gate_does_not_look_like_it(rate, min_rate, text):
    assert RateCheck("gate::x", rate, min_rate, 9).text == text


def test_only_judged_cases_with_the_tag_count():
    cases = [case("a", 5, tags=("x",)), case("b", 3, tags=("x", "y")), case("c", 0, tags=("x",)).replace(scores=())]
    x, y = check_tags(parse_tag_gates(["x: min_rate=0.8", "y: min_rate=0.8"]), cases)
    assert (x.name, x.rate, x.n, x.is_reached) == ("gate::x", pytest.approx(0.8), 2, True)
    assert (y.rate, y.is_reached) == (0.6, False)
    [none] = check_tags(parse_tag_gates(["x: min_rate=0.6"]), [case("a", 5, tags=("x",)), case("b", 0, tags=("x",))])
    assert (none.rate, none.n, none.is_reached) == (0.5, 2, False)
    assert y.text == "the pass rate 60.0 % of 1 case is below 80.0 %"
