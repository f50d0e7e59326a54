"""What decides a verdict at its edges: limits that are just reached, signs, errors, and what is required."""

import asyncio
import json
import math
from typing import Any

import pytest
from pydantic import Field

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.results import Judgement, Threshold, decide_status
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.shared import with_requirement
from pytest_agentv.model.messages import Message, ToolCall, TraceSummary
from pytest_agentv.model.results import EvaluatorResult, Score, clamp_score

from .conftest import CASE


def test_what_is_required_and_unmet_fails_at_any_score() -> None:
    assert decide_status(1.0, 0.5, ("polite",)) == "fail"
    assert decide_status(1.0, 0.5, ()) == "pass"
    judgement = Judgement((EvaluatorResult("a", "contains", 1.0, unmet_required=("polite",)),), Threshold(0.5, "case"))
    assert judgement.status(judgement.combined) == "fail"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, True, None, "1"])
def test_what_is_no_finite_number_counts_as_0(value: Any) -> None:
    assert clamp_score(value) == 0.0


def test_a_required_check_that_could_not_judge_is_an_error_and_not_unmet(bench) -> None:
    result = bench.judged({"tool-called": "search", "required": True}, "x", reports_calls=False)
    assert result.error is not None
    assert result.unmet_required is None


def test_a_required_evaluator_adds_to_what_it_found_unmet(bench) -> None:
    evaluator = bench.one({"contains": "x", "required": True})
    score = with_requirement(evaluator, Score(0.2, misses=("lacks x",), unmet_required=("[a] A",)), 0.5)
    assert score.unmet_required == ("contains: x: lacks x", "[a] A")


FIELDS = "field_accuracy"


class Own(Evaluator):
    """A kind whose key `negate` is its own."""

    kind = "own"
    negate: bool = Field(default=True, description="its own")

    async def evaluate(self, context: Context) -> Score:
        return Score(1.0)


def test_a_key_of_a_kinds_own_turns_nothing_round() -> None:
    assert asyncio.run(run_evaluator(Own(), Context(CASE, Prompt("q"), "x"))).score == 1.0


def test_a_required_field_has_to_be_there_at_any_threshold(bench) -> None:
    result = bench.judged({"field": "price", "required": True}, "{}", threshold=0.0)
    assert result.unmet_required is not None
    assert bench.judged({"field": "price", "required": True}, '{"price": 1}', threshold=0.0).unmet_required is None


@pytest.mark.parametrize(("given", "score"), [(-104, 1.0), (-96, 1.0), (-110, 0.0), (104, 0.0)])
def test_a_relative_tolerance_of_a_negative_number_is_a_share_of_its_size(bench, given: float, score: float) -> None:
    case = CASE.replace(expected_messages=({"role": "assistant", "content": {"a": -100}},))
    field = {"path": "a", "match": "numeric_tolerance", "tolerance": 0.05, "relative": True}
    assert bench.judged({"field_accuracy": [field]}, json.dumps({"a": given}), case=case).score == score


def test_limits_of_calls_may_just_be_reached(bench, called) -> None:
    check = {"tool_trajectory": {"maximums": {"a": 2}, "max_calls": 3}}
    assert bench.judged(check, "x", **called("a", "a", "b")).score == 1.0
    assert bench.judged(check, "x", **called("a", "b", "b", "b")).score == 0.0
    assert bench.judged(check, "x", **called("a", "a", "a")).score == 0.0


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


@pytest.mark.parametrize(("count", "score"), [(0, 0.0), (1, 0.0), (2, 1.0), (3, 0.0)])
def test_a_number_of_calls_is_exact(bench, called, count: int, score: float) -> None:
    assert bench.judged({"tool-called": "a", "times": 2}, "x", **called(*["a"] * count)).score == score


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
        (0, [ToolCall("rm", '{"path": "/')], None, None),
        (1, [FITS, FITS, TOLD_NOTHING], 0.0, 1.0),
        (3, [FITS, TOLD_NOTHING], 0.0, 1.0),
        (0, [OTHER, ToolCall("read")], 1.0, 0.0),
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
        (_negated(PART), "I cannot.", "contains: x (a.b): a.b is missing: the answer holds no JSON"),
        (_negated({"not-contains": "x", "path": "a.b"}), "{}", "not-contains: x (a.b): a.b is missing"),
        (_negated({"field": {"path": "a", "equals": 1}}), "{}", "field: equals: 1 (a): a is missing"),
        (_negated({"not-field": "a"}), "I cannot.", "not-field (a): the answer holds no JSON"),
        (_negated({"contains": "x"}, PART), "no", "contains: x (a.b): a.b is missing"),
        (_negated({**_negated(PART), "name": "inner"}), "{}", "inner: contains: x (a.b): a.b is missing"),
        (_negated(PART, type="code_judge", path="""echo '{"score": 0}'"""), "{}", "contains: x (a.b): a.b is missing"),
        ({"not-field": {"path": "a", "check": PART}}, '{"a": {"a": 1}}', "a.b is missing: a is no mapping"),
    ],
)
def test_a_check_that_could_not_be_made_is_not_negated_into_a_pass(bench, check, answer, miss):
    result = bench.judged(check, answer)
    assert (result.score, result.error, result.hits) == (0.0, None, ())
    assert result.misses[0].startswith(miss)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (_negated(PART), '{"a": {"b": "y"}}'),
        (_negated({"field": "a"}), "{}"),
        (_negated({"not-field": "a"}), '{"a": 1}'),
        (_negated({**PART, "name": "p"}, {"contains": "x"}, type="weighted_average", weights={"p": 0}), "no"),
    ],
)
def test_a_check_that_was_made_and_does_not_hold_is_negated_into_a_pass(bench, check, answer):
    result = bench.judged(check, answer)
    assert (result.score, result.unchecked) == (1.0, None)


def test_fields_of_no_json_are_not_negated_into_a_pass(bench):
    case = CASE.replace(expected_messages=({"role": "assistant", "content": {"a": 1}},))
    check = {"not-field_accuracy": {"fields": [{"path": "a", "match": "exact"}]}}
    found = [bench.judged(check, answer, case=case) for answer in ("I cannot.", '{"a": 2}')]
    assert [(each.score, each.error) for each in found] == [(0.0, None), (1.0, None)]


@pytest.mark.parametrize("given", ["2025.01.05", "soon", None, 5])
@pytest.mark.parametrize(
    "wrap", [lambda check: {"not-field_accuracy": [check]}, lambda check: _negated({FIELDS: [check]})]
)
def test_a_date_that_cannot_be_read_is_not_negated_into_a_pass(bench, wrap, given):
    case = CASE.replace(expected_messages=({"role": "assistant", "content": {"a": "2025-01-05"}},))
    check = {"path": "a", "match": "date"}
    result = bench.judged(wrap(check), json.dumps({"a": given}), case=case)
    assert (result.score, result.error) == (0.0, None)
    assert bench.judged(wrap(check), '{"a": "2025-01-06"}', case=case).score == 1.0
    assert bench.judged(wrap(check | {"formats": ["YYYY.MM.DD"]}), '{"a": "2025.01.05"}', case=case).score == 0.0


@pytest.mark.parametrize("kind", [FIELDS, f"not-{FIELDS}"])
@pytest.mark.parametrize(("match", "expected"), [("date", "soon"), ("numeric_tolerance", "1,5")])
def test_an_expected_value_that_cannot_be_read_is_an_error_even_if_negated(bench, kind, match, expected):
    case = CASE.replace(expected_messages=({"role": "assistant", "content": {"a": expected}},))
    for check in ({kind: [{"path": "a", "match": match}]}, _negated({kind: [{"path": "a", "match": match}]})):
        result = bench.judged(check, json.dumps({"a": expected}), case=case)
        assert (result.score, result.error_kind) == (0.0, "config")
        assert "the expected 'a' is the text" in (result.error or "")


class Returns(Own):
    """A kind that returns what its case needs."""

    given: Any = None

    async def evaluate(self, context: Context) -> Score:
        return Score(0.0, **self.given)


def test_the_members_of_a_score_of_users_may_have_other_iterables_of_texts_as_the_score_may():
    inner = EvaluatorResult("b", "own", 1.0, misses=iter(["x"]))  # type: ignore[arg-type]
    member = EvaluatorResult("a", "own", 1.0, hits={"y"}, warnings={"w": 1}.keys(), evaluator_results=[inner])  # type: ignore[arg-type]
    given = {"hits": {"z"}, "results": [member]}
    result = asyncio.run(run_evaluator(Returns(given=given), Context(CASE, Prompt("q"), "x")))
    assert (result.error, result.hits) == (None, ("z",))
    (kept,) = result.evaluator_results
    assert (kept.hits, kept.warnings, kept.evaluator_results[0].misses) == (("y",), ("w",), ("x",))


def test_lists_in_place_of_tuples_in_a_score_of_users_are_read_back_as_tuples():
    inner = EvaluatorResult("c", "own", 1.0, hits=["h"])  # type: ignore[arg-type]
    member = EvaluatorResult("b", "own", 1.0, evaluator_results=[inner], warnings=["w"])  # type: ignore[arg-type]
    given = {"results": [member], "hits": ["h"], "unmet_required": ["u"], "judge_retries": 2.0}
    result = asyncio.run(run_evaluator(Returns(given=given), Context(CASE, Prompt("q"), "x")))
    assert (result.error, result.unmet_required) == (None, ("u",))
    assert EvaluatorResult.from_plain(json.loads(json.dumps(result.to_plain()))) == result


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
    judgement = Judgement((alone,), Threshold(0.0, "case"))
    assert (judgement.broken, judgement.status(judgement.combined)) == (alone, "error")
    assert alone.error is not None
    assert "with an empty `error`" in alone.error
    assert alone.error_kind == "timeout"
    composite = Composite(evaluators=(Breaks(name="b", negate=negate),), aggregator=WeightedAverage())
    inside = asyncio.run(run_evaluator(composite, context))
    assert inside.error == f"member 'b' could not judge: {alone.error}"


@pytest.mark.parametrize("check", ["tool-called", "not-tool-called"])
def test_arguments_may_be_reported_as_json_in_a_text(bench, called, check):
    def score(given):
        return bench.judged({check: "rm", "args": {"path": "/"}}, "x", **called(ToolCall("rm", given))).score

    is_found = 1.0 if check == "tool-called" else 0.0
    assert (score('{"path": "/", "force": true}'), score({"path": "/"})) == (is_found, is_found)
    assert (score('{"path": "x"}'), score("/"), score("[]")) == (1 - is_found,) * 3


def test_texts_of_a_score_may_come_in_any_collection():
    class Collects(Evaluator):
        kind = "collects"

        async def evaluate(self, context: Context) -> Score:
            texts: Any = {"hits": {"a"}, "misses": (each for each in "bc"), "warnings": {"w": 1}.keys()}
            return Score(0.5, **texts)

    result = asyncio.run(run_evaluator(Collects(), Context(CASE, Prompt("q"), "x")))
    assert (result.error, result.hits, result.misses) == (None, ("a",), ("b", "c"))
