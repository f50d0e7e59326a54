"""Figures over scores."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.summary import (
    ScoreStatistics,
    extremes,
    score_statistics,
)


def result(eval_id: str, score: float, **changes: Any) -> EvalResult:
    return EvalResult("2026-11-20T13:11:09.075Z", eval_id, "d", score, (), (), "answer", "agent", **changes)


def figures(*scores: float) -> ScoreStatistics:
    statistics = score_statistics([result("a", score) for score in scores])
    assert statistics is not None
    return statistics


@pytest.mark.scenario("Statistics and distribution")
@pytest.mark.scenario("Statistical metrics")
def test_the_figures_of_some_scores() -> None:
    statistics = figures(0.2, 0.4, 0.9, 1.0)
    assert statistics.standard_deviation == pytest.approx(0.3862210075)
    assert statistics.replace(standard_deviation=None) == ScoreStatistics(
        mean=0.625, median=0.65, minimum=0.2, maximum=1.0, standard_deviation=None, bins=(0, 1, 1, 0, 2)
    )


def test_one_score_has_no_deviation() -> None:
    assert figures(0.5) == ScoreStatistics(0.5, 0.5, 0.5, 0.5, None, (0, 0, 1, 0, 0))


def test_no_scores_have_no_figures() -> None:
    assert score_statistics([]) is None


@pytest.mark.scenario("Score distribution")
@pytest.mark.parametrize(
    ("score", "index"),
    [
        (0, 0),
        (0.199, 0),
        (0.2, 1),
        (0.1 + 0.1, 1),
        (0.4, 2),
        (0.6, 3),
        (0.7 - 0.1, 3),
        (0.8, 4),
        (0.9 - 0.1, 4),
        (1, 4),
        (-0.5, 0),
        (1.5, 4),
    ],
)
def test_a_score_on_an_edge_belongs_to_the_upper_bin(score: float, index: int) -> None:
    assert figures(score).bins.index(1) == index


@pytest.mark.scenario("Statistics match sequential execution")
@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.randoms())
def test_the_order_in_which_cases_end_changes_no_figure(scores: list[float], random: Any) -> None:
    shuffled = random.sample(scores, len(scores))
    assert figures(*shuffled) == figures(*scores)
    assert sum(figures(*scores).bins) == len(scores)


def test_cases_that_could_not_be_judged_stay_out_of_scores_and_extremes() -> None:
    results = [
        result("a", 0.5),
        result("broken", 0.0, status="error"),
        result("b", 1.0),
        result("c", 0.5),
        result("d", 0.25),
    ]
    statistics = score_statistics(results)
    assert statistics is not None
    assert sum(statistics.bins) == 4
    best, worst = extremes(results)
    assert [each.eval_id for each in best] == ["b", "a", "c"]
    assert [each.eval_id for each in worst] == ["d", "a", "c"]
