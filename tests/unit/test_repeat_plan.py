"""How many answers are asked: for all answers that could come, the verdict and the rate are those of all of them."""

import itertools
import math
from collections.abc import Iterator, Sequence

import pytest
from thorough import tries

from pytest_agentv.engine.repeats import RepeatPlan, combine_answers
from pytest_agentv.model.results import EvalResult


def plan_of(answers: int, rate: float) -> RepeatPlan:
    return RepeatPlan(answers, rate, "file", stops_early=True)


def answers(signs: Sequence[str]) -> list[EvalResult]:
    """Return results of answers: p(ass), f(ail), e(rror)."""
    statuses = {"p": "pass", "f": "fail", "e": "error"}
    plain = EvalResult("2026-11-22", "case", "d", 1.0, (), (), "text", "default", attempts=1)
    return [plain.replace(status=statuses[sign], error="busy" if sign == "e" else None) for sign in signs]


def asked_of(signs: Sequence[str], plan: RepeatPlan) -> list[EvalResult]:
    """Ask as the session does: as many as are wanted at a time."""
    results: list[EvalResult] = []
    while wanted := plan.wanted(results):
        results += answers(signs[len(results) : len(results) + wanted])
    return results


def all_signs(most: int, alphabet: str) -> Iterator[tuple[str, ...]]:
    for count in range(1, most + 1):
        yield from itertools.product(alphabet, repeat=count)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_the_early_stop_never_changes_a_verdict_and_asks_no_answer_in_vain(rate: float) -> None:
    for signs in all_signs(tries(5, 6), "pfe"):
        plan = plan_of(len(signs), rate)
        asked, everything = asked_of(signs, plan), answers(signs)
        assert plan.verdict(asked) == plan.verdict(everything)
        if rate > 0:
            assert all(plan.verdict(asked[:count]) is None for count in range(len(asked)))


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
