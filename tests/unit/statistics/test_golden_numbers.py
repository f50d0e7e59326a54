"""Golden numbers of scipy 1.17.1 and statsmodels 0.15.0. Tango 1/7 of 21 stands in Fagerland et al. 2014."""

import math
import random

import pytest

from pytest_agentv.stats.comparison import (
    LEAST_DIFFERING,
    Confusion,
    answers_to_confirm,
    benjamini_hochberg,
    best_threshold,
    cases_to_see,
    chance_of_red_case,
    compare_pairs,
    corrected_rate,
    decide_change,
    drop_seen,
    fisher_less,
    kappa,
    kappa_interval,
    krippendorff_alpha,
    least_drop,
    most_within,
    required_cases,
    variance_between,
    variance_of,
)
from pytest_agentv.stats.intervals import (
    Interval,
    answer_variance,
    needed_passes,
    pass_all,
    pass_at,
    pass_rate,
    spread,
    t_quantile,
    t_upper_tail,
    verdict,
)

GRADED = [-0.4, -0.2, 0, 0.2, -0.6, -0.2, -0.4, 0, 0.2, -0.8]


def bounds(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def digits(text: str) -> list[int]:
    return [int(digit) for digit in text]


@pytest.mark.parametrize(("t", "tail"), [(math.inf, 0.0), (-math.inf, 1.0), (1e200, 0.0), (0.0, 0.5)])
def test_tails_of_t_at_their_ends(t, tail):
    assert t_upper_tail(t, 5) == tail


@pytest.mark.parametrize(
    ("probability", "df", "value"),
    [(0.975, 1, 12.7062047362), (0.975, 9, 2.2621571628), (0.975, 499, 1.96472939099), (0.9, 3, 1.6377443537)],
)
def test_quantiles_of_t(probability, df, value):
    assert t_quantile(probability, df) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(
    ("counts", "p"),
    [((0, 5, 5, 5), 0.00396825396825), ((0, 10, 10, 10), 5.41254411223e-06), ((3, 5, 9, 10), 0.241758241758)],
)
def test_fishers_exact_test(counts, p):
    assert fisher_less(*counts) == pytest.approx(p, rel=1e-10)


def test_adjusted_p_values():
    p_values = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205]
    assert benjamini_hochberg(p_values) == pytest.approx(
        [0.008, 0.032, 0.0672, 0.0672, 0.0672, 0.08, 0.0845714285714, 0.205]
    )


@pytest.mark.parametrize(("pairs", "fresh"), [(10, 10), (300, 10), (301, 11), (1000, 14), (10_000, 24)])
def test_enough_fresh_answers_to_find_one_broken_case_are_asked(pairs, fresh):
    assert answers_to_confirm(pairs, 5, 10) == fresh


def test_no_confirmation_stays_none():
    assert answers_to_confirm(1000, 5, 0) == 0


@pytest.mark.parametrize(("pairs", "before", "fresh"), [(10, 1, 99), (11, 1, 0), (500, 2, 99), (600, 2, 0)])
def test_a_suspect_that_no_hundred_answers_could_confirm_gets_none(pairs, before, fresh):
    assert answers_to_confirm(pairs, before, 10) == fresh


def test_kappa():
    assert kappa(digits("101101011100"), digits("101001111101")) == pytest.approx(0.470588235294)
    assert kappa(digits("0122102110"), digits("0112112210"), "linear") == pytest.approx(0.625)
    assert kappa(digits("0122102110"), digits("0112112210"), "quadratic") == pytest.approx(0.727272727273)
    assert kappa([1, 1], [1, 1]) is None


@pytest.mark.parametrize(
    ("counts", "seen", "low", "high"),
    [
        ((20, 5, 10, 15), 0.4, 0.1269060440531, 0.6138346966877),
        ((62, 6, 8, 24), 0.67, 0.4867942249531, 0.8033081641254),
        ((7, 3, 0, 0), 0.0, -0.3636535359380, 0.5687817410662),
        ((25, 0, 0, 25), 1.0, 0.8251854225483, 1.0),  # all agree
        ((50, 0, 0, 0), None, -0.1348282174297, 1.0),  # constant: there is no kappa, and hardly anything is known
    ],
)
def test_the_interval_of_kappa_is_that_of_the_table_with_one_more_in_each_cell(counts, seen, low, high):
    """The numbers are those of `statsmodels.stats.inter_rater.cohens_kappa`."""
    interval = kappa_interval(Confusion(*counts), seen)
    assert interval.high == pytest.approx(high, abs=1e-12)
    assert interval.low == pytest.approx(low, abs=1e-12)
    assert seen is None or interval.low <= seen <= interval.high


def test_the_best_threshold_lies_between_scores():
    assert best_threshold([0.2, 0.4, 0.9, 0.7], [False, False, True, True]) == pytest.approx(0.55)
    assert best_threshold([0, 1, 1], [False, True, True]) == 0.5
    assert best_threshold([0.5, 0.5], [False, True]) is None


@pytest.mark.parametrize(("level", "alpha"), [("none", 0.691), ("quadratic", 0.811)])
def test_krippendorffs_alpha_of_the_usual_example(level, alpha):
    raters = ("*****34121133*3", "1*213343*******", "**21344*21133*4")
    ratings = [[None if mark == "*" else int(mark) for mark in unit] for unit in zip(*raters, strict=True)]
    assert krippendorff_alpha(ratings, level) == pytest.approx(alpha, abs=5e-4)


def test_krippendorffs_alpha_needs_ratings_that_differ():
    assert krippendorff_alpha([[1, 1], [1, 1]]) is None
    assert krippendorff_alpha([[1, None], [None, 2]]) is None


@pytest.mark.parametrize(
    ("j", "passes", "judged", "any_passes", "all_pass"),
    [(2, 3, 5, 0.9, 0.3), (5, 1, 10, 0.5, 0), (3, 9, 10, 1, 0.7), (3, 0, 10, 0, 0)],
)
def test_pass_at_and_pass_all(j, passes, judged, any_passes, all_pass):
    assert pass_at(j, passes, judged) == pytest.approx(any_passes)
    assert pass_all(j, passes, judged) == pytest.approx(all_pass)


@pytest.mark.parametrize(
    ("differences", "options", "mean", "expected"),
    [
        (GRADED, {}, -0.22, (-0.4579749195, 0.01797491953)),
        ([0] * 10, {"graded": True}, 0, (-0.2775327999, 0.2775327999)),
        (GRADED, {"groups": "aabbccddee"}, -0.22, (-0.4588388388, 0.01883883881)),
    ],
)
def test_intervals_of_differences(differences, options, mean, expected):
    estimate = compare_pairs(differences, **options).estimate
    assert estimate.mean == pytest.approx(mean)
    assert bounds(estimate.interval) == pytest.approx(expected, abs=1e-9)


def test_the_standard_error_counts_groups():
    assert spread(digits("110110001111"), "000112223344").error == pytest.approx(0.215165741456)


@pytest.mark.parametrize(("answers", "rate", "needed"), [(5, 0.8, 4), (10, 0.85, 9), (3, 0.0, 0), (7, 0.9, 7)])
def test_needed_passes(answers, rate, needed):
    assert needed_passes(answers, rate) == needed


@pytest.mark.parametrize(
    ("passes", "fails", "answers", "rate", "expected"),
    [(4, 0, 5, 0.8, "pass"), (3, 1, 5, 0.8, None), (2, 2, 5, 0.8, "fail"), (0, 1, 3, 1.0, "fail")],
)
def test_the_verdict_is_told_when_it_is_certain(passes, fails, answers, rate, expected):
    assert verdict(passes, fails, answers, rate) == expected


@pytest.mark.parametrize(
    ("passes", "judged", "stopped", "rate"),
    [(4, 5, "pass", 0.75), (0, 1, "fail", 0.0), (9, 10, None, 0.9), (2, 5, "fail", 0.5)],
)
def test_the_pass_rate_after_an_early_stop(passes, judged, stopped, rate):
    assert pass_rate(passes, judged, stopped) == rate


def test_the_least_drop_is_seen_with_the_cases_that_it_requires():
    cases = required_cases(0.05, 0.0667, 0.0008, 5)
    deviation = (0.0008 + 2 * 0.0667 / 5) ** 0.5
    assert least_drop(deviation, cases) == pytest.approx(0.05, rel=0.02)
    assert least_drop(1.0, 4) == pytest.approx((3.182446305284 + 0.841621233573) / 2)


def ends(answers, needed, passes=0, fails=0):
    """Yield passes, fails and verdict for each order of answers that ends a case early, or with its last answer."""
    found = verdict(passes, fails, answers, needed / answers)
    if found is not None:
        yield passes, fails, found
        return
    yield from ends(answers, needed, passes + 1, fails)
    yield from ends(answers, needed, passes, fails + 1)


@pytest.mark.parametrize(("answers", "needed"), [(k, needed) for k in (2, 3, 5, 8) for needed in range(1, k + 1)])
def test_early_stops_bias_neither_the_rate_nor_the_variance(answers, needed):
    for rate in (0.1, 0.5, 0.9):
        chances = [(rate**s * (1 - rate) ** f, s, s + f, found) for s, f, found in ends(answers, needed)]
        assert sum(p * pass_rate(*end) for p, *end in chances) == pytest.approx(rate)
        assert sum(p * answer_variance(*end) for p, *end in chances) == pytest.approx(rate * (1 - rate))


def test_ten_answers_that_all_must_pass_fail_a_reliable_case_often():
    assert chance_of_red_case(0.95, 10, 1.0, 1) == pytest.approx(0.401, abs=1e-3)
    assert chance_of_red_case(0.95, 5, 0.8, 1) == pytest.approx(1 - 0.95**5 - 5 * 0.05 * 0.95**4)
    assert chance_of_red_case(0.95, 10, 1.0, 2) == pytest.approx(1 - 0.95**20)


def test_a_corrected_rate_needs_labels_of_both_classes():
    assert corrected_rate([1] * 99, [1] * 99, [1] * 500) is None
    assert corrected_rate([1] * 100, [1] * 96 + [0] * 4, [1] * 500) is None
    assert corrected_rate([1] * 100, [0] * 96 + [1] * 4, [1] * 500) is None
    assert corrected_rate([1] * 100, [1] * 95 + [0] * 5, [1] * 500) is not None
    assert corrected_rate([1] * 100, [1] * 95 + [0] * 5, [1]) is None, "one verdict has no spread"


def test_a_corrected_rate_stays_a_rate():
    found = corrected_rate([1] * 98 + [0] * 7, [1] * 100 + [0] * 5, [1] * 1000)
    assert found is not None
    assert 0 <= found.interval.low <= found.rate <= found.interval.high <= 1
    bad = corrected_rate([0] * 98 + [1] * 7, [0] * 100 + [1] * 5, [0] * 1000)
    assert bad is not None
    assert 0 <= bad.interval.low <= bad.rate <= bad.interval.high <= 1


def test_a_lenient_judge_is_corrected():
    labels = [1] * 70 + [0] * 30
    judge = [1] * 70 + [1] * 10 + [0] * 20
    found = corrected_rate(judge, labels, [1] * 800 + [0] * 200)
    assert found.rate == pytest.approx(0.7, abs=0.02)


def test_a_useless_judge_leaves_the_labels_alone():
    found = corrected_rate([1, 0] * 50, [1, 1, 0, 0] * 25, [1] * 900 + [0] * 100)
    assert found.tuning == 0
    assert found.rate == pytest.approx(0.5)


@pytest.mark.parametrize(("deviation", "units", "answers"), [(0.1, 100, 1), (0.0, 100, 1), (0.02, 50, 5), (0.0, 7, 1)])
def test_no_drop_is_seen_at_which_too_few_cases_differ_to_call_it_one(deviation, units, answers):
    drop = drop_seen(deviation, units, answers=answers)
    share = 1 - (1 - drop) ** answers
    fewer = math.fsum(math.comb(units, i) * share**i * (1 - share) ** (units - i) for i in range(LEAST_DIFFERING))
    assert fewer <= 0.2 + 1e-9


def test_cases_to_see_a_drop():
    assert [cases_to_see(0.05, 0.0667, 0.0008, k) for k in (1, 3, 5, 10)] == [422, 143, 87, 45]
    assert cases_to_see(0.05, 0.0, 0.04, 3) == 126, "cases that differ for sure"
    assert cases_to_see(0.9, 0.0, 0.0, 1) == 6, "one more than must differ"
    for answers, within in ((5, 0.0), (1, 0.0), (1, 1e-6), (10, 1e-6)):
        needed = cases_to_see(0.05, within, 0.0, answers)
        deviation = math.sqrt(2 * within / answers)
        seen = [drop_seen(deviation, cases, answers=answers) for cases in (needed, needed - 1)]
        assert seen[0] <= 0.05 < seen[1], "the one is the other's inverse"


@pytest.mark.slow
def test_cases_that_groups_are_asked_for_see_the_drop_in_four_of_five_runs():
    rng = random.Random(3)

    def compared(groups):
        changes = rng.choices((-1.0, 0.0, 1.0), (4, 4, 2), k=groups)
        return compare_pairs(
            [change for change in changes for _ in range(5)], [n for n in range(groups) for _ in "12345"]
        )

    difference = compared(4000)
    needed = cases_to_see(0.2, 0.0, variance_between(difference.error, 0.0, 1, 5), 1, 5)
    runs = [compared(needed // 5) for _ in range(400)]
    assert 0.74 < sum(decide_change(run, 0.05) == "regressed" for run in runs) / 400 < 0.86


def test_answers_of_a_case_vary_less_than_its_group():
    alike = [-1.0] * 10 + [1.0] * 10 + [0.0] * 10
    within = most_within(alike, 1.0, 1, 10)
    assert within == pytest.approx(variance_of(alike) / 2)
    assert variance_between(1.0, within, 1, 10) == pytest.approx(1 - 2 * within / 10), (
        "the group does not change by chance"
    )
    assert most_within([1.0, -1.0] * 10, 0.0, 1, 2) == 0.0, "the differences of each group cancel out"
    assert most_within([0.5], 0.2, 3) == pytest.approx(0.06)
