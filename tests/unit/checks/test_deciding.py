"""What decides a verdict at its edges: limits that are just reached, signs, errors, and what is required."""

import asyncio
import math
from typing import Any

import pytest
from pydantic import Field

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.results import Judgement
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.model.messages import Message, ToolCall, TraceSummary
from pytest_agentv.model.results import EvaluatorResult, Score, clamp_score

from .conftest import CASE


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, True, None, "1"])
def test_what_is_no_finite_number_counts_as_0(value: Any) -> None:
    assert clamp_score(value) == 0.0


class Own(Evaluator):
    """A kind whose key `negate` is its own."""

    kind = "own"
    negate: bool = Field(default=True, description="its own")

    async def evaluate(self, context: Context) -> Score:
        return Score(1.0)


def _summary(count: int, **calls: int) -> TraceSummary:
    return TraceSummary(count, tuple(calls), calls, 0, cost_usd=0.1)


@pytest.mark.parametrize("check", [{"not-tool-called": "rm"}, {"tool_trajectory": {"forbidden": ["rm"]}}])
def test_a_summary_of_mere_metrics_does_not_say_that_nothing_was_called(bench, check) -> None:
    given = {"reports_calls": False, "output_messages": (Message("assistant", "x"),)}
    assert bench.judged(check, "x", trace_summary=_summary(0), **given).error is not None
    assert bench.judged(check, "x", trace_summary=_summary(2, read=2), **given).score == 1.0


@pytest.mark.parametrize("check", [{"tool-called": "rm"}, {"not-tool-called": "rm"}])
def test_mere_counts_do_not_tell_arguments(bench, check) -> None:
    given = {"reports_calls": False, "trace_summary": _summary(1, rm=1)}
    assert bench.judged({**check, "args": {"path": "/"}}, "x", **given).error is not None
    assert bench.judged(check, "x", **given).error is None


SILENT = {"tool-called": "rm", "args": {"path": "/"}}
IN_ORDER = {"tool_trajectory": {"mode": "in_order", "expected": [{"tool": "rm", "args": {"path": "/"}}]}}


@pytest.mark.parametrize("check", [SILENT, IN_ORDER])
def test_arguments_that_are_not_reported_are_no_pass_when_they_are_negated(bench, called, check) -> None:
    ((kind, value), *more) = check.items()
    negated = {f"not-{kind}": value, **dict(more)}
    silent, cut, other, same = (
        called(ToolCall("rm", *given)) for given in ((), ('{"path": "/',), ({"path": "x"},), ({"path": "/"},))
    )
    for given, fault in ((silent, "does not report its arguments"), (cut, "reports arguments that are no JSON")):
        result = bench.judged(negated, "x", **given)
        assert (result.score, result.error_kind) == (0.0, "config")
        assert result.error == f"A call of 'rm' {fault}: there is nothing to negate"
    assert (bench.judged(check, "x", **silent).score, bench.judged(check, "x", **silent).error) == (0.0, None)
    assert [bench.judged(negated, "x", **given).score for given in (other, same)] == [1.0, 0.0]
    assert bench.judged(negated, "x", **called("read")).score == 1.0
    assert bench.judged(negated, "x", **called(ToolCall("rm", ""))).score == 1.0, "it has no arguments"


FITS, OTHER, TOLD_NOTHING = ToolCall("rm", {"path": "/"}), ToolCall("rm", {"path": "x"}), ToolCall("rm")


@pytest.mark.parametrize(
    ("times", "calls", "plain", "negated"),
    [
        (0, [TOLD_NOTHING], None, None),
        (1, [FITS, TOLD_NOTHING], None, None),
        (1, [TOLD_NOTHING], 0.0, None),
        (3, [FITS, TOLD_NOTHING], 0.0, 1.0),
    ],
)
def test_a_number_of_calls_does_not_pass_for_arguments_that_are_not_reported(
    bench, called, times: int, calls: list[ToolCall], plain: float | None, negated: float | None
) -> None:
    value = {"name": "rm", "args": {"path": "/"}, "times": times}
    for kind, score in (("tool-called", plain), ("not-tool-called", negated)):
        result = bench.judged({kind: value}, "x", **called(*calls))
        assert (result.score, result.error_kind) == ((0.0, "config") if score is None else (score, None))


def test_a_limit_that_is_not_kept_decides_without_arguments(bench, called) -> None:
    value = {**IN_ORDER["tool_trajectory"], "max_calls": 0}
    assert bench.judged({"not-tool_trajectory": value}, "x", **called("rm")).score == 1.0


def _negated(*members, **aggregator):
    return {"not-composite": {"assert": list(members), "aggregator": aggregator or {"type": "weighted_average"}}}


PART = {"contains": "x", "path": "a.b"}


@pytest.mark.parametrize(
    ("check", "answer", "miss"),
    [
        (_negated(PART), '{"a": {}}', "contains: x (a.b): a.b is missing: a has no keys"),
        (_negated({"not-field": "a"}), "I cannot.", "not-field (a): the answer holds no JSON"),
        (_negated({"contains": "x"}, PART), "no", "contains: x (a.b): a.b is missing"),
        (_negated({**_negated(PART), "name": "inner"}), "{}", "inner: contains: x (a.b): a.b is missing"),
        ({"not-field": {"path": "a", "check": PART}}, '{"a": {"a": 1}}', "a.b is missing: a is no mapping"),
    ],
)
def test_a_check_that_could_not_be_made_is_not_negated_into_a_pass(bench, check, answer, miss):
    result = bench.judged(check, answer)
    assert (result.score, result.error, result.hits) == (0.0, None, ())
    assert result.misses[0].startswith(miss)


@pytest.mark.parametrize(
    ("given", "recorded"),
    [([EvaluatorResult("b", "own", 1.0)], (EvaluatorResult("b", "own", 1.0),)), ([5], None), (5, None)],
)
def test_members_of_an_error_of_users_are_recorded_if_they_can_be_read_again(given, recorded):
    class Raises(Own):
        async def evaluate(self, context: Context) -> Score:
            error = EvaluatorError("no judgement")
            error.results = given
            raise error

    result = asyncio.run(run_evaluator(Raises(), Context(CASE, Prompt("q"), "x")))
    assert result.error == "no judgement"
    assert result.evaluator_results == recorded


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize("negate", [False, True])
def test_an_error_without_a_text_is_an_error_everywhere(text, negate):
    class Breaks(Evaluator):
        kind = "breaks"

        async def evaluate(self, context: Context) -> Score:
            return Score(0.0, error=text, error_kind="timeout")

    context = Context(CASE, Prompt("q"), "x")
    alone = asyncio.run(run_evaluator(Breaks(negate=negate), context))
    judgement = Judgement.of((alone,), 0.0)
    assert (judgement.broken, judgement.status) == (alone, "error")
    assert alone.error is not None
    assert "with an empty `error`" in alone.error
    assert alone.error_kind == "timeout"
    composite = Composite(evaluators=(Breaks(name="b", negate=negate),), aggregator=WeightedAverage())
    inside = asyncio.run(run_evaluator(composite, context))
    assert inside.error == f"member 'b' could not judge: {alone.error}"
