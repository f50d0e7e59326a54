"""Pairs, verdicts and gates, and unchanged runs on a seeded target: how many are red."""

import random
from collections.abc import Sequence

import pytest
from thorough import tries, varied

from pytest_agentv.model.results import EvalResult, RepeatFigures
from pytest_agentv.reports.judged_cases import JudgedCase, case_of, pair_cases, pairs_of
from pytest_agentv.reports.read import baseline_of
from pytest_agentv.reports.verdict import baseline_gate, compare_with_baseline, pass_rate_of, rate_gate, suspects_of
from pytest_agentv.stats.intervals import verdict


def case(name: str, passes: int, judged: int = 5, confirm: RepeatFigures | None = None) -> JudgedCase:
    """Return a case of which some answers pass."""
    result = EvalResult(
        "t", name, "a", passes / judged, (), (), "", "azure", threshold=1.0, eval_file="evals/a.yaml",
        case_hash=f"hash of {name}", grading_hash="grading", target_hash="51c0",
        repeat=figures(passes, judged).replace(confirm=confirm),
    )  # fmt: skip
    return case_of(result)


def figures(passes: int, judged: int, asked: int | None = None) -> RepeatFigures:
    scores = (1.0,) * passes + (0.0,) * (judged - passes)
    asked = judged if asked is None else asked
    return RepeatFigures(asked, asked, judged, passes, asked - judged, asked, 1.0, "case", scores)


def run_of(passes: Sequence[int], judged: int = 5) -> list[JudgedCase]:
    return [case(f"c{number}", count, judged) for number, count in enumerate(passes)]


def random_run(rng: random.Random, p: float, cases: int, judged: int) -> list[JudgedCase]:
    """Return a run of equal, independent cases."""
    return run_of([sum(rng.random() < p for _ in range(judged)) for _ in range(cases)], judged)


NAME = "agentv.baseline.jsonl"


def judged(new, old, *, margin=0.05, is_confirming=True, **baseline):
    return compare_with_baseline(
        new, baseline_of(old).replace(**baseline), NAME, margin=margin, is_confirming=is_confirming
    )


def compare_runs(new, old):
    return judged(new, old, is_confirming=False).comparison


def confirmed(eval_id, passes, again, judged=10):
    return case(eval_id, passes, confirm=figures(again, judged, 10))


@pytest.mark.parametrize(("new", "old", "is_sure"), [(10, 10, True), (40, 9, False), (9, 40, False)])
def test_both_sides_need_many_answers_to_need_no_confirmation(new, old, is_sure):
    [pair] = pairs_of(pair_cases([case("a", 0, new)], [case("a", old, old)]))
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
    asked = case("c0", passes, 9, confirm=figures(*fresh, 10))
    statistics = judged([asked, *run_of([9] * 8, 9)[1:]], run_of([9] * 8, 9))
    assert bool(statistics.comparison.broken) == is_broken
    assert bool(statistics.comparison.unconfirmed) == is_unconfirmed


@pytest.mark.parametrize(("cases", "fresh", "is_undecided"), [(48, 5, True), (3, 7, False), (48, 10, False)])
def test_a_suspect_is_undecided_if_an_outage_left_too_few_answers_for_so_many_cases(cases, fresh, is_undecided):
    new, old = [confirmed("c0", 0, 0, judged=fresh), *run_of([5] * cases)[1:]], run_of([5] * cases)
    statistics = judged(new, old)
    assert bool(statistics.comparison.broken) != is_undecided
    assert bool(statistics.comparison.unconfirmed) == is_undecided


def test_suspects_get_as_many_answers_as_can_find_one_broken_case():
    def found(cases, wanted=10):
        return list(suspects_of(run_of([0] + [5] * (cases - 1)), baseline_of(run_of([5] * cases)), wanted))

    assert [(each.eval_id, answers) for each, answers in found(48)] == [("c0", 10)]
    assert found(1000)[0][1] == 14
    assert list(suspects_of([confirmed("c0", 0, 0)], baseline_of(run_of([5])), 10)) == [], "asked already"


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


def test_a_case_that_several_targets_were_asked_is_one_unit():
    passes = [5, 5, 4, 5, 0, 5]
    both = [each.replace(target=target) for target in ("small", "large") for each in run_of(passes)]
    rate, alone = pass_rate_of(both), pass_rate_of(run_of(passes))
    assert (rate.n, rate.units) == (12, 6)
    assert rate.interval.low == pytest.approx(alone.interval.low), "equal answers of another target tell nothing"
    assert compare_runs(both, both).difference.estimate.units == 6


RUNS = tries(200, 400)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [varied(1), 5])
def test_at_most_5_percent_of_unchanged_runs_are_red(answers):
    """p = 0.9, 50 cases, each run against a baseline of its own; 1 to 3.5 % are expected."""
    rng = random.Random(answers)
    red = 0
    for _ in range(RUNS):
        baseline = baseline_of(random_run(rng, 0.9, 50, answers))
        cases = {case.name: case for case in random_run(rng, 0.9, 50, answers)}
        for suspect, fresh in suspects_of(list(cases.values()), baseline, 10):
            passes = sum(rng.random() < 0.9 for _ in range(fresh))
            cases[suspect.name] = case(suspect.eval_id, suspect.passes, suspect.judged, figures(passes, fresh))
        run = list(cases.values())
        statistics = compare_with_baseline(run, baseline, "b", margin=0.05, is_confirming=True)
        red += baseline_gate(statistics, "cases").is_red
    assert red / RUNS <= 0.05


def stopped(rng, p, planned, min_rate):
    """Return a case that is asked until its verdict is certain."""
    passes = asked = 0
    decided = None
    while decided is None:
        passes, asked = passes + (rng.random() < p), asked + 1
        decided = verdict(passes, asked - passes, planned, min_rate)
    return case("a", passes, asked).replace(stopped=decided, asked=planned)


def test_a_broken_case_among_300_is_found_once_it_is_confirmed():
    """5/5 before, 0/5 now, 0/10 when asked again: found in every run, however noisy the other cases are."""
    rng, found, rounds = random.Random(2), 0, tries(10, 30)
    for _ in range(rounds):
        old, new = random_run(rng, 0.97, 300, 5), random_run(rng, 0.97, 300, 5)
        old[0] = case("c0", 5)
        new[0] = confirmed("c0", 0, 0, 10)
        statistics = compare_with_baseline(new, baseline_of(old), "b", margin=0.05, is_confirming=True)
        found += new[0].name in [each.case.name for each in statistics.comparison.broken]
    assert found == rounds
