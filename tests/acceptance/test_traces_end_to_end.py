"""Tool calls and traces: how they are counted, ordered and recorded."""

import pytest

HELLO = "targets: [{name: default, provider: mock, response: hello world}]\n"


@pytest.fixture
def judged(project):
    """Return what runs one case with the given evaluators (YAML lines) and returns its result."""

    def run(evaluators, *flags, case="", targets=HELLO):
        project.write("targets.yaml", targets)
        lines = "".join(f"      {line}\n" for line in evaluators.strip("\n").splitlines())
        project.write(
            "a.eval.yaml",
            "evalcases:\n  - id: a\n    expected_outcome: is polite\n"
            f"    input_messages: [{{role: user, content: greet me}}]\n{case}    evaluators:\n{lines}",
        )
        (result,) = project.run(*flags).results
        return result

    return run


TRAJECTORIES = """
targets:
  - name: default
    provider: mock
    output_messages:
      - {role: assistant, tool_calls: [{tool: A, input: {q: 1, n: 2}}, {tool: X}, {tool: B}]}
      - {role: assistant, content: hello world, tool_calls: [{tool: A}]}
  - {name: traced, provider: mock, response: hello, trace: [{type: tool_call, name: A}, {type: tool_call, name: A}]}
"""


@pytest.mark.scenario("Minimum calls met - PASS (from outputMessages)")
@pytest.mark.scenario("Minimum calls not met - FAIL")
@pytest.mark.scenario("Multiple minimums - partial pass")
@pytest.mark.scenario("In-order sequence - PASS")
@pytest.mark.scenario("In-order sequence - FAIL (wrong order)")
@pytest.mark.scenario("Exact sequence - PASS")
@pytest.mark.scenario("Exact sequence - FAIL (extra tools)")
@pytest.mark.parametrize(
    ("settings", "score", "text"),
    [
        ("mode: any_order, minimums: {A: 2}", 1, "A called 2 times (minimum: 2)"),
        ("mode: any_order, minimums: {B: 3}", 0, "B called 1 time (minimum: 3)"),
        ("mode: any_order, minimums: {A: 2, B: 2}", 0.5, "B called 1 time (minimum: 2)"),
        ("mode: in_order, expected: [{tool: A, args: {q: 1}}, {tool: B}, {tool: A}]", 1, "Found B at position 2"),
        ("mode: in_order, expected: [{tool: B}, {tool: X}]", 0, "Expected X at position 1"),
        ("mode: exact, expected: [{tool: A}, {tool: X}, {tool: B}, {tool: A}]", 1, "Position 3: A"),
        ("mode: exact, expected: [{tool: A}, {tool: X}, {tool: B}]", 0, "Expected 3 tool calls, got 4"),
        ("mode: in_order, expected: [{tool: A, args: {q: 2}}]", 0, "args mismatch"),
    ],
)
def test_tool_calls_are_held_against_what_was_expected(judged, settings, score, text):
    result = judged(f"- {{name: calls, type: tool_trajectory, {settings}}}", targets=TRAJECTORIES)
    assert result["score"] == score
    assert any(text in finding for finding in result["hits"] + result["misses"])


@pytest.mark.scenario("Minimum calls met - PASS (fallback to trace)")
@pytest.mark.scenario("Provider returns a trace")
@pytest.mark.scenario("Deterministic trace evaluator reads trace")
def test_tool_calls_are_counted_in_a_trace_where_messages_hold_none(judged):
    evaluator = "- {name: calls, type: tool_trajectory, mode: any_order, minimums: {A: 2}, weight: 2}\n"
    result = judged(
        evaluator + "- {name: other, type: heuristic, hits: [nowhere]}", "--agentv-target=traced", targets=TRAJECTORIES
    )
    assert result["score"] == pytest.approx(2 / 3)
    assert result["trace_summary"] == {
        "event_count": 2,
        "tool_names": ["A"],
        "tool_calls_by_name": {"A": 2},
        "error_count": 0,
    }


@pytest.mark.scenario("Fallback to trace when outputMessages absent")
@pytest.mark.parametrize("mode", ["in_order", "exact"])
def test_the_order_of_calls_is_taken_from_a_trace_where_messages_hold_none(judged, mode):
    evaluator = f"- {{name: calls, type: tool_trajectory, mode: {mode}, expected: [{{tool: A}}, {{tool: A}}]}}"
    assert judged(evaluator, "--agentv-target=traced", targets=TRAJECTORIES)["score"] == 1
    assert judged(evaluator.replace("{tool: A}, ", "{tool: B}, "), "--agentv-target=traced", targets=TRAJECTORIES)[
        "misses"
    ]


@pytest.mark.scenario("Explicit trace takes precedence")
def test_a_trace_of_its_own_comes_before_the_calls_in_the_messages(judged):
    targets = """
targets:
  - name: default
    provider: mock
    output_messages: [{role: assistant, content: hello, tool_calls: [{tool: inMessages}]}]
    trace: [{type: model_step}, {type: tool_call, name: inTrace, input: {deepKey: 1}}, {type: error, text: oops}]
"""
    result = judged("- {name: words, type: heuristic, hits: [hello]}", "--agentv-include-trace", targets=targets)
    assert result["trace_summary"]["tool_calls_by_name"] == {"inTrace": 1}
    assert (result["trace_summary"]["event_count"], result["trace_summary"]["error_count"]) == (3, 1)
    assert result["trace"] == [
        {"type": "model_step"},
        {"type": "tool_call", "name": "inTrace", "input": {"deepKey": 1}},
        {"type": "error", "text": "oops"},
    ]


@pytest.mark.scenario("Output messages without tool calls")
def test_an_answer_without_any_call_has_an_empty_trace_and_meets_no_minimum(judged):
    evaluator = "- {name: calls, type: tool_trajectory, mode: any_order, minimums: {A: 1}}"
    result = judged(evaluator, "--agentv-include-trace", targets=HELLO)
    assert (result["score"], result["misses"]) == (0, ["A called 0 times (minimum: 1)"])
    assert result["trace"] == []
    summary = {"event_count": 0, "tool_names": [], "tool_calls_by_name": {}, "error_count": 0}
    assert result["trace_summary"] == summary


@pytest.mark.scenario("No trace or outputMessages available")
def test_a_target_that_reports_nothing_of_its_way_has_no_trace_to_judge(judged, project):
    project.write(
        "agent.py",
        """
        from pytest_agentv.providers.base import ProviderResponse

        def answer(prompt):
            return ProviderResponse()
        """,
    )
    targets = "targets: [{name: default, provider: python, callable: agent.py:answer}]\n"
    evaluator = "- {name: calls, type: tool_trajectory, mode: any_order, minimums: {A: 1}}"
    result = judged(evaluator, targets=targets)
    assert (result["score"], result["misses"]) == (0, ["No trace available for evaluation"])
