"""`tool_trajectory`: the scenarios of the requirement and AgentV's worked samples, all or nothing for orders."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_equal
from pytest_agentv.evaluators.calls import ExpectedCall, ToolTrajectory, call_fits, calls_of
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


LATE = "Expected {} at position {}, not found in remaining trace"
MISMATCH = "Expected {} at position {}: tool found at {} but args mismatch"


@pytest.mark.parametrize(
    ("config", "calls", "hits", "misses"),
    [
        (
            sequence("in_order", "A", "Z", "B"),
            "AB",
            ("Found A at position 0", "Found B at position 1"),
            (LATE.format("Z", 1),),
        ),
        (sequence("in_order", "A", "A"), "A", ("Found A at position 0",), (LATE.format("A", 1),)),
        (
            sequence(
                "in_order",
                ExpectedCall(tool="s", args={"q": "x"}),
                ExpectedCall(tool="s", args="any"),
                ExpectedCall(tool="w", args={"l": {"c": 1}}),
            ),
            (ToolCall("s", {"q": "y"}), ToolCall("s", {"q": "x", "n": 1}), ToolCall("w", {"l": {"c": 1, "z": 1}})),
            ("Found s at position 1",),
            (MISMATCH.format("s", 0, 0), MISMATCH.format("w", 2, 2)),
        ),
        (sequence("in_order"), "A", ("No tool sequence specified",), ()),
        (sequence("exact"), "", ("No tool sequence specified",), ()),
        (sequence("exact"), "A", (), ("Expected 0 tool calls, got 1", "Position 0: unexpected A")),
        (sequence("exact", "A"), "", (), ("Expected 1 tool calls, got 0", "Position 0: expected A, got nothing")),
        (
            sequence("exact", "A", "B", "C"),
            "AX",
            ("Position 0: A",),
            ("Expected 3 tool calls, got 2", "Position 1: expected B, got X", "Position 2: expected C, got nothing"),
        ),
        (
            sequence("exact", ExpectedCall(tool="A", args={"n": 1})),
            (ToolCall("A", {"n": True}),),
            (),
            ("Position 0: A args mismatch",),
        ),
        (ToolTrajectory(mode="any_order", minimums={}), "A", ("No tool requirements specified",), ()),
    ],
)
def test_calls_are_held_against_those_expected(config, calls, hits, misses):
    score = evaluate(config, context(*calls))
    assert (score.value, score.hits, score.misses) == (0.0 if misses else 1.0, hits, misses)


def test_even_no_arguments_need_an_input():
    score = evaluate(sequence("in_order", ExpectedCall(tool="s", args={})), context("s"))
    assert (score.value, score.misses) == (0.0, (MISMATCH.format("s", 0, 0),))
    assert score.unknown == "A call of 's' does not report its arguments"


@pytest.mark.parametrize(
    "fields",
    [
        {"trace_summary": summary(search=3)},
        {"trace": (TraceEvent("tool_call", name="search"), TraceEvent("tool_result")) * 3},
        {"output_messages": (Message("assistant", "x"),), "trace_summary": summary(search=3)},
    ],
)
def test_without_calls_in_output_messages_the_trace_counts(fields):
    score = evaluate(any_order(search=3), context(**{"output_messages": None, **fields}))
    assert score == Score(1.0, hits=("search called 3 times (minimum: 3)",))


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


def test_calls_of_all_messages_count_in_order_and_before_those_of_the_trace():
    messages = (Message("assistant", tool_calls=(ToolCall("A"),)), Message("tool", "x", (ToolCall("B"),)))
    given = context(output_messages=messages, trace=(TraceEvent("tool_call", name="B"),))
    assert evaluate(sequence("exact", "A", "B"), given).value == 1


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
    assert call_fits(args, ToolCall("t", given))


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
    assert not call_fits(args, ToolCall("t", given))


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
    score = evaluate(sequence("in_order", *expected), context(*calls))
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
    assert [(call.tool, call.output, call.duration_ms) for call in calls_of(given)[0] or ()] == [
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
