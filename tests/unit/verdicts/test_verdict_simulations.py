"""Unchanged runs on a seeded target: how many are red."""

import random
from statistics import fmean, pstdev

import pytest
from thorough import tries, varied
from verdict_cases import case, random_run

from pytest_agentv.reports.gates import baseline_gate, suspects_of
from pytest_agentv.reports.judged_cases import Confirmation, values_of
from pytest_agentv.reports.reading import baseline_of
from pytest_agentv.reports.verdict import compare_with_baseline
from pytest_agentv.stats.intervals import verdict

RUNS = tries(200, 400)


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
            cases[suspect.name] = suspect.replace(confirmation=Confirmation(fresh, fresh, passes))
        run = list(cases.values())
        statistics = compare_with_baseline(run, baseline, "b", margin=0.05, is_confirming=True)
        red += baseline_gate(statistics, "cases").is_red
    assert red / RUNS <= 0.05


@pytest.mark.parametrize(
    ("p", "planned", "min_rate"), [(0.9, 2, 1.0), varied(0.8, 3, 1.0), (0.95, 5, 1.0), varied(0.7, 5, 0.6)]
)
@pytest.mark.parametrize("cases", [20, varied(200)])
def test_the_rate_of_early_stops_is_nearer_to_the_truth_than_its_estimate(p, planned, min_rate, cases):
    """Where all orders are as likely, it may be some points too low: never more than a third of a standard error."""
    rng, estimates, rates = random.Random(planned), [], []
    for _ in range(tries(300, 2000)):
        run = [stopped(rng, p, planned, min_rate) for _ in range(cases)]
        estimates.append(fmean(case.value for case in run) - p)
        rates.append(fmean(values_of(run)) - p)
    deviation = pstdev(estimates)
    assert abs(fmean(estimates)) < deviation * 0.2, "the estimate of Girshick, Mosteller and Savage is unbiased"
    assert -0.45 * deviation < fmean(rates) < 0.2 * deviation
    assert fmean(each**2 for each in rates) <= fmean(each**2 for each in estimates)


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
        old[0] = old[0].replace(scores=(1.0,) * 5, passes=5)
        new[0] = new[0].replace(scores=(0.0,) * 5, passes=0, confirmation=Confirmation(10, 10, 0))
        statistics = compare_with_baseline(new, baseline_of(old), "b", margin=0.05, is_confirming=True)
        found += new[0].name in [each.case.name for each in statistics.comparison.broken]
    assert found == rounds
