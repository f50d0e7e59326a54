"""Answers that a finished case stands on: as far as its result tells, they are not asked again."""

import pytest

from pytest_agentv.engine.repeating.combining import combine_answers, confirmed_by
from pytest_agentv.engine.repeating.plan import RepeatPlan
from pytest_agentv.engine.repeating.splitting import answers_of, numbered_answers
from pytest_agentv.engine.scoring import Threshold
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.traces import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.reporting.figures import cost_of, known_answers

PLAN = RepeatPlan(3, 0.6, "file", stops_early=False)
HALF = Threshold(0.5, "default")


def answer(score: float, text: str = "yes", *tools: str, **more: object) -> EvalResult:
    trace = TraceSummary(len(tools), tools, dict.fromkeys(tools, 1), 0) if tools else None
    fixed = {"threshold": 0.5, "threshold_source": "default", "attempts": 1, "duration_ms": 5.0, "trace_summary": trace}
    metrics = ExecutionMetrics(cost_usd=0.25)
    status = "pass" if score >= 0.5 else "fail"
    result = EvalResult("2026-01-01", "a", "d", score, (), (), text, "t", status=status)
    return result.replace(**fixed, execution_metrics=metrics, **more)


ANSWERS = [answer(1.0, "yes", "search"), answer(0.2, "no"), answer(0.8, "yes", "open")]


def combined(answers: list[EvalResult], **more: object) -> EvalResult:
    return combine_answers(answers, PLAN, together=False, **more)  # type: ignore[arg-type]


def test_a_case_that_is_taken_apart_and_put_together_again_says_the_same() -> None:
    whole = combined(ANSWERS)
    answers = answers_of(whole, HALF, in_full=False)
    assert [(each.score, each.status) for each in answers] == [(1.0, "pass"), (0.2, "fail"), (0.8, "pass")]
    assert combined(list(answers)) == whole


@pytest.mark.parametrize("with_answers", [False, True])
def test_answers_beside_one_that_could_not_be_had_keep_their_numbers(with_answers: bool) -> None:
    """All of them were paid for again when the case needed more answers: with a baseline, or with a higher `repeat`."""
    down = answer(0.0).replace(status="error", error="down", execution_metrics=None)
    answers = [down, answer(1.0), down, answer(0.9), answer(0.2)]
    whole = combine_answers(
        answers, PLAN.replace(answers=6, min_pass_rate=0.2), together=False, with_answers=with_answers
    )
    assert whole.repeat is not None
    assert whole.repeat.error_numbers == (0, 2)
    known = numbered_answers(whole, HALF, in_full=with_answers)
    assert {number: each.status for number, each in known.items()} == {1: "pass", 3: "pass", 4: "fail"}
    assert sum(each.execution_metrics.cost_usd or 0 for each in known.values() if each.execution_metrics) == 0.75
    assert numbered_answers(combined(ANSWERS), HALF, in_full=False).keys() == {0, 1, 2}


def test_another_threshold_judges_answers_anew_if_the_same_one_is_shown() -> None:
    """With a lower threshold, a case that had stopped early paid for its first answers again."""
    assert [each.status for each in answers_of(combined(ANSWERS), Threshold(0.9, "file"), in_full=False)] == [
        *("pass", "fail", "fail"),
    ]
    stopped = combine_answers([answer(0.3, "no")], PLAN.replace(stops_early=True, min_pass_rate=1), together=False)
    [first] = answers_of(stopped, Threshold(0.2, "command line"), in_full=False)
    assert (first.status, first.candidate_answer) == ("pass", "no")


def test_answers_of_the_same_text_stay_so() -> None:
    whole = combined([answer(1.0), answer(0.9), answer(0.7)])
    assert combined(list(answers_of(whole, HALF, in_full=False))) == whole


def test_a_cost_that_is_known_of_some_answers_stays_so() -> None:
    whole = combined([answer(1.0), answer(0.9), answer(0.7).replace(execution_metrics=None)])
    assert whole.repeat is not None
    assert whole.repeat.priced == 2
    assert combined(list(answers_of(whole, HALF, in_full=False))) == whole


TOKENS = TokenUsage(10, 5)


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ([ExecutionMetrics(TOKENS, 0.25), ExecutionMetrics(TOKENS), None], 2),
        ([ExecutionMetrics(TOKENS, 0.25), ExecutionMetrics(None, 0.25), ExecutionMetrics(None, 0.25)], 3),
        ([ExecutionMetrics(TOKENS)] * 3, 3),
        ([ExecutionMetrics(duration_ms=5.0)] * 3, 1),
        ([None] * 3, 0),
    ],
    ids=["tokens of two", "tokens of one", "tokens of all", "times only", "nothing"],
)
def test_tokens_are_known_of_as_many_answers_as_before(metrics: list[ExecutionMetrics | None], told: int) -> None:
    whole = combined([answer(1.0).replace(execution_metrics=each) for each in metrics])
    apart = answers_of(whole, HALF, in_full=False)
    assert combined(list(apart)) == whole
    assert sum(each.execution_metrics is not None for each in apart) == told


def test_what_was_paid_for_counts_once_beside_cached_answers() -> None:
    whole = combined([answer(1.0), answer(1.0, cached=True), answer(1.0, cached=True)])
    again = combined(list(answers_of(whole, HALF, in_full=False)))
    assert again.execution_metrics == ExecutionMetrics(cost_usd=0.25)
    assert again == whole


def free(number: int) -> list[EvalResult]:
    """Return answers that an earlier result has paid for."""
    return [answer(1.0, cached=True) for _ in range(number)]


DOWN = answer(0.0).replace(status="error", error="down")


@pytest.mark.parametrize(
    ("whole", "paid", "known"),
    [
        (combined(free(3), lost=[DOWN] * 3), 3 + 1, 3 + 1),
        (combined(free(3), lost=[DOWN]), 1 + 1, 1 + 1),
        (combined(free(3), lost=[DOWN.replace(execution_metrics=None)] * 3), 0 + 1, 1),
        (combined([*free(2), DOWN]), 1 + 1, 2),
        (combined([answer(1.0), *[DOWN.replace(cached=True)] * 2]), 1 + 1, 2),
        (confirmed_by(combined(free(3)), [answer(1.0)] * 2, PLAN), 2 + 1, 2),
        (combined(free(3)), 1, 1),
    ],
    ids=["outage", "cache and outage", "cost unknown", "not judged", "errors cached", "confirmed", "cache"],
)
def test_what_answers_cost_that_are_gone_counts_beside_further_ones(whole: EvalResult, paid: int, known: int) -> None:
    """It was told from the cache with the answers that remain, and counted no more."""
    answers = answers_of(whole, HALF, in_full=False)
    more = combined([*answers, answer(1.0)], carried=len(answers))
    assert cost_of(more) == paid * 0.25
    assert known_answers(more, "priced")[0] == known


def test_answers_that_the_result_holds_are_whole() -> None:
    whole = combined(ANSWERS, with_answers=True)
    for threshold in (HALF, Threshold(0.9, "file")):
        assert list(answers_of(whole, threshold, in_full=True)) == ANSWERS


@pytest.mark.parametrize(
    ("result", "threshold", "in_full"),
    [
        (combined(ANSWERS), HALF, True),
        (combined(ANSWERS), Threshold(0.1, "file"), False),
        (combined([*ANSWERS[:2], answer(0.9).replace(status="fail")]), HALF, False),
        (
            combined(ANSWERS).replace(repeat=combined(ANSWERS).repeat.replace(errors=1)),  # type: ignore[union-attr]
            HALF,
            False,
        ),
        (combined(ANSWERS, reruns=1), HALF, False),
    ],
    ids=[
        "texts are wanted",
        "another answer would be shown",
        "a hook decided",
        "numbers unknown",
        "asked until they passed",
    ],
)
def test_where_the_result_does_not_tell_all_are_asked_again(
    result: EvalResult, threshold: Threshold, in_full: bool
) -> None:
    assert answers_of(result, threshold, in_full=in_full) == ()


@pytest.mark.parametrize("in_full", [False, True])
def test_answers_that_a_baseline_holds_stay_so_among_new_ones(in_full: bool) -> None:
    whole = combined([answer(1.0), answer(0.9)], with_answers=in_full).replace(in_baseline="b.jsonl")
    more = combined([*answers_of(whole, HALF, in_full=in_full), answer(0.1, "new")])
    assert more.in_baseline == "b.jsonl"
    assert combined(ANSWERS).in_baseline is None
