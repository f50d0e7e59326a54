"""Combined scores, thresholds, pass and fail."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.engine.results import (
    combine_scores,
    decide_status,
)
from pytest_agentv.evaluators.composite import WeightedAverage
from pytest_agentv.evaluators.data import FieldAccuracy, FieldCheck, score_fields
from pytest_agentv.evaluators.judge import Rubric, score_checks
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.results import NOTHING_COUNTS, EvaluatorResult, verdict_of


def result(
    score: float,
    weight: float | None = 1.0,
    name: str = "judge",
    *,
    hits: tuple[str, ...] = (),
    misses: tuple[str, ...] = (),
    reasoning: str | None = None,
) -> EvaluatorResult:
    return EvaluatorResult(name, "llm_judge", score, weight, verdict_of(score), hits, misses, reasoning)


def combined(*pairs: tuple[float, float]) -> float:
    return combine_scores([result(score, weight) for score, weight in pairs]).value


def test_a_score_of_zero_by_weights_says_so() -> None:
    good = result(1, 0, reasoning="good")
    assert combine_scores([good, good]).reasoning == f"{NOTHING_COUNTS} | judge: good | judge: good"
    assert combine_scores([result(1, 0), result(1)]).reasoning is None
    aggregate = asyncio.run(WeightedAverage(weights={"judge": 0}).combine([result(1)], None))
    assert (aggregate.value, aggregate.reasoning) == (0.0, NOTHING_COUNTS)
    rubric = Rubric(id="a", description="d", weight=0)
    scored = score_checks([rubric], {"a": {"id": "a", "satisfied": True, "reasoning": ""}})
    assert (scored.value, scored.misses) == (0.0, (NOTHING_COUNTS,))


HUGE = [(1.0, 1e308), (1.0, 1.7e308), (0.0, 1.7e308), (1.0, 1.0)]
TINY = [(0.5, 5e-324), (1.0, 5e-324)]


@pytest.mark.parametrize(("pairs", "mean"), [(HUGE, 2.7 / 4.4), (TINY, 0.75)], ids=["huge", "tiny"])
def test_weights_at_the_ends_of_floats_weigh_what_they_say(pairs: list[tuple[float, float]], mean: float) -> None:
    assert combined(*pairs) == pytest.approx(mean)
    members = [result(score, name=str(index)) for index, (score, _) in enumerate(pairs)]
    weights = {str(index): weight for index, (_, weight) in enumerate(pairs)}
    assert asyncio.run(WeightedAverage(weights=weights).combine(members, None)).value == pytest.approx(mean)


@pytest.mark.parametrize("weight", [1e308, 5e-324, 3.0])
def test_fields_and_rubrics_of_any_weight_count(weight: float) -> None:
    fields = tuple(FieldCheck(path=path, match="exact", weight=weight) for path in "abcd")
    expected = ({"role": "assistant", "content": dict.fromkeys("abcd", 1)},)
    assert score_fields(FieldAccuracy(fields=fields), '{"a": 1, "b": 1, "c": 1}', expected).value == 0.75
    rubrics = [Rubric(id=name, description=name, weight=weight) for name in "abcd"]
    checks: dict[str, JsonObject] = {name: {"satisfied": name != "d", "reasoning": ""} for name in "abcd"}
    assert score_checks(rubrics, checks).value == 0.75


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e300)), max_size=6))
def test_a_combined_score_stays_within_its_bounds(pairs: list[tuple[float, float]]) -> None:
    assert 0 <= combined(*pairs) <= 1


@given(st.floats(0, 1), st.lists(st.floats(0.001, 1000), min_size=1, max_size=8))
def test_equal_scores_reach_a_threshold_of_their_own_value(score: float, weights: list[float]) -> None:
    assert decide_status(combined(*((score, weight) for weight in weights)), score) == "pass"


@pytest.mark.parametrize(
    ("score", "threshold", "status"),
    [
        (1.0, 1.0, "pass"),
        (0.0, 0.0, "pass"),
        (0.1 + 0.7, 0.8, "pass"),
        (1 - 1e-10, 1.0, "pass"),
        (1 - 1e-8, 1.0, "fail"),
        (math.nan, 0.5, "fail"),
    ],
)
def test_a_score_passes_when_it_reaches_the_threshold(score: float, threshold: float, status: str) -> None:
    assert decide_status(score, threshold) == status
