"""`tool_trajectory`: the scenarios of the requirement and AgentV's worked samples, all or nothing for orders."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_equal
from pytest_agentv.evaluators.calls import ExpectedCall, ToolTrajectory, args_match, reported_calls, score_trajectory
from pytest_agentv.evaluators.context import Context
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall, TraceEvent, TraceSummary, traced_calls
from pytest_agentv.model.results import Score

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())
NO_TRACE = "No trace available for evaluation"


def no_trace():
    """Return what an answer scores whose tool calls are not known."""
    error = (
        f"{NO_TRACE}: target '' reported neither messages nor a trace. "
        "Let it report its tool calls, as docs/evaluators.md#tool_trajectory shows"
    )
    return Score(0.0, misses=(NO_TRACE,), error=error, error_kind="config")


def context(*calls: ToolCall | str, **fields) -> Context:
    called = tuple(ToolCall(call) if isinstance(call, str) else call for call in calls)
    answer = {"output_messages": (Message("assistant", "x", called),), **fields}
    return Context(CASE, Prompt("q"), "x", **answer)


def summary(**counts: int) -> TraceSummary:
    return TraceSummary(sum(counts.values()), tuple(sorted(counts)), counts, 0)


def any_order(**minimums: float) -> ToolTrajectory:
    return ToolTrajectory(mode="any_order", minimums=minimums)


def sequence(mode, *expected: ExpectedCall | str) -> ToolTrajectory:
    items = tuple(ExpectedCall(tool=item) if isinstance(item, str) else item for item in expected)
    return ToolTrajectory(mode=mode, expected=items)


def evaluate(config: ToolTrajectory, given: Context) -> Score:
    return asyncio.run(config.evaluate(given))


@pytest.mark.scenario("Minimum calls met - PASS (from outputMessages)")
def test_enough_calls_in_the_output_messages_score_1():
    score = evaluate(any_order(semanticSearch=3), context(*["semanticSearch"] * 3))
    assert score == Score(1.0, hits=("semanticSearch called 3 times (minimum: 3)",))


@pytest.mark.scenario("Minimum calls met - PASS (fallback to trace)")
@pytest.mark.parametrize(
    "fields",
    [
        {"trace_summary": summary(semanticSearch=3)},
        {"trace": (TraceEvent("tool_call", name="semanticSearch"), TraceEvent("tool_result")) * 3},
        {"output_messages": (Message("assistant", "x"),), "trace_summary": summary(semanticSearch=3)},
    ],
)
def test_without_calls_in_output_messages_the_trace_counts(fields):
    score = evaluate(any_order(semanticSearch=3), context(**{"output_messages": None, **fields}))
    assert score == Score(1.0, hits=("semanticSearch called 3 times (minimum: 3)",))


@pytest.mark.scenario("Minimum calls not met - FAIL")
def test_too_few_calls_score_0():
    score = evaluate(any_order(semanticSearch=3), context("semanticSearch"))
    assert score == Score(0.0, misses=("semanticSearch called 1 time (minimum: 3)",))


@pytest.mark.scenario("Multiple minimums - partial pass")
def test_the_score_is_the_share_of_the_minimums_met():
    score = evaluate(any_order(toolA=2, toolB=2), context("toolA", "toolA", "toolB"))
    hits = ("toolA called 2 times (minimum: 2)",)
    assert score == Score(0.5, hits=hits, misses=("toolB called 1 time (minimum: 2)",))


def test_a_minimum_of_0_is_met_by_a_tool_that_was_not_called():
    score = evaluate(any_order(A=2, B=2, C=0), context("A", "B", "A"))
    assert score.value == pytest.approx(2 / 3)
    assert score.hits == ("A called 2 times (minimum: 2)", "C called 0 times (minimum: 0)")
    assert score.misses == ("B called 1 time (minimum: 2)",)


def test_no_minimums_score_1():
    score = evaluate(ToolTrajectory(mode="any_order", minimums={}), context("A"))
    assert score == Score(1.0, hits=("No tool requirements specified",))


@pytest.mark.scenario("In-order sequence - PASS")
def test_other_calls_between_those_in_order_do_no_harm():
    score = evaluate(sequence("in_order", "A", "B", "C"), context("A", "X", "B", "Y", "C"))
    assert score == Score(1.0, hits=("Found A at position 0", "Found B at position 2", "Found C at position 4"))


@pytest.mark.scenario("In-order sequence - FAIL (wrong order)")
def test_the_wrong_order_scores_0_and_says_what_came_too_early():
    score = evaluate(sequence("in_order", "A", "B"), context("B", "A"))
    miss = "Expected B at position 1, not found in remaining trace; it was called too early, at position 0"
    assert score == Score(0.0, hits=("Found A at position 1",), misses=(miss,))


def test_a_missing_tool_scores_0_and_does_not_hide_those_after_it():
    score = evaluate(sequence("in_order", "A", "Z", "B"), context("A", "B"))
    assert score.value == 0
    assert score.hits == ("Found A at position 0", "Found B at position 1")
    assert score.misses == ("Expected Z at position 1, not found in remaining trace",)


def test_a_call_that_was_found_already_did_not_come_too_early():
    score = evaluate(sequence("in_order", "A", "A"), context("A"))
    assert score.misses == ("Expected A at position 1, not found in remaining trace",)


def test_a_call_with_other_arguments_is_used_up():
    expected = (
        ExpectedCall(tool="s", args={"q": "x"}),
        ExpectedCall(tool="s", args="any"),
        ExpectedCall(tool="w", args={"loc": {"city": "P"}}),
    )
    calls = (
        ToolCall("s", {"q": "y"}),
        ToolCall("s", {"q": "x", "n": 1}),
        ToolCall("w", {"loc": {"city": "P", "z": 1}}),
    )
    score = evaluate(sequence("in_order", *expected), context(*calls))
    assert score.value == 0
    assert score.hits == ("Found s at position 1",)
    assert score.misses == (
        "Expected s at position 0: tool found at 0 but args mismatch",
        "Expected w at position 2: tool found at 2 but args mismatch",
    )


def test_even_no_arguments_need_an_input():
    score = evaluate(sequence("in_order", ExpectedCall(tool="s", args={})), context("s"))
    assert (score.value, score.misses) == (0.0, ("Expected s at position 0: tool found at 0 but args mismatch",))
    assert score.unknown == "A call of 's' does not report its arguments"


@pytest.mark.scenario("Exact sequence - PASS")
def test_exactly_the_expected_calls_score_1():
    score = evaluate(sequence("exact", "A", "B"), context("A", "B"))
    assert score == Score(1.0, hits=("Position 0: A", "Position 1: B"))


@pytest.mark.scenario("Exact sequence - FAIL (extra tools)")
def test_an_extra_call_scores_0_and_is_named():
    score = evaluate(sequence("exact", "A", "B"), context("A", "B", "C"))
    misses = ("Expected 2 tool calls, got 3", "Position 2: unexpected C")
    assert score == Score(0.0, hits=("Position 0: A", "Position 1: B"), misses=misses)


def test_wrong_and_missing_calls_are_named_by_position():
    score = evaluate(sequence("exact", "A", "B", "C"), context("A", "X"))
    assert score.value == 0
    assert score.hits == ("Position 0: A",)
    assert score.misses == (
        "Expected 3 tool calls, got 2",
        "Position 1: expected B, got X",
        "Position 2: expected C, got nothing",
    )


def test_exact_calls_with_other_arguments_score_0():
    score = evaluate(sequence("exact", ExpectedCall(tool="A", args={"n": 1})), context(ToolCall("A", {"n": True})))
    assert score == Score(0.0, misses=("Position 0: A args mismatch",))


def test_a_message_without_calls_has_missing_calls():
    score = evaluate(sequence("exact", "A"), context())
    assert score == Score(0.0, misses=("Expected 1 tool calls, got 0", "Position 0: expected A, got nothing"))


def test_exactly_no_calls_may_be_expected():
    assert evaluate(sequence("exact"), context()) == Score(1.0, hits=("No tool sequence specified",))
    score = evaluate(sequence("exact"), context("A"))
    assert score == Score(0.0, misses=("Expected 0 tool calls, got 1", "Position 0: unexpected A"))


def test_an_empty_order_is_kept_by_all_calls():
    assert evaluate(sequence("in_order"), context("A")) == Score(1.0, hits=("No tool sequence specified",))


@pytest.mark.scenario("No trace or outputMessages available")
@pytest.mark.parametrize("config", [any_order(A=1), sequence("in_order", "A"), sequence("exact", "A")])
def test_an_answer_without_messages_and_trace_scores_0(config):
    assert evaluate(config, context(output_messages=None)) == no_trace()


@pytest.mark.parametrize("config", [any_order(A=1), sequence("in_order", "A"), sequence("exact", "A")])
def test_a_target_that_gave_a_mere_text_tells_nothing_of_its_calls(config):
    text_only = context(output_messages=(Message("assistant", "done"),)).replace(reports_calls=False)
    assert evaluate(config, text_only) == no_trace()
    assert evaluate(config, text_only.replace(trace=(TraceEvent("tool_call", name="A"),))).value == 1.0


def test_in_a_dry_run_an_answer_without_a_trace_is_no_error():
    given = context(output_messages=None).replace(dry_run=True)
    assert evaluate(any_order(A=1), given) == Score(0.0, misses=(NO_TRACE,), error_kind="config")


def test_numbers_alone_tell_no_order():
    given = context(output_messages=None, trace_summary=summary(A=1))
    assert evaluate(sequence("in_order", "A"), given) == no_trace()


@pytest.mark.scenario("OutputMessages available in evaluator context")
def test_calls_of_all_messages_count_in_order_whatever_the_role():
    messages = (Message("assistant", tool_calls=(ToolCall("A"),)), Message("tool", "x", (ToolCall("B"),)))
    score = evaluate(sequence("exact", "A", "B"), context(output_messages=messages))
    assert score.value == 1


@pytest.mark.scenario("Fallback to trace when outputMessages absent")
@pytest.mark.scenario("TraceEvent without timestamp")
def test_a_trace_gives_the_order_of_its_list_and_the_inputs():
    events = (
        TraceEvent("message", text="hm"),
        TraceEvent("tool_call", name="A", input={"q": "x"}, timestamp="2026-01-02T00:00:00Z"),
        TraceEvent("tool_call", name="B", timestamp="2026-01-01T00:00:00Z"),
        TraceEvent("tool_call"),
    )
    expected = (ExpectedCall(tool="A", args={"q": "x"}), ExpectedCall(tool="B"))
    score = evaluate(sequence("exact", *expected), context(output_messages=None, trace=events))
    assert score.hits == ("Position 0: A", "Position 1: B")
    assert score.misses == ("Expected 2 tool calls, got 3", "Position 2: unexpected (unnamed tool)")


def test_output_messages_come_before_the_trace():
    given = context("A", trace=(TraceEvent("tool_call", name="B"),))
    assert evaluate(sequence("exact", "A"), given).value == 1


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (ABSENT, ABSENT),
        (None, {"q": 1}),
        ("any", ABSENT),
        ({"q": 1}, {"q": 1.0, "extra": 2}),
        ({"q": {"a": [1, None]}}, {"q": {"a": [1, None]}}),
        ([1, 2], [1, 2]),
    ],
)
def test_arguments_that_match(args, given):
    assert args_match(ExpectedCall.model_construct(tool="t", args=args), ToolCall("t", given))


@pytest.mark.parametrize(
    ("args", "given"),
    [
        ({"q": 1}, {"q": True}),
        ({"q": False}, {"q": 0}),
        ({"q": None}, {}),
        ({"q": [1, 2]}, {"q": [2, 1]}),
        ({"q": {"a": 1}}, {"q": {"a": 1, "b": 2}}),
        ({"q": 1}, "q"),
        ([1, 2], ABSENT),
    ],
)
def test_arguments_that_do_not_match(args, given):
    assert not args_match(ExpectedCall.model_construct(tool="t", args=args), ToolCall("t", given))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_equality_of_json_is_symmetric_and_stricter_than_pythons(left, right):
    assert json_equal(left, left)
    assert json_equal(left, right) == json_equal(right, left)
    assert left == right or not json_equal(left, right)


@given(st.lists(st.sampled_from("ABC"), max_size=6), st.lists(st.sampled_from("ABC"), min_size=1, max_size=4))
def test_in_order_scores_1_exactly_for_subsequences(calls, expected):
    remaining = iter(calls)
    is_subsequence = all(tool in remaining for tool in expected)
    score = score_trajectory(sequence("in_order", *expected), context(*calls))
    assert score.value == (1.0 if is_subsequence else 0.0)
    assert len(score.hits) + len(score.misses) == len(expected)


SEARCH = ToolCall("search", input={"q": "x"}, output={"found": [1, {"id": 7, "n": 2}], "total": 2}, duration_ms=40)


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (ExpectedCall(tool="search", input={"q": "x"}), None),
        (ExpectedCall(tool="search", input={"q": "y"}), "args mismatch"),
        (ExpectedCall(tool="search", args={"q": "x"}, input={"q": "y"}), "args mismatch"),
        (ExpectedCall(tool="search", output={"found": [1, {"id": 7}]}), None),
        (ExpectedCall(tool="search", output={"found": [1]}), None),
        (ExpectedCall(tool="search", output={"found": []}), None),
        (ExpectedCall(tool="search", output={"found": [{"id": 7}]}), "output mismatch"),
        (ExpectedCall(tool="search", output={"found": [1, {"id": 8}]}), "output mismatch"),
        (ExpectedCall(tool="search", output={"found": [1, {"id": 7}, 3]}), "output mismatch"),
        (ExpectedCall(tool="search", output={"total": True}), "output mismatch"),
        (ExpectedCall(tool="search", output={"gone": None}), "output mismatch"),
        (ExpectedCall(tool="search", output="text"), "output mismatch"),
        (ExpectedCall(tool="search", max_duration_ms=40), None),
        (ExpectedCall(tool="search", max_duration_ms=39.5), "took 40 ms, at most 39.5 ms were expected"),
    ],
)
def test_an_expected_call_is_held_against_input_output_and_duration(wanted, fault):
    exact, in_order = (evaluate(sequence(mode, wanted), context(SEARCH)) for mode in ("exact", "in_order"))
    if fault is None:
        assert (exact.value, in_order.value) == (1.0, 1.0)
    else:
        assert exact == Score(0.0, misses=(f"Position 0: search {fault}",))
        assert in_order == Score(0.0, misses=(f"Expected search at position 0: tool found at 0 but {fault}",))


@pytest.mark.parametrize("mode", ["exact", "in_order"])
@pytest.mark.parametrize(
    ("wanted", "key", "field"),
    [
        (ExpectedCall(tool="search", output=None), "output", "output"),
        (ExpectedCall(tool="search", max_duration_ms=5), "max_duration_ms", "duration_ms"),
    ],
)
def test_what_the_target_does_not_report_is_an_error(mode, wanted, key, field):
    given = context("search").replace(target="shop")
    with pytest.raises(EvaluatorError) as caught:
        evaluate(sequence(mode, wanted), given)
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        f"`{key}` of the expected call 'search' cannot be checked: target 'shop' does not report the `{field}` of its "
        "tool calls. docs/evaluators.md#tool_trajectory shows how a target reports it"
    )


@pytest.mark.parametrize("duration", [math.nan, -1.0, math.inf, "5"])
def test_a_duration_that_is_no_amount_is_not_reported(duration):
    given = context(ToolCall("search", duration_ms=duration))
    with pytest.raises(EvaluatorError, match="does not report the `duration_ms`"):
        evaluate(sequence("exact", ExpectedCall(tool="search", max_duration_ms=5)), given)


def test_a_trace_tells_outputs_and_durations_with_the_call_or_with_its_result():
    trace = (
        TraceEvent("tool_call", id="1", name="search", input={}),
        TraceEvent("tool_result", id="1", output="late", metadata={"duration_ms": 7}),
        TraceEvent("tool_call", name="read", output="at once", metadata={"durationMs": 3}),
        TraceEvent("tool_result", output="of nobody"),
    )
    given = context(output_messages=None).replace(trace=trace)
    assert [(call.tool, call.output, call.duration_ms) for call in reported_calls(given) or ()] == [
        ("search", "late", 7),
        ("read", "at once", 3),
    ]


def test_the_events_of_one_id_tell_one_call():
    trace = (
        TraceEvent("tool_call", id="1", name="search"),
        TraceEvent("tool_call", id="2", name="read", output="at once"),
        TraceEvent("tool_call", id="1", input={"q": 1}, metadata={"duration_ms": 7}),
        TraceEvent("tool_result", id="2", output="late"),
        TraceEvent("tool_result", id="1", output="found", metadata={"duration_ms": 8}),
        TraceEvent("tool_call", id="1"),
    )
    assert list(traced_calls(trace)) == [
        ToolCall("search", input={"q": 1}, output="found", id="1", duration_ms=7),
        ToolCall("read", output="at once", id="2"),
        ToolCall("(unnamed tool)", id="1"),
    ]
