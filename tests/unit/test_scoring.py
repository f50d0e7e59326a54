"""Combined scores, thresholds, pass and fail."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.engine.results import (
    CombinedScore,
    Judgement,
    Threshold,
    combine_scores,
    decide_status,
    effective_threshold,
)
from pytest_agentv.evaluators.composite import weighted_average
from pytest_agentv.evaluators.field_accuracy import FieldAccuracy, FieldCheck, score_fields
from pytest_agentv.evaluators.judge import Rubric, score_checks
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import NOTHING_COUNTS, EvaluatorResult, verdict_of
from pytest_agentv.model.run_options import RunOptions

CASE = EvalCase("c1", "d", "/R/d.yaml", 1, "It works.", "", (), ())


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


@pytest.mark.scenario("Default aggregation (no weights)")
def test_scores_without_weights_give_their_mean() -> None:
    assert combine_scores([result(0.8), result(0.4)]).value == pytest.approx(0.6)
    assert combine_scores([result(0.8, None), result(0.4, None)]).value == pytest.approx(0.6)
    assert combine_scores([result(0.8, None), result(0.4, 1.0)]).value == pytest.approx(0.6)


@pytest.mark.scenario("Weighted aggregation (mixed weights)")
def test_weights_shift_the_mean() -> None:
    assert combined((0.8, 3), (0.4, 1)) == pytest.approx(0.7)


@pytest.mark.scenario("Weight of zero excludes evaluator from aggregation")
def test_an_evaluator_of_weight_zero_does_not_count() -> None:
    assert combined((0.9, 1), (0.1, 0)) == 0.9


@pytest.mark.scenario("All weights are zero")
def test_weights_of_zero_only_give_zero() -> None:
    assert combined((0.9, 0), (1.0, 0)) == 0.0


def test_a_score_of_zero_by_weights_says_so() -> None:
    good = result(1, 0, reasoning="good")
    assert combine_scores([good, good]).reasoning == f"{NOTHING_COUNTS} | judge: good | judge: good"
    assert combine_scores([result(1, 0), result(1)]).reasoning is None
    aggregate = weighted_average({"judge": 0}, [result(1)])
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
    assert weighted_average(weights, members).value == pytest.approx(mean)


@pytest.mark.parametrize("weight", [1e308, 5e-324, 3.0])
def test_fields_and_rubrics_of_any_weight_count(weight: float) -> None:
    fields = tuple(FieldCheck(path=path, match="exact", weight=weight) for path in "abcd")
    expected = ({"role": "assistant", "content": dict.fromkeys("abcd", 1)},)
    assert score_fields(FieldAccuracy(fields=fields), '{"a": 1, "b": 1, "c": 1}', expected).value == 0.75
    rubrics = [Rubric(id=name, description=name, weight=weight) for name in "abcd"]
    checks: dict[str, JsonObject] = {name: {"satisfied": name != "d", "reasoning": ""} for name in "abcd"}
    assert score_checks(rubrics, checks).value == 0.75


@pytest.mark.scenario("Multiple evaluators aggregation")
def test_half_a_score_fails_at_the_default_threshold() -> None:
    score = combined((1.0, 1), (0.0, 1))
    assert score == 0.5
    assert decide_status(score, effective_threshold(RunOptions(), CASE).value) == "fail"


def test_the_mean_of_a_real_run() -> None:
    run = [(0, 1), (1, 2), (1, 1), (0.7, 1), (0.65, 0), (0.525, 1), (0.7, 1), (0, 1)]
    assert combined(*run) == pytest.approx(0.615625, abs=1e-12)


HALF = Threshold(0.5, "case")


def test_the_judge_of_a_case_without_evaluators_speaks_for_itself() -> None:
    only = result(0.4, 0, hits=("h",), misses=("m",), reasoning="so so")
    assert Judgement((only,), HALF, is_default_judge=True).combined == CombinedScore(0.4, ("h",), ("m",), "so so")
    assert Judgement((only,), HALF).combined.reasoning == f"{NOTHING_COUNTS} | judge: so so"


def test_an_evaluator_that_could_not_judge_is_never_outvoted() -> None:
    judgement = Judgement((result(1), result(1).replace(error="HTTP 503")), HALF)
    assert judgement.status(CombinedScore(1.0)) == "error"
    assert Judgement((result(1),), HALF).status(CombinedScore(1.0)) == "pass"


def test_no_results_give_zero() -> None:
    assert combine_scores([]) == CombinedScore(0.0)


def test_hits_misses_and_reasons_are_strung_together_in_order() -> None:
    results = [
        result(1, name="tone", hits=("h1",), misses=("m1",), reasoning="Kind."),
        result(1, name="calls", hits=("h2", "h1")),
        result(1, name="facts", misses=("m2",), reasoning="Right."),
    ]
    assert combine_scores(results) == CombinedScore(
        1.0, ("h1", "h2", "h1"), ("m1", "m2"), "tone: Kind. | facts: Right."
    )


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


@pytest.mark.parametrize(
    ("options", "case", "threshold"),
    [
        (
            RunOptions(threshold=0.0, ini_threshold=0.3),
            CASE.replace(threshold=0.9),
            Threshold(0.0, "command line"),
        ),
        (RunOptions(ini_threshold=0.3), CASE.replace(threshold=0.0), Threshold(0.0, "case")),
        (RunOptions(ini_threshold=0.3), CASE.replace(threshold=0.9, threshold_source="file"), Threshold(0.9, "file")),
        (RunOptions(ini_threshold=0.0), CASE, Threshold(0.0, "ini")),
        (RunOptions(), CASE, Threshold(1.0, "default")),
    ],
    ids=["command line", "case", "file", "ini", "default"],
)
def test_the_nearest_threshold_counts(options: RunOptions, case: EvalCase, threshold: Threshold) -> None:
    assert effective_threshold(options, case) == threshold
