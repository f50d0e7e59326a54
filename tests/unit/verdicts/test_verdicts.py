"""Pairs, verdicts and gates."""

import pytest
from verdict_cases import case, run_of

from pytest_agentv.reports.baseline import baseline_of
from pytest_agentv.reports.gates import GateOutcome, baseline_gate, gates_contract, rate_check, rate_gate, suspects_of
from pytest_agentv.reports.judged_cases import Confirmation, compare_cases, deltas_of, pair_cases, shared_key
from pytest_agentv.reports.verdict import (
    Part,
    compare_runs,
    compare_with_baseline,
    parts_of,
    pass_rate_of,
    run_statistics,
)

NAME = "agentv.baseline.jsonl"


def judged(new, old, *, margin=0.05, is_confirming=True, **baseline):
    return compare_with_baseline(
        new, baseline_of(old).replace(**baseline), NAME, margin=margin, is_confirming=is_confirming
    )


def confirmed(eval_id, passes, again, judged=10):
    return case(eval_id, passes, confirmation=Confirmation(10, judged, again))


def test_pairs_are_made_by_file_id_and_target():
    new = [case("a", 5), case("a", 4).replace(target="claude"), case("b", 3), case("d", 2)]
    old = [case("a", 1).replace(target="claude"), case("a", 2), case("c", 0), case("d", 1).replace(case_hash="other")]
    pairing = pair_cases(new, old)
    assert [(pair.new.passes, pair.old.passes) for pair in pairing.pairs] == [(5, 2), (4, 1)]
    assert [each.eval_id for each in pairing.new] == ["b"]
    assert [each.eval_id for each in pairing.gone] == ["c"]
    assert [each.eval_id for each in pairing.changed] == ["d"]


def test_answers_count_as_passes_and_as_scores_only_where_no_threshold_is_known():
    new, old = case("a", 1, scores=(0.9, 0.4), threshold=0.8), case("a", 0, scores=(0.6, 0.1), threshold=0.8)
    assert (new.outcomes, new.value) == ((1.0, 0.0), 0.5)
    assert deltas_of(pair_cases([new], [old]).pairs) == [0.5]
    unknown = old.replace(threshold=None)
    assert unknown.outcomes == (0.6, 0.1)
    assert deltas_of(pair_cases([new], [unknown]).pairs) == [pytest.approx(0.3)]


def test_rounding_is_no_change():
    """The report called two of two cases worse, of which its own figure said that none was."""
    old = [case(name, 0, 1, scores=(0.2,), threshold=None) for name in "abc"]
    new = [
        case(name, 0, 3, scores=scores, threshold=None)
        for name, scores in zip("ab", [(0.1, 0.2, 0.3)] * 2, strict=True)
    ]
    comparison = compare_runs([*new, case("c", 0, 1, scores=(0.2 + 1e-8,), threshold=None)], old)
    assert [each.delta for each in comparison.cases] == [0.0, 0.0, pytest.approx(1e-8)]
    assert (comparison.worse, comparison.better, comparison.difference.differing) == (0, 1, 1)


def test_a_case_that_was_skipped_is_not_gone():
    old = [case("a", 5), case("b", 5), case("c", 5)]
    pairing = pair_cases([case("a", 5)], old, skipped=old[1:2])
    assert ([each.eval_id for each in pairing.skipped], [each.eval_id for each in pairing.gone]) == (["b"], ["c"])


@pytest.mark.parametrize(("new", "old", "is_sure"), [(10, 10, True), (40, 9, False), (9, 40, False)])
def test_both_sides_need_many_answers_to_need_no_confirmation(new, old, is_sure):
    [pair] = pair_cases([case("a", 0, new)], [case("a", old, old)]).pairs
    assert (pair.is_sure, pair.is_suspect) == (is_sure, not is_sure)


@pytest.mark.parametrize("changes", [{"case_hash": "x"}, {"grading_hash": "x"}, {"threshold": 0.5}])
def test_a_case_that_changed_is_not_compared(changes):
    assert pair_cases([case("a", 5).replace(**changes)], [case("a", 5)]).pairs == ()


def test_files_of_other_origin_and_of_other_targets_are_matched_by_what_both_hold():
    new, old = [case("a", 5).replace(target="claude")], [case("a", 4)]
    assert len(pair_cases(new, old, shared_key(new, old)).pairs) == 1
    foreign = [case("a", 4).replace(eval_file=None, name="a")]
    assert len(pair_cases(new, foreign, shared_key(new, foreign)).pairs) == 1


def test_one_broken_case_among_48_is_found_once_it_is_confirmed():
    new = [confirmed("c0", 0, 0), *run_of([5] * 48)[1:]]
    statistics = judged(new, run_of([5] * 48))
    [broken] = statistics.comparison.broken
    assert (broken.case, broken.p) == ("evals/a.yaml::c0", pytest.approx(1 / 3003))
    assert broken.q == pytest.approx(48 / 3003)
    assert statistics.verdict == "broken"


def test_a_suspect_that_passes_when_it_is_asked_again_is_not_broken():
    statistics = judged([confirmed("c0", 1, 9), *run_of([5] * 10)[1:]], run_of([5] * 10))
    assert statistics.comparison.broken == ()


def test_with_confirmation_nothing_but_a_suspect_can_be_broken():
    new, old = run_of([2] * 10), run_of([5] * 10)  # p is 0.083, and so is q
    assert judged(new, old).comparison.broken == ()
    assert len(judged(new, old, is_confirming=False).comparison.broken) == 10


@pytest.mark.parametrize("suspect", [case("c0", 0), confirmed("c0", 0, 0, judged=0)])
def test_a_suspect_that_could_not_be_asked_again_is_judged_by_the_answers_of_the_run(suspect):
    """An eval in Python, a target of a fixture, an outage: none of them turns a broken case green."""
    statistics = judged([suspect, *run_of([5] * 3)[1:]], run_of([5] * 3))
    assert [each.case for each in statistics.comparison.broken] == ["evals/a.yaml::c0"]
    assert statistics.contract()["unconfirmed"] == ["evals/a.yaml::c0"]
    assert judged([suspect], [case("c0", 5)], is_confirming=False).comparison.unconfirmed == ()
    few = judged([suspect, *run_of([5] * 48)[1:]], run_of([5] * 48))
    assert few.comparison.broken == (), "among 48 cases five answers cannot tell it from chance"


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
    """With one fresh answer of ten, a case that failed nine times out of nine was called chance."""
    asked = case("c0", passes, 9, confirmation=Confirmation(10, fresh[1], fresh[0]))
    statistics = judged([asked, *run_of([9] * 8, 9)[1:]], run_of([9] * 8, 9))
    assert bool(statistics.comparison.broken) == is_broken
    assert bool(statistics.comparison.unconfirmed) == is_unconfirmed


def test_a_run_that_retries_errors_asks_suspects_whose_fresh_answers_could_not_be_had():
    old = baseline_of(run_of([5] * 3))
    for answers, asked in ((0, ["c0"]), (10, [])):
        new = [confirmed("c0", 0, 0, judged=answers), *run_of([5] * 3)[1:]]
        assert [each.eval_id for each, _ in suspects_of(new, old, 10, retries=True)] == asked
        assert list(suspects_of(new, old, 10)) == []


@pytest.mark.parametrize(("cases", "fresh", "is_undecided"), [(48, 5, True), (3, 7, False), (48, 10, False)])
def test_a_suspect_is_undecided_if_an_outage_left_too_few_answers_for_so_many_cases(cases, fresh, is_undecided):
    """Five failures of five fresh answers were called chance among 48 cases, and no later run asked again."""
    new, old = [confirmed("c0", 0, 0, judged=fresh), *run_of([5] * cases)[1:]], run_of([5] * cases)
    statistics = judged(new, old)
    assert bool(statistics.comparison.broken) != is_undecided
    assert bool(statistics.comparison.unconfirmed) == is_undecided
    assert bool(list(suspects_of(new, baseline_of(old), 10, retries=True))) == is_undecided


def test_ten_answers_on_both_sides_need_no_confirmation():
    new, old = run_of([2, 10, 10], 10), run_of([10, 10, 10], 10)
    assert list(suspects_of(new, baseline_of(old), 10)) == []
    assert len(judged(new, old).comparison.broken) == 1


def test_single_flips_are_never_broken():
    new, old = run_of([0] + [1] * 30, 1), run_of([1] * 31, 1)
    for is_confirming in (True, False):
        assert judged(new, old, is_confirming=is_confirming).comparison.broken == ()


def test_suspects_get_as_many_answers_as_can_find_one_broken_case():
    def found(cases, wanted=10):
        return list(suspects_of(run_of([0] + [5] * (cases - 1)), baseline_of(run_of([5] * cases)), wanted))

    assert [(each.eval_id, answers) for each, answers in found(48)] == [("c0", 10)]
    assert found(1000)[0][1] == 14
    assert list(suspects_of([confirmed("c0", 0, 0)], baseline_of(run_of([5])), 10)) == [], "asked already"


def test_no_answer_is_paid_for_that_can_confirm_nothing():
    """A baseline of one answer for each case, and a run of twenty: 30 cases took 299 more answers for one suspect."""
    new, old = run_of([0] + [20] * 29, 20), run_of([1] * 30, 1)
    assert list(suspects_of(new, baseline_of(old), 10)) == []
    assert judged(new, old).comparison.broken == ()


def test_the_most_urgent_comes_first():
    old = [*run_of([5] * 20), case("gone", 5)]
    run = run_of([5] * 9 + [3] * 11)
    new = [confirmed("c0", 0, 0), *run[1:19], run[19].replace(scores=(), is_error=True)]
    statistics = judged(new, old)
    assert statistics.verdicts == ("stale", "errors", "broken", "regressed")
    assert statistics.reasons[:3] == (
        "stale baseline: 1 case is gone",
        "1 case could not be judged",
        "1 case is broken",
    )
    assert statistics.reasons[3].endswith("if nothing changed, write the baseline anew (--agentv-update-baseline)")


@pytest.mark.parametrize(
    ("new", "verdict", "reason"),
    [
        ([5] * 50, "inconclusive", "cannot tell: a drop of 10 points would be seen in 4 of 5 runs"),
        ([5] * 30 + [3] * 20, "regressed", "regressed: -16.0 points"),
    ],
)
def test_the_change_of_a_run(new, verdict, reason):
    statistics = judged(run_of(new), run_of([5] * 50))
    assert statistics.verdict == verdict
    assert statistics.reasons[0].startswith(reason)


def test_a_run_that_is_better_and_one_that_is_not_worse():
    better = judged(run_of([5] * 40), run_of([2] * 20 + [5] * 20))
    assert better.verdict == "improved"
    assert better.reasons == ("improved: +30.0 points; update the baseline (--agentv-update-baseline)",)
    assert judged(run_of([5] * 100), run_of([5] * 100)).verdict == "not worse"


def test_two_equal_runs_of_few_cases_are_never_safe_to_ship():
    statistics = judged(run_of([5] * 4), run_of([5] * 4))
    interval = statistics.comparison.difference.estimate.interval
    assert statistics.verdict == "inconclusive"
    assert (interval.low, interval.high) == pytest.approx((-0.4899, 0.4899), abs=1e-4)


def test_where_nothing_matches_the_baseline_is_stale():
    statistics = judged([case("a", 5)], [case("b", 5)])
    assert (statistics.verdict, statistics.reasons) == ("stale", ("stale baseline: no case of it is comparable",))


def test_an_outage_of_all_cases_does_not_make_the_baseline_stale():
    down = [each.replace(scores=(), is_error=True) for each in run_of([5] * 3)]
    assert judged(down, run_of([5] * 3)).verdicts == ("errors",)
    assert judged(down[:2], run_of([5] * 3)).reasons == (
        "stale baseline: 1 case is gone",
        "2 cases could not be judged",
    )


def test_another_judge_is_not_comparable():
    reason = "not comparable, the judge changed; write the baseline anew (--agentv-update-baseline)"
    old = baseline_of([case("a", 5, judge="gpt@2"), case("b", 5, judge="claude@1")])
    new = [confirmed("a", 0, 0).replace(judge="gpt@1"), case("b", 5, judge="claude@1")]
    for cases in (new, [new[0].replace(grading_hash="of the other judge"), new[1]], [new[0].replace(grading_hash="x")]):
        statistics = compare_with_baseline(cases, old, NAME, margin=0.05, is_confirming=True)
        assert reason in statistics.reasons
        assert statistics.comparison.broken == ()
        assert baseline_gate(statistics, "cases").is_red
        assert list(suspects_of(cases, old, 10)) == [], "nothing is paid for"
    assert statistics.reasons[0].startswith("stale baseline: 1 case is gone")


def test_the_judge_of_a_new_case_changes_nothing():
    old = baseline_of([case("a", 5, judge="gpt@2"), case("b", 5, judge="claude@1")])
    new = [case("a", 5, judge="gpt@2"), case("b", 5, judge="claude@1"), case("c", 5, judge="gemini@1")]
    assert not compare_with_baseline(new, old, NAME, margin=0.05, is_confirming=True).comparison.judge_changed
    skipped = compare_with_baseline(new[:1], old, NAME, skipped=old.cases[1:], margin=0.05, is_confirming=True)
    assert not skipped.comparison.judge_changed


def test_where_only_the_judge_keeps_all_cases_from_being_compared_that_is_said():
    new = [case("a", 5, judge="gpt@1", grading_hash="of gpt 1")]
    assert judged(new, [case("a", 5)], judge="gpt@2").verdicts == ("judge changed",)


@pytest.mark.parametrize(
    ("gate", "red"),
    [("cases", "broken stale regressed"), ("run", "broken stale regressed"), ("off", ""),
     ("strict", "broken stale regressed inconclusive")],
)  # fmt: skip
def test_what_is_red_under_which_gate(gate, red):
    runs = {
        "broken": (  # 5/5 -> 0/5, again 0/10
            [confirmed("c0", 0, 0), *run_of([5] * 6)[1:]], run_of([5] * 6)),
        "stale": ([case("c0", 5), case("c1", 5)], run_of([5] * 3)),
        "regressed": (run_of([3] * 20), run_of([5] * 20)),
        "inconclusive": (run_of([5] * 4), run_of([5] * 4)),
        "not worse": (run_of([5] * 200), run_of([5] * 200)),
        "improved": (run_of([5] * 40), run_of([2] * 40)),
    }  # fmt: skip
    for verdict, (new, old) in runs.items():
        statistics = judged(new, old)
        assert statistics.verdict == verdict
        assert baseline_gate(statistics, gate).is_red == (verdict in red.split())


def test_errors_keep_a_gate_red_and_show_what_they_could_have_been():
    new = [*run_of([5] * 46), *(each.replace(scores=(), is_error=True) for each in run_of([5] * 48)[46:])]
    statistics = judged(new, run_of([4] * 48))
    assert baseline_gate(statistics, "run").is_red
    assert statistics.comparison.bounds_with_errors == pytest.approx(((46 * 0.2 - 1.6) / 48, (46 * 0.2 + 0.4) / 48))


def test_what_an_earlier_run_could_not_judge_may_have_been_anything():
    """`agentv compare OLD NEW --statistics`: of three cases one, or neither, of the runs knows the score."""
    new, old = run_of([5] * 10), run_of([5] * 10)
    for run, missing in ((old, (0, 1)), (new, (1, 2))):
        for place in missing:
            run[place] = run[place].replace(scores=(), passes=0, is_error=True)
    comparison = compare_runs(new, old)
    assert len(comparison.pairing.errors) == 3
    assert comparison.bounds_with_errors == pytest.approx((-0.2, 0.2))
    only_old = compare_runs(run_of([5] * 10), old)
    assert only_old.bounds_with_errors == pytest.approx((0.0, 0.2))


def test_the_pass_rate_of_a_run():
    rate = pass_rate_of(run_of([5] * 34 + [3] * 11 + [0] * 3))
    assert (rate.always, rate.flaky, rate.never, rate.n, rate.units) == (34, 11, 3, 48, 48)
    assert rate.pass_at == pytest.approx(45 / 48)
    assert rate.pass_all == pytest.approx(34 / 48)
    assert rate.low < rate.again_low < rate.mean < rate.again_high < rate.high


def test_an_early_stop_corrects_the_rate_and_leaves_no_second_interval():
    stopped = case("a", 3, 4).replace(stopped="fail", asked=5)
    rate = pass_rate_of([stopped, case("b", 0, 1).replace(stopped="fail", asked=5), *run_of([5] * 5)])
    assert rate.mean == pytest.approx((1 + 0 + 5) / 7), "s / (n - 1)"
    assert (rate.again_low, rate.pass_at) == (None, None)
    assert pass_rate_of([stopped, stopped]).pass_at is None
    assert pass_rate_of([stopped, case("b", 4, 4)]).pass_at is None


def forgetting(cases, planned):
    """Return a run of which each second answer fails, and ends its case."""
    return [case(f"c{number}", 1, 2).replace(stopped="fail", asked=planned) for number in range(cases)]


@pytest.mark.parametrize(("planned", "most"), [(2, 0.5), (3, 2 / 3), (10, 0.9)])
def test_no_rate_is_higher_than_all_planned_answers_could_make_it(planned, most):
    """Each estimate is 1 of 1, because the last answer decided."""
    cases = forgetting(100, planned)
    assert pass_rate_of(cases).mean == pytest.approx(most)
    assert not rate_check("gate::x", 1.0, cases).is_reached
    comparison = compare_runs(cases, run_of([2] * 100, 2))
    assert (comparison.difference.estimate.mean, comparison.change) == (pytest.approx(most - 1), "regressed")
    assert (comparison.worse, comparison.cases[0].delta) == (100, pytest.approx(most - 1))
    back = compare_runs(run_of([2] * 100, 2), cases)
    assert back.difference.estimate.mean == pytest.approx(1 - most), "each side has a rate that is possible"


def test_no_rate_is_lower_than_all_planned_answers_could_make_it():
    """Each estimate is 0 of 1: a pass is enough, and the second answer is one."""
    assert pass_rate_of([each.replace(stopped="pass") for each in forgetting(100, 2)]).mean == pytest.approx(0.5)


def test_each_set_of_cases_has_a_rate_of_its_own():
    """100 of 200 answers fail in one file. Others fail at first, so that the rate of all is possible."""
    forgets = [each.replace(eval_file="evals/b.yaml", tags=("b",)) for each in forgetting(100, 2)]
    firsts = [case(f"d{number}", 0, 1).replace(stopped="fail", asked=2) for number in range(100)]
    assert pass_rate_of([*forgets, *firsts]).mean == pytest.approx(0.5), "those of the estimates"
    assert rate_check("gate::b", 0.6, forgets).rate == pytest.approx(0.5)
    pairs = pair_cases([*forgets, *firsts], [each.replace(scores=(1.0, 1.0), passes=2) for each in [*forgets, *firsts]])
    assert {part.name: (part.mean, part.delta) for part in parts_of(pairs.pairs)}["tag b"] == pytest.approx((0.5, -0.5))


def test_a_rate_that_cannot_be_moves_no_further_than_it_must():
    """The first case makes up for one of the others: none of its three answers that were not asked has to fail."""
    first = case("b", 0, 1).replace(stopped="fail", asked=4)
    assert pass_rate_of([first, *forgetting(1, 2), *run_of([2] * 18, 2)]).mean == pytest.approx((0 + 1 + 18) / 20)
    moved = pass_rate_of([first, *forgetting(4, 2), *run_of([2] * 15, 2)])
    assert moved.mean == pytest.approx((0.75 + 4 * 0.5 + 15) / 20)


def test_cases_of_a_group_are_one_unit():
    grouped = [each.replace(group="g" if number < 3 else None) for number, each in enumerate(run_of([5] * 5))]
    assert pass_rate_of(grouped).units == 3
    assert pass_rate_of([each.replace(group="g") for each in grouped]).low is None, "one unit has no interval"


def test_a_case_that_several_targets_were_asked_is_one_unit():
    passes = [5, 5, 4, 5, 0, 5]
    both = [each.replace(target=target) for target in ("small", "large") for each in run_of(passes)]
    rate, alone = pass_rate_of(both), pass_rate_of(run_of(passes))
    assert (rate.n, rate.units) == (12, 6)
    assert (rate.low, rate.high) == pytest.approx((alone.low, alone.high)), (
        "equal answers of another target tell nothing"
    )
    assert compare_runs(both, both).difference.estimate.units == 6


def test_no_judged_case_has_no_rate():
    statistics = run_statistics([case("a", 0).replace(scores=(), is_error=True)])
    assert statistics.rate is None
    assert statistics.contract() == {
        "verdict": "no baseline",
        "reasons": [],
        "level": 0.95,
        "errors": ["evals/a.yaml::a"],
    }


def test_the_contract_has_the_keys_that_scripts_read():
    contract = judged(run_of([5] * 6), run_of([5] * 6), sha256="abc").contract()
    keys = (
        "verdict reasons n units mean low high level delta delta_low delta_high differ p_exact least_drop broke gone "
    )
    assert set((keys + "changed new errors baseline_sha256").split()) <= set(contract)
    assert contract["verdict"] == "inconclusive"
    assert contract["cases"][0] == {
        "case": "evals/a.yaml::c0",
        "state": "compared",
        "target": "azure",
        "passes": 5,
        "judged": 5,
        "delta": 0,
        "p": 1,
        "q": 1,
        "broke": False,
    }


def test_each_name_in_the_contract_identifies_a_case():
    """It named only the id, which cases of several targets have."""
    broken = case("a", 0, target="gpt"), case("a", 5, target="claude"), case("b", 0)
    down = case("e", 0, target="gpt").replace(scores=(), is_error=True)
    old = [case(name, 5, target=target) for name in "ae" for target in ("gpt", "claude")]
    statistics = judged([*broken, down, case("e", 5, target="new")], [*old, case("b", 5)])
    told = statistics.contract()
    assert {key: told[key] for key in ("broke", "gone", "new", "errors", "unconfirmed")} == {
        "broke": ["evals/a.yaml::a (gpt)", "evals/a.yaml::b"],
        "gone": ["evals/a.yaml::e (claude)"],
        "new": ["evals/a.yaml::e (new)"],
        "errors": ["evals/a.yaml::e (gpt)"],
        "unconfirmed": ["evals/a.yaml::a (gpt)", "evals/a.yaml::b"],
    }
    details = baseline_gate(statistics, "cases").details
    assert "gone: evals/a.yaml::e (claude)" in details
    assert [each for each in details if each.startswith("broken: evals/a.yaml::a (gpt) (q 0.")]


def test_all_states_of_cases_are_told():
    pairing = pair_cases(
        [case("a", 5), case("n", 5), case("e", 0).replace(scores=(), is_error=True), case("x", 5)],
        [case("a", 5), case("g", 5), case("e", 5), case("x", 5).replace(case_hash="other")],
    )
    states = {each.case.rpartition("::")[2]: each.state for each in compare_cases(pairing, is_confirming=True)}
    assert states == {"a": "compared", "n": "new", "e": "error", "x": "changed", "g": "gone"}


@pytest.mark.parametrize(
    ("min_rate", "tier", "gate", "is_red"),
    [
        (0.9, "critical", "run", False),
        (0.91, "critical", "run", True),
        (0.91, "advisory", "run", False),
        (0.91, "critical", "off", False),
    ],
)
def test_a_rate_that_must_be_reached(min_rate, tier, gate, is_red):
    outcome = rate_gate(rate_check("gate::x", min_rate, run_of([5, 4]), tier), gate)
    assert (outcome.is_red, outcome.is_told) == (is_red, min_rate > 0.9)


@pytest.mark.parametrize(
    ("outcome", "more"),
    [
        (GateOutcome("gate::x", True, "is below", is_told=True), {"failed": True}),
        (GateOutcome("gate::x", False, "is below", is_told=True), {"failed": False, "not_enforced": True}),
        (GateOutcome("gate::x", False, "is below"), {"failed": False}),
    ],
)
def test_the_contract_says_which_gates_found_something_and_failed(outcome, more):
    gate = {"name": "gate::x", "reason": "is below", **more}
    assert gates_contract([outcome], "cases", {"b", "a"}) == {"gate": "cases", "gates": [gate]}
    assert gates_contract([outcome], "run", {"b", "a"})["judged_with_run"] == ["a", "b"]
    assert gates_contract([], "run", {"a"}) == {}


@pytest.mark.parametrize(("delta", "q", "stands_out"), [(-0.1, 0.1, True), (-0.1, 0.11, False), (0.1, 0.0, False)])
def test_a_part_stands_out_where_it_got_worse_beyond_chance(delta, q, stands_out):
    assert Part("tag a", 2, 0.5, delta, q).stands_out is stands_out


def test_parts_of_two_cases_have_a_row_if_they_are_not_all():
    new = [case("a", 5, tags=("x",)), case("b", 4, tags=("x", "y"))]
    old = [case("a", 5), case("b", 5)]
    parts = parts_of(pair_cases(new, old).pairs)
    assert [(part.name, part.n, part.mean) for part in parts] == [("file evals/a.yaml", 2, 0.9), ("tag x", 2, 0.9)]
    assert parts_of(pair_cases([each.replace(tags=()) for each in new], old).pairs) == []


@pytest.mark.parametrize("margin", [0.0, 5e-324, 1e-200, 1e-9])
def test_no_number_of_cases_shows_a_drop_of_nothing(margin):
    """The square of a tiny drop overflowed, after all answers of a run were paid for."""
    assert compare_runs(run_of([5, 4, 3]), run_of([5, 5, 5]), margin=margin).cases_needed is None
    assert compare_runs(run_of([5, 4, 3]), run_of([5, 5, 5]), margin=1.1e-9).cases_needed > 1e15


def test_a_rate_of_nothing_is_not_reached():
    outcome = rate_gate(rate_check("gate::x", 0.5, [case("a", 0).replace(scores=())]), "run")
    assert (outcome.is_red, outcome.reason) == (True, "no case could be judged; 50.0 % must pass")


def test_nothing_is_asked_again_where_another_judge_says_what_passes():
    baseline = baseline_of([case("a", 5, judge="old")])
    assert list(suspects_of([case("a", 0, judge="new")], baseline, 10)) == []
    assert len(list(suspects_of([case("a", 0, judge="old")], baseline, 10))) == 1
