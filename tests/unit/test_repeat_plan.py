"""How many answers are asked, and what they make of a case."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from thorough import tries

from pytest_agentv.engine.repeats import RepeatPlan, answers_of, combine_answers, confirmed_by, judged_anew, stops_early
from pytest_agentv.engine.results import Threshold
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage
from pytest_agentv.model.results import ErrorDetail, EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.reports import judged_cases
from pytest_agentv.reports.figures import is_part
from pytest_agentv.reports.totals import total_figures
from pytest_agentv.stats.intervals import verdict

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


def test_no_answer_is_never_a_pass_not_even_where_none_has_to() -> None:
    assert combine_answers(answers("eee"), plan_of(3, 0.0), together=True).status == "error"
    assert combine_answers(answers("eef"), plan_of(3, 0.0), together=True).status == "pass"


PRICED = ExecutionMetrics(TokenUsage(1, 2), 0.25)


@pytest.mark.parametrize(
    ("own", "fresh", "known", "is_whole"),
    [
        ([PRICED] * 2, [None] * 3, "$0.5000, known for 2 of 5 answers", False),
        ([None] * 2, [PRICED] * 3, "$0.7500, known for 3 of 5 answers", False),
        ([PRICED], [None] * 3, "$0.2500, known for 1 of 4 answers", False),
        ([PRICED, None], [None] * 3, "$0.2500, known for 1 of 5 answers", False),
        ([PRICED] * 2, [PRICED, None], "$0.7500, known for 3 of 4 answers", False),
        ([PRICED] * 2, [PRICED] * 3, "$1.2500", True),
        ([None] * 2, [None] * 3, None, True),
        (["cached"] * 2, [PRICED] * 3, "$0.7500", True),
        (["cached"] * 2, [None, PRICED], "$0.2500, known for 1 of 2 answers", False),
        (["cached"], ["cached"], None, True),
    ],
)
def test_a_summary_does_not_say_that_the_cost_of_fresh_answers_is_known(own, fresh, known, is_whole) -> None:
    plan = plan_of(len(own), 0.5)
    results, more = ([_costing(each) for each in part] for part in (own, fresh))
    first = results[0] if len(own) == 1 else combine_answers(results, plan, together=True)
    combined = confirmed_by(first, more, plan_of(len(fresh), 0.5))
    figures = {each.name: each.value for each in total_figures([combined], None)}
    assert figures.get("Cost") == known
    assert [is_part(combined, "priced"), is_part(combined, "metered")] == [not is_whole] * 2
    assert combined.cached is (True if own == fresh == ["cached"] else None)
    assert judged_cases.is_part(combined.to_plain(), "priced") is not is_whole
    kept = EvalResult.from_plain(combined.to_plain())
    assert {each.name: each.value for each in total_figures([kept], None)} == figures


def _costing(metrics: ExecutionMetrics | str | None) -> EvalResult:
    if isinstance(metrics, str):
        return answer("p", cached=True, execution_metrics=PRICED)
    return answer("p", execution_metrics=metrics or ExecutionMetrics(duration_ms=1.0))


def test_a_set_up_that_fails_is_the_error_itself() -> None:
    broken = answer("e").replace(error_detail=ErrorDetail("setup", "config"))
    assert combine_answers([broken], plan_of(5, 0.8), together=False) is broken


THRESHOLD = Threshold(0.5, "case")


@pytest.mark.parametrize(
    ("plan", "threshold", "status"),
    [
        (plan_of(5, 0.8, stops_early=False), 0.5, "fail"),
        (plan_of(5, 0.6, stops_early=False), 0.5, "pass"),
        (plan_of(5, 0.8, stops_early=False), 0.2, "pass"),
        (plan_of(4, 0.8), 0.5, None),  # other answers are wanted
    ],
)
def test_kept_answers_are_held_against_the_rules_of_now(plan: RepeatPlan, threshold: float, status: str | None) -> None:
    kept = combine_answers(answers("ppfpf"), plan_of(5, 0.8, stops_early=False), together=True)
    again = judged_anew(kept, plan, Threshold(threshold, "ini"))
    assert (again and again.status) == status
    if again is not None and again.repeat is not None:
        assert again.repeat.min_pass_rate == plan.min_pass_rate
        assert verdict(again.repeat.passes, again.repeat.judged - again.repeat.passes, 5, plan.min_pass_rate) == status


@pytest.mark.parametrize(
    ("signs", "min_rate", "rate"), [("pfpp", 0.2, 2 / 3), ("fpff", 0.2, 1 / 3), ("ppp", 0.4, 1.0), ("pfpp", 0.6, 2 / 3)]
)
def test_a_kept_case_keeps_the_stop_that_its_number_of_answers_comes_from(
    signs: str, min_rate: float, rate: float
) -> None:
    """After a resumed run with another rate, the same answers passed more often."""
    kept = combine_answers(answers(signs), plan_of(5, 0.6), together=False)
    again = judged_anew(kept, plan_of(5, min_rate), THRESHOLD)
    assert kept.repeat is not None
    assert kept.repeat.pass_rate == pytest.approx(rate)
    assert again is not None
    assert again.repeat is not None
    names = ("stopped", "pass_rate", "pass_rate_low", "pass_rate_high", "flaky", "asked")
    assert [getattr(again.repeat, name) for name in names] == [getattr(kept.repeat, name) for name in names]
    assert again.repeat.needed == plan_of(5, min_rate).needed


@pytest.mark.parametrize(("threshold", "rate"), [(0.2, 1.0), (0.5, 2 / 3), (0.9, 1 / 3)])
def test_the_rate_of_kept_answers_is_unbiased_with_other_rules(threshold: float, rate: float) -> None:
    """Over all orders of five answers with three equally likely scores."""
    rates, plan = [], plan_of(5, 0.6)
    for scores in itertools.product((0.25, 0.6, 1.0), repeat=5):
        every = [answer("p" if score >= 0.5 else "f").replace(score=score) for score in scores]
        ends = next(count for count in range(1, 6) if plan.verdict(every[:count]) is not None)
        again = judged_anew(
            combine_answers(every[:ends], plan, together=False), plan_of(5, 0.0), Threshold(threshold, "ini")
        )
        assert again is not None
        assert again.repeat is not None
        assert again.repeat.pass_rate is not None
        rates.append(again.repeat.pass_rate)
    assert math.fsum(rates) / len(rates) == pytest.approx(rate)


@pytest.mark.parametrize("more", [{"unmet_required": ("polite",)}, {"assertion": "too slow"}])
def test_a_lower_threshold_passes_no_answer_that_more_than_its_score_failed(more: dict[str, Any]) -> None:
    """Its score was too low as well, so the counts of its case did not tell. A resumed run was green."""
    low = answer("f").replace(score=0.4)
    kept = combine_answers([low, low.replace(**more)], plan_of(2, 1.0), together=True)
    assert kept.repeat is not None
    assert kept.repeat.beyond_scores
    lower = Threshold(0.2, "command line")
    assert judged_anew(kept, plan_of(2, 1.0), lower) is None
    assert answers_of(kept, lower, in_full=False) == ()
    assert judged_anew(combine_answers([low, low], plan_of(2, 1.0), together=True), plan_of(2, 1.0), lower) is not None


def test_answers_that_were_not_asked_are_wanted_when_nothing_stops_early() -> None:
    kept = combine_answers(answers("ff"), plan_of(5, 0.8), together=False)
    assert judged_anew(kept, plan_of(5, 0.8), THRESHOLD) == kept.replace(threshold_source="case")
    assert judged_anew(kept, plan_of(5, 0.8, stops_early=False), THRESHOLD) is None
