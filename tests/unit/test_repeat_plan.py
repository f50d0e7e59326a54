"""How many answers are asked, and what they make of a case."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from thorough import tries

from pytest_agentv.engine.repeats import RepeatPlan, combine_answers, confirmed_by, stops_early
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import ErrorDetail, EvalResult

RATES = (0.0, 0.2, 0.5, 0.8, 1.0)


def plan_of(answers: int, rate: float, *, stops_early: bool = True) -> RepeatPlan:
    return RepeatPlan(answers, rate, "file", stops_early)


def answer(sign: str, **changes: object) -> EvalResult:
    """Return the result of an answer: p(ass), f(ail), e(rror)."""
    status = {"p": "pass", "f": "fail", "e": "error"}[sign]
    score = {"p": 1.0, "f": 0.25, "e": 0.0}[sign]
    result = EvalResult(
        timestamp="2026-11-22T10:00:00.000Z",
        eval_id="case",
        dataset="d",
        score=score,
        hits=(),
        misses=(),
        candidate_answer=f"answer {sign}",
        target="default",
        threshold=None if sign == "e" else 0.5,
        error="HTTP 503\nbusy" if sign == "e" else None,
        error_detail=ErrorDetail("provider", "network") if sign == "e" else None,
    )
    return result.replace(status=status, attempts=1, duration_ms=100.0, **changes)


def answers(signs: str) -> list[EvalResult]:
    return [answer(sign) for sign in signs]


def asked_of(signs: Sequence[str], plan: RepeatPlan) -> list[EvalResult]:
    """Ask as the session does: as many as are wanted at a time."""
    results: list[EvalResult] = []
    while wanted := plan.wanted(results):
        results += answers("".join(signs[len(results) : len(results) + wanted]))
    return results


def all_signs(most: int, alphabet: str) -> Iterator[tuple[str, ...]]:
    for count in range(1, most + 1):
        yield from itertools.product(alphabet, repeat=count)


@pytest.mark.parametrize("rate", RATES)
def test_the_early_stop_never_changes_a_verdict_and_asks_no_answer_in_vain(rate: float) -> None:
    for signs in all_signs(tries(5, 6), "pfe"):
        plan = plan_of(len(signs), rate)
        asked, everything = asked_of(signs, plan), answers("".join(signs))
        assert plan.verdict(asked) == plan.verdict(everything)
        if rate > 0:
            assert all(plan.verdict(asked[:count]) is None for count in range(len(asked)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"baseline": Path("b")}, False),
        ({"update_baseline": Path("b")}, False),
        ({"baseline": Path("b"), "stop": "certain"}, True),
        ({"stop": "never"}, False),
    ],
)
def test_all_answers_are_asked_for_a_baseline_or_on_demand(options: dict[str, Any], expected: bool) -> None:
    assert stops_early(RunOptions(**options)) is expected


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("rate", [0.2, 0.6, 0.8, 1.0])
def test_the_pass_rate_has_no_bias_whatever_was_not_asked(p: float, rate: float) -> None:
    expected = 0.0
    for signs in itertools.product("pf", repeat=5):
        weight = math.prod(p if sign == "p" else 1 - p for sign in signs)
        plan = plan_of(5, rate)
        figures = combine_answers(asked_of(signs, plan), plan, together=False).repeat
        assert figures is not None
        assert figures.pass_rate is not None
        expected += weight * figures.pass_rate
    assert expected == pytest.approx(p, abs=1e-9)


def test_a_case_is_shown_by_its_first_failing_answer_and_counts_all() -> None:
    usage = TokenUsage(10, 5)
    results = [
        answer("p", execution_metrics=ExecutionMetrics(usage, 0.5, 20), request_attempts=1),
        answer("f", execution_metrics=ExecutionMetrics(usage, 0.25, 30), candidate_answer="bad"),
        answer("f", execution_metrics=ExecutionMetrics(usage, None, 30)),
        answer("e"),
        answer(
            "p", trace_summary=TraceSummary(1, ("look",), {"look": 1}, 0), execution_metrics=ExecutionMetrics(usage)
        ),
    ]
    combined = combine_answers(results, plan_of(5, 0.8, stops_early=False), together=True)
    assert (combined.status, combined.candidate_answer, combined.score) == ("fail", "bad", 0.625)
    assert combined.execution_metrics == ExecutionMetrics(TokenUsage(40, 20), None, 80)
    assert (combined.attempts, combined.duration_ms, combined.request_attempts) == (5, 500.0, 1)
    figures = combined.repeat
    assert figures is not None
    assert (figures.planned, figures.asked, figures.judged, figures.passes, figures.errors) == (5, 5, 4, 2, 1)
    assert (figures.needed, figures.scores, figures.stopped) == (4, (1, 0.25, 0.25, 1), None)
    assert (figures.pass_rate, figures.flaky, figures.same_text) == (0.5, True, False)
    assert figures.tools == ((), (), (), ("look",))


def test_the_interval_of_three_of_five_is_wilsons() -> None:
    figures = combine_answers(answers("ppfpf"), plan_of(5, 0.8, stops_early=False), together=True).repeat
    assert figures is not None
    assert figures.pass_rate_low == pytest.approx(0.2307, abs=1e-4)
    assert figures.pass_rate_high == pytest.approx(0.8824, abs=1e-4)


def test_an_open_verdict_is_an_error_that_says_what_is_missing() -> None:
    combined = combine_answers(answers("ppepe"), plan_of(5, 0.8), together=True)
    assert combined.status == "error"
    text = "cannot be judged: 3 answers pass, 4 of 5 are needed, 2 could not be had (HTTP 503)"
    assert combined.error == text
    assert combined.misses == (f"Error: {text}",)
    assert combined.error_detail == ErrorDetail("provider", "network")


def test_no_answer_is_never_a_pass_not_even_where_none_has_to() -> None:
    assert combine_answers(answers("eee"), plan_of(3, 0.0), together=True).status == "error"
    assert combine_answers(answers("eef"), plan_of(3, 0.0), together=True).status == "pass"


def test_a_verdict_that_is_certain_stands_although_answers_are_missing() -> None:
    passed = combine_answers(answers("ppepp"), plan_of(5, 0.8), together=True)
    failed = combine_answers(answers("fef"), plan_of(5, 0.8), together=False)
    assert (passed.status, passed.error, passed.candidate_answer) == ("pass", None, "answer p")
    assert (failed.status, failed.error, failed.repeat and failed.repeat.errors) == ("fail", None, 1)


PRICED = ExecutionMetrics(TokenUsage(1, 2), 0.25)
TIMED = ExecutionMetrics(duration_ms=1.0)


@pytest.mark.parametrize(
    ("own", "fresh", "cost", "tokens"),
    [
        ([PRICED] * 2, [], 0.5, TokenUsage(2, 4)),
        ([PRICED, TIMED], [], None, None),
        ([PRICED, ExecutionMetrics(None, 0.25)], [], 0.5, None),
        ([TIMED] * 2, [], None, None),
        ([PRICED] * 2, [PRICED] * 3, 1.25, TokenUsage(5, 10)),
        ([PRICED] * 2, [PRICED, TIMED], None, None),
        ([TIMED], [PRICED] * 2, None, None),
    ],
)
def test_a_cost_of_the_answers_is_known_only_if_that_of_each_is(own: Any, fresh: Any, cost: Any, tokens: Any) -> None:
    results, more = ([answer("p", execution_metrics=each) for each in part] for part in (own, fresh))
    combined = combine_answers(results, plan_of(len(own), 0.5), together=True)
    if fresh:
        combined = confirmed_by(combined, more, plan_of(len(fresh), 0.5))
    metrics = combined.execution_metrics
    assert metrics is not None
    assert (metrics.cost_usd, metrics.token_usage) == (cost, tokens)


def test_a_case_is_cached_if_all_its_answers_are() -> None:
    cached, paid = answer("p", cached=True), answer("p")
    mixed, known = (combine_answers([cached, each], plan_of(2, 1.0), together=True) for each in (paid, cached))
    assert [(each.cached, each.repeat and each.repeat.cached) for each in (mixed, known)] == [(None, 1), (True, 2)]


def test_a_set_up_that_fails_is_the_error_itself() -> None:
    broken = answer("e").replace(error_detail=ErrorDetail("setup", "config"))
    assert combine_answers([broken], plan_of(5, 0.8), together=False) is broken


def test_all_answers_are_included_on_demand() -> None:
    combined = combine_answers(answers("pf"), plan_of(2, 0.5), together=True, with_answers=True)
    assert combined.answers is not None
    assert [each["candidate_answer"] for each in combined.answers] == ["answer p", "answer f"]
    assert "eval_id" not in combined.answers[0]
