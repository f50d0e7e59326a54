"""Answers that a finished case stands on: as far as its result tells, they are not asked again."""

import pytest

from pytest_agentv.engine.repeats import (
    RepeatPlan,
    added_metrics,
    answers_of,
    combine_answers,
    confirmed_by,
    first_answer,
    numbered_answers,
)
from pytest_agentv.engine.results import Threshold
from pytest_agentv.model.messages import ExecutionMetrics, JudgeMetrics, TokenUsage, TraceSummary, added_judge_metrics
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import cost_of, known_answers, moment_of

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


JUDGES = JudgeMetrics(2, token_usage=TokenUsage(7, 1), cost_usd=0.5, priced=1)
DOWN = answer(0.0).replace(status="error", error="down", judge_metrics=JUDGES)
UNPRICED = DOWN.replace(execution_metrics=None)
TIMES = ExecutionMetrics(TokenUsage(10, 5, cached=2), 0.25, 30.0, {"search": (1.0, 2.0), "open": (3.0,)})


@pytest.mark.parametrize("in_full", [False, True])
@pytest.mark.parametrize(
    ("answers", "lost", "fresh", "paid", "known"),
    [
        (free(3), [DOWN] * 3, 0, 3, 3),
        (free(3), [DOWN], 0, 1, 1),
        (free(3), [UNPRICED] * 3, 0, 0, 0),
        ([*free(2), DOWN], [], 0, 1, 1),
        ([answer(1.0), *[DOWN.replace(cached=True)] * 2], [], 0, 1, 1),
        (free(3), [], 2, 2, 1),
        ([answer(1.0)] * 2, [DOWN] * 3, 0, 5, 2),
        ([answer(1.0), DOWN, answer(1.0)], [], 0, 3, 2),
        ([answer(1.0), *free(1), answer(1.0)], [DOWN], 0, 3, 2),
    ],
    ids=[
        *("outage", "cache and outage", "cost unknown", "not judged", "errors cached", "confirmed"),
        *("lost", "an error", "some cached"),
    ],
)
def test_what_answers_cost_that_are_gone_counts_beside_further_ones(
    answers: list[EvalResult], lost: list[EvalResult], fresh: int, paid: int, known: int, in_full: bool
) -> None:
    """It was told from the cache with the answers that remain, or left out with `--agentv-include-answers`."""
    whole = combined(answers, lost=lost, with_answers=in_full)
    whole = confirmed_by(whole, [answer(1.0)] * fresh, PLAN) if fresh else whole
    for calls in (1, 2):
        kept = answers_of(whole, HALF, in_full=in_full)
        whole = combined([*kept, answer(1.0)], carried=len(kept), with_answers=in_full)
        assert cost_of(whole) == (paid + calls) * 0.25
        assert known_answers(whole, "priced")[0] == known + calls
    gone = [each for each in (*answers, *lost) if each.judge_metrics]
    assert whole.attempts == len(answers) + len(lost) + fresh + 2
    assert whole.duration_ms == 5.0 * (len(answers) + len(lost) + 2)
    assert whole.judge_metrics == added_judge_metrics(each.judge_metrics for each in gone)


def test_only_one_of_the_recorded_answers_gets_the_metrics_of_those_that_are_gone() -> None:
    good = answer(1.0).replace(execution_metrics=TIMES, judge_metrics=JUDGES, request_attempts=1)
    gone = DOWN.replace(execution_metrics=TIMES, request_attempts=2, waited_ms=7.0)
    kept = answers_of(combined([good] * 3, lost=[gone], with_answers=True), HALF, in_full=True)
    assert kept[1:] == (good, good)
    first, both = kept[0], [good, gone]
    assert (first.attempts, first.request_attempts, first.waited_ms, first.judge_retries) == (2, 3, 7.0, None)
    assert first.judge_metrics == added_judge_metrics(each.judge_metrics for each in both)
    assert first.execution_metrics == added_metrics(both).replace(  # type: ignore[union-attr]
        tool_durations={"search": (1.0, 1.0, 2.0, 2.0), "open": (3.0, 3.0)}
    )


@pytest.mark.parametrize("in_full", [False, True])
def test_the_first_answer_alone_is_a_line_anew_with_the_metrics_of_all(in_full: bool) -> None:
    """With `--agentv-include-answers`, it counted beside the line of all."""
    later = ANSWERS[2].replace(timestamp="2026-01-02")
    whole = combined([*ANSWERS[:2], later], lost=[DOWN], with_answers=in_full)
    first = first_answer(whole, HALF)
    assert first is not None
    assert (first.repeat, first.score, moment_of(first)) == (None, 1.0, moment_of(whole))
    assert (cost_of(first), first.attempts, first.judge_metrics) == (4 * 0.25, 4, JUDGES)


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
