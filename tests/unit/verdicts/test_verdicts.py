"""Pairs, verdicts and gates."""

import pytest
from verdict_cases import case, run_of

from pytest_agentv.reports.gates import TagGate, parse_tag_gates, rate_gate, suspects_of
from pytest_agentv.reports.judged_cases import Confirmation, pair_cases
from pytest_agentv.reports.reading import baseline_of
from pytest_agentv.reports.verdict import compare_with_baseline, pass_rate_of

NAME = "agentv.baseline.jsonl"


def judged(new, old, *, margin=0.05, is_confirming=True, **baseline):
    return compare_with_baseline(
        new, baseline_of(old).replace(**baseline), NAME, margin=margin, is_confirming=is_confirming
    )


def compare_runs(new, old):
    return judged(new, old, is_confirming=False).comparison


def confirmed(eval_id, passes, again, judged=10):
    return case(eval_id, passes, confirmation=Confirmation(10, judged, again))


@pytest.mark.parametrize(("new", "old", "is_sure"), [(10, 10, True), (40, 9, False), (9, 40, False)])
def test_both_sides_need_many_answers_to_need_no_confirmation(new, old, is_sure):
    [pair] = pair_cases([case("a", 0, new)], [case("a", old, old)]).pairs
    assert (pair.is_sure, pair.is_suspect) == (is_sure, not is_sure)


@pytest.mark.parametrize("suspect", [case("c0", 0), confirmed("c0", 0, 0, judged=0)])
def test_a_suspect_that_could_not_be_asked_again_is_judged_by_the_answers_of_the_run(suspect):
    statistics = judged([suspect, *run_of([5] * 3)[1:]], run_of([5] * 3))
    assert [each.case.name for each in statistics.comparison.broken] == ["evals/a.yaml::c0"]
    assert statistics.contract()["unconfirmed"] == ["evals/a.yaml::c0"]
    assert judged([suspect], [case("c0", 5)], is_confirming=False).comparison.unconfirmed == ()
    few = judged([suspect, *run_of([5] * 48)[1:]], run_of([5] * 48))
    assert few.comparison.broken == [], "among 48 cases five answers cannot tell it from chance"


@pytest.mark.parametrize(
    ("passes", "fresh", "is_broken", "is_unconfirmed"),
    [
        (0, (0, 1), True, True),  # the other nine could have told more than this one
        (0, (1, 2), True, True),
        (0, (0, 9), True, False),  # nine tell as much as those of the run
        (0, (7, 8), False, False),  # the other two could not make it look broken
        (4, (0, 9), True, False),
    ],
)
def test_an_outage_while_a_suspect_is_asked_again_does_not_clear_it(passes, fresh, is_broken, is_unconfirmed):
    asked = case("c0", passes, 9, confirmation=Confirmation(10, fresh[1], fresh[0]))
    statistics = judged([asked, *run_of([9] * 8, 9)[1:]], run_of([9] * 8, 9))
    assert bool(statistics.comparison.broken) == is_broken
    assert bool(statistics.comparison.unconfirmed) == is_unconfirmed


@pytest.mark.parametrize(("cases", "fresh", "is_undecided"), [(48, 5, True), (3, 7, False), (48, 10, False)])
def test_a_suspect_is_undecided_if_an_outage_left_too_few_answers_for_so_many_cases(cases, fresh, is_undecided):
    new, old = [confirmed("c0", 0, 0, judged=fresh), *run_of([5] * cases)[1:]], run_of([5] * cases)
    statistics = judged(new, old)
    assert bool(statistics.comparison.broken) != is_undecided
    assert bool(statistics.comparison.unconfirmed) == is_undecided


def test_ten_answers_on_both_sides_need_no_confirmation():
    new, old = run_of([2, 10, 10], 10), run_of([10, 10, 10], 10)
    assert list(suspects_of(new, baseline_of(old), 10)) == []
    assert len(judged(new, old).comparison.broken) == 1


def test_suspects_get_as_many_answers_as_can_find_one_broken_case():
    def found(cases, wanted=10):
        return list(suspects_of(run_of([0] + [5] * (cases - 1)), baseline_of(run_of([5] * cases)), wanted))

    assert [(each.eval_id, answers) for each, answers in found(48)] == [("c0", 10)]
    assert found(1000)[0][1] == 14
    assert list(suspects_of([confirmed("c0", 0, 0)], baseline_of(run_of([5])), 10)) == [], "asked already"


def test_no_answer_is_paid_for_that_can_confirm_nothing():
    new, old = run_of([0] + [20] * 29, 20), run_of([1] * 30, 1)
    assert list(suspects_of(new, baseline_of(old), 10)) == []
    assert judged(new, old).comparison.broken == []


def forgetting(cases, planned):
    """Return a run of which each second answer fails, and ends its case."""
    return [case(f"c{number}", 1, 2).replace(stopped="fail", asked=planned) for number in range(cases)]


@pytest.mark.parametrize(("planned", "most"), [(2, 0.5), (3, 2 / 3), (10, 0.9)])
def test_no_rate_is_higher_than_all_planned_answers_could_make_it(planned, most):
    cases = forgetting(100, planned)
    assert pass_rate_of(cases).mean == pytest.approx(most)
    assert rate_gate("gate::x", 1.0, cases, "run").is_red
    comparison = compare_runs(cases, run_of([2] * 100, 2))
    assert (comparison.difference.estimate.mean, comparison.change) == (pytest.approx(most - 1), "regressed")
    assert (comparison.worse, comparison.cases[0].figures.delta) == (100, pytest.approx(most - 1))
    back = compare_runs(run_of([2] * 100, 2), cases)
    assert back.difference.estimate.mean == pytest.approx(1 - most), "each side has a rate that is possible"


def test_no_rate_is_lower_than_all_planned_answers_could_make_it():
    assert pass_rate_of([each.replace(stopped="pass") for each in forgetting(100, 2)]).mean == pytest.approx(0.5)


def test_each_set_of_cases_has_a_rate_of_its_own():
    forgets = [each.replace(eval_file="evals/b.yaml", tags=("b",)) for each in forgetting(100, 2)]
    firsts = [case(f"d{number}", 0, 1).replace(stopped="fail", asked=2) for number in range(100)]
    assert pass_rate_of([*forgets, *firsts]).mean == pytest.approx(0.5), "those of the estimates"
    assert "the pass rate 50.0 % of 100 cases" in rate_gate("gate::b", 0.6, forgets, "run").reason


def test_a_case_that_several_targets_were_asked_is_one_unit():
    passes = [5, 5, 4, 5, 0, 5]
    both = [each.replace(target=target) for target in ("small", "large") for each in run_of(passes)]
    rate, alone = pass_rate_of(both), pass_rate_of(run_of(passes))
    assert (rate.n, rate.units) == (12, 6)
    assert rate.interval.low == pytest.approx(alone.interval.low), "equal answers of another target tell nothing"
    assert compare_runs(both, both).difference.estimate.units == 6


def test_rounding_is_no_change():
    old = [case(name, 0, 1, scores=(0.2,), threshold=None) for name in "abc"]
    new = [
        case(name, 0, 3, scores=scores, threshold=None)
        for name, scores in zip("ab", [(0.1, 0.2, 0.3)] * 2, strict=True)
    ]
    comparison = compare_runs([*new, case("c", 0, 1, scores=(0.2 + 1e-8,), threshold=None)], old)
    assert [each.figures.delta for each in comparison.cases] == [0.0, 0.0, pytest.approx(1e-8)]
    assert (comparison.worse, comparison.better, comparison.difference.differing) == (0, 1, 1)


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
