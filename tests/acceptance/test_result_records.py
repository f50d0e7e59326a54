"""Records: the keys of a result, their order, and what of the user's data is in them."""

import dataclasses
import re

import pytest

from pytest_agentv.model.results import EvalResult

KEYS = (
    *("timestamp", "eval_id", "dataset", "conversation_id", "score", "hits", "misses", "candidate_answer", "target"),
    *("reasoning", "agent_provider_request", "lm_provider_request", "evaluator_provider_request", "evaluator_results"),
    *("trace_summary", "error", "error_detail", "schema_version", "status", "threshold", "threshold_source"),
    *("attempts", "execution_metrics", "node_id", "run_id", "eval_file", "line", "duration_ms"),
    *("trace", "dry_run", "cached"),
)
"""The documented keys of a result, in their order; AgentV's come first, up to `error`."""

AGENTV_KEYS = KEYS[: KEYS.index("error") + 1]
FIELDS = [field.name for field in dataclasses.fields(EvalResult)]

ALWAYS = {
    *("timestamp", "eval_id", "dataset", "score", "hits", "misses", "candidate_answer", "target", "schema_version"),
    *("status", "attempts", "node_id", "run_id", "eval_file", "line", "duration_ms"),
}


AGENT = """
import sys


def answer(prompt):
    if "break" in prompt:
        raise RuntimeError("out of order")
    return {
        "output_messages": [
            {"role": "assistant", "tool_calls": [
                {"tool": "knowledgeSearch", "input": {"docId": "x", "Query": 1, "deepKey": {"innerKey": [1.5]}},
                 "output": {"totalCount": 2}, "id": "c1", "timestamp": "2026-01-01T00:00:00Z", "duration_ms": 12},
                {"tool": "read", "duration_ms": 3},
            ]},
            {"role": "assistant", "content": "hello world", "metadata": {"latencyMs": 5}},
        ],
        "token_usage": {"input": 10, "output": 6, "cached": 2},
        "cost_usd": 0.25,
        "duration_ms": 40,
    }
"""

JUDGE = """
import json
print(json.dumps({"score": 1, "details": {"byField": {"unitPrice": 2, "Total_Sum": [{"rowId": 1}]}}}))
"""

ALL_KINDS = """
evalcases:
  - id: passes
    conversation_id: talk
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators:
      - {name: judge, type: code_judge, script: judge.py, weight: 2}
      - {name: words, type: heuristic, hits: [hello]}
  - id: fails
    expected_outcome: o
    input_messages: [{role: user, content: q}, {role: assistant, content: a}, {role: user, content: r}]
    evaluators: [{name: words, type: heuristic, hits: [nowhere]}]
  - id: default-judge
    expected_outcome: o
    execution: {target: model}
    input_messages: [{role: user, content: q}]
  - id: target-breaks
    expected_outcome: o
    input_messages: [{role: user, content: break}]
    evaluators: [{name: words, type: heuristic, hits: [nowhere]}]
  - id: judge-breaks
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators: [{name: judge, type: code_judge, script: [python3, gone.py]}]
  - id: cannot-be-set-up
    expected_outcome: o
    input_messages: [{role: user, content: [{type: file, value: gone.md}]}]
"""


@pytest.fixture(scope="module")
def all_kinds(shared_project):
    project = shared_project()
    project.write("agent.py", AGENT)
    project.write("judge.py", JUDGE)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: python, callable: agent.py:answer}
          - {name: model, provider: mock, response: hi, judge_target: judge}
          - {name: judge, provider: mock, response: '{"score": 1, "hits": ["h"], "reasoning": "r"}'}
        """,
    )
    project.write("all.eval.yaml", ALL_KINDS)
    return project


@pytest.fixture(scope="module")
def plain(all_kinds):
    return all_kinds.run()


@pytest.fixture(scope="module")
def traced(all_kinds):
    return all_kinds.run("--agentv-include-trace")


@pytest.fixture(scope="module")
def rehearsed(all_kinds):
    return all_kinds.run("--agentv-dry-run")


@pytest.mark.parametrize("name", ["plain", "traced", "rehearsed"])
def test_every_record_has_the_known_keys_in_their_order_and_comes_back_the_same(request, name):
    run = request.getfixturevalue(name)
    assert list(run.by_id) == [
        *("passes", "fails", "default-judge", "target-breaks", "judge-breaks", "cannot-be-set-up"),
    ]
    for record in run.results:
        assert [key for key in record if key in KEYS] == [key for key in KEYS if key in record]
        upstream = [key for key in AGENTV_KEYS if key in record]
        assert list(record)[: len(upstream)] == upstream
        assert list(record) == [key for key in FIELDS if key in record]
        assert set(record) >= ALWAYS
        assert None not in record.values()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["timestamp"])
        assert EvalResult.from_plain(record).to_plain() == record
        assert list(EvalResult.from_plain(record).to_plain()) == list(record)


def test_the_keys_of_each_kind_of_record_are_those_that_say_something(plain):
    by_id = plain.by_id
    keys = {eval_id: (set(record) & set(KEYS)) - ALWAYS for eval_id, record in by_id.items()}
    judged = {"lm_provider_request", "trace_summary", "threshold", "threshold_source", "execution_metrics"}
    with_list = judged | {"evaluator_results", "reasoning"}
    assert keys["passes"] == with_list | {"conversation_id"}
    assert keys["fails"] == with_list
    assert keys["default-judge"] == judged | {"reasoning", "evaluator_provider_request"}
    assert keys["target-breaks"] == {"lm_provider_request", "error", "error_detail"}
    assert keys["judge-breaks"] == with_list | {"error", "error_detail"}
    assert keys["cannot-be-set-up"] == {"error", "error_detail"}
    assert {eval_id: record["status"] for eval_id, record in by_id.items()} == {
        "passes": "pass",
        "fails": "fail",
        "default-judge": "pass",
        "target-breaks": "error",
        "judge-breaks": "error",
        "cannot-be-set-up": "error",
    }


def test_the_values_of_a_record_say_what_ran_where(plain):
    record = plain.by_id["passes"]
    assert record["dataset"] == "all.eval"
    assert (record["conversation_id"], record["target"], record["attempts"]) == ("talk", "default", 1)
    assert (record["eval_file"], record["line"]) == ("all.eval.yaml", 2)
    assert record["node_id"] == "all.eval.yaml::passes"
    assert record["schema_version"] == 1
    assert record["lm_provider_request"] == {"question": "q", "guidelines": ""}
    assert record["duration_ms"] > 0


def test_the_error_record_of_a_target_keeps_what_was_asked(plain):
    record = plain.by_id["target-breaks"]
    error = record["error"]
    assert "RuntimeError: out of order" in error
    assert record["misses"] == [f"Error: {error}"]
    assert record["candidate_answer"] == f"Error occurred: {error}"
    assert record["lm_provider_request"] == {
        "question": "break",
        "guidelines": "",
        "guideline_paths": [],
        "error": error,
    }
    assert record["error_detail"] == {"stage": "provider", "kind": "crash"}


@pytest.mark.scenario("Include full trace in results")
def test_the_data_of_users_keeps_its_keys_in_results(traced):
    record = traced.by_id["passes"]
    judged = record["evaluator_results"][0]
    assert judged["details"] == {"byField": {"unitPrice": 2, "Total_Sum": [{"rowId": 1}]}}
    search, read = record["trace"]
    assert search["name"] == "knowledgeSearch"
    assert search["input"] == {"docId": "x", "Query": 1, "deepKey": {"innerKey": [1.5]}}
    assert search["output"] == {"totalCount": 2}
    assert "input" not in read
    assert record["trace_summary"]["tool_calls_by_name"] == {"knowledgeSearch": 1, "read": 1}
    assert record["execution_metrics"]["tool_durations"] == {"knowledgeSearch": [12], "read": [3]}


@pytest.mark.scenario("JSONL includes trace_summary by default")
@pytest.mark.scenario("Default excludes full trace")
@pytest.mark.scenario("Trace summary includes tool identity")
def test_results_hold_the_summary_of_the_trace_and_not_the_trace(plain):
    record = plain.by_id["passes"]
    assert "trace" not in record
    assert record["trace_summary"] == {
        "event_count": 2,
        "tool_names": ["knowledgeSearch", "read"],
        "tool_calls_by_name": {"knowledgeSearch": 1, "read": 1},
        "error_count": 0,
        "token_usage": {"input": 10, "output": 6, "cached": 2},
        "cost_usd": 0.25,
        "duration_ms": 40,
    }


@pytest.mark.scenario("Metrics in evaluation results")
@pytest.mark.scenario("Metrics not available")
def test_results_hold_the_metrics_that_are_known_and_no_others(plain):
    by_id = plain.by_id
    assert by_id["passes"]["execution_metrics"] == {
        "token_usage": {"input": 10, "output": 6, "cached": 2},
        "cost_usd": 0.25,
        "duration_ms": 40,
        "tool_durations": {"knowledgeSearch": [12], "read": [3]},
        "exploration_ratio": 0.5,
        "tokens_per_tool": 3,
    }
    assert list(by_id["default-judge"]["execution_metrics"]) == ["duration_ms"]
    assert by_id["default-judge"]["status"] == "pass"


@pytest.mark.scenario("No trace available")
def test_a_case_without_an_answer_has_no_summary_of_a_trace(plain):
    by_id = plain.by_id
    assert "trace_summary" not in by_id["target-breaks"]
    assert "trace_summary" not in by_id["cannot-be-set-up"]
