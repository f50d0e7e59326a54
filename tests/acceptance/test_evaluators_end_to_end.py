"""Evaluators over real answers: what they are given, what they say, and what becomes of it in the results."""

import json

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


def scores(result):
    return {found["name"]: found["score"] for found in result["evaluator_results"]}


def judge(name, score, **keys):
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return f"- {{name: {name}, type: code_judge, script: [echo, '{{\"score\": {score}}}']{more}}}\n"


@pytest.mark.scenario("Default aggregation (no weights)")
@pytest.mark.scenario("Weighted aggregation (mixed weights)")
@pytest.mark.scenario("Weight of zero excludes evaluator from aggregation")
@pytest.mark.scenario("All weights are zero")
@pytest.mark.parametrize(
    ("weights", "score"),
    [(({}, {}), 0.6), (({"weight": 3}, {"weight": 1}), 0.7), (({"weight": 0}, {}), 0.4), (({"weight": 0},) * 2, 0)],
)
def test_the_score_is_the_mean_of_the_evaluators_scores_by_their_weights(judged, weights, score):
    result = judged(judge("safety", 0.8, **weights[0]) + judge("style", 0.4, **weights[1]))
    assert result["score"] == pytest.approx(score)
    assert scores(result) == {"safety": 0.8, "style": 0.4}


@pytest.mark.scenario("Weight included in evaluator_results")
def test_results_keep_the_weight_of_each_evaluator(judged):
    result = judged(judge("double", 1, weight=2) + judge("half", 1, weight=0.5) + judge("plain", 1))
    assert [found["weight"] for found in result["evaluator_results"]] == [2, 0.5, 1]


@pytest.mark.scenario("User defines multiple evaluators in YAML")
def test_evaluators_of_several_kinds_all_run_and_their_findings_are_joined(judged, project):
    targets = """
targets:
  - {name: default, provider: mock, response: hello world, judge_target: model}
  - name: model
    provider: mock
    response: 'I say {"score": 0.6, "hits": [" polite ", ""], "misses": ["short"], "reasoning": "so so"}'
"""
    evaluators = """
- {name: model, type: llm_judge}
- {name: script, type: code, script: [echo, '{"score": 1, "hits": ["greets"], "reasoning": "fine"}'], weight: 3}
- {name: words, type: heuristic, hits: [hello], misses: [world]}
"""
    result = judged(evaluators, targets=targets)
    assert scores(result) == {"model": 0.6, "script": 1, "words": 0}
    assert result["score"] == pytest.approx((0.6 + 3 + 0) / 5)
    assert [found["type"] for found in result["evaluator_results"]] == ["llm_judge", "code_judge", "heuristic"]
    assert [found["verdict"] for found in result["evaluator_results"]] == ["borderline", "pass", "fail"]
    assert result["hits"] == ["polite", "greets", "hello"]
    assert result["misses"] == ["short", "world"]
    assert result["reasoning"].startswith("model: so so | script: fine | words: ")


SPY = """
import json, sys
from pathlib import Path

given = json.load(sys.stdin)
Path("given.json").write_text(json.dumps(given))
print('{"score": 1}')
"""

AGENT = """
def answer(prompt):
    return {
        "output_messages": [
            {"role": "assistant", "content": "looking", "metadata": {"latencyMs": 150},
             "timestamp": "2026-01-01T00:00:00Z",
             "tool_calls": [{"tool": "knowledgeSearch", "input": {"docId": "x", "Query": 1}, "id": "call-1",
                             "output": {"totalHits": 2}}]},
            {"role": "assistant", "content": {"finalAnswer": 42}},
        ],
        "token_usage": {"input": 10, "output": 5, "cached": 2},
        "cost_usd": 0.001,
        "duration_ms": 1234,
    }
"""

PAYLOAD_KEYS = [
    *("question", "expected_outcome", "expected_messages", "reference_answer", "candidate_answer", "output_messages"),
    *("guideline_files", "input_files", "input_messages", "trace_summary", "config", "execution_metrics", "trace"),
]

SPIED = """
evalcases:
  - id: a
    expected_outcome: finds it
    input_messages:
      - role: user
        content:
          - {type: file, value: rules.instructions.md}
          - {type: file, value: data.csv}
          - {type: text, value: " How many? "}
    expected_messages:
      - role: assistant
        content: {invoiceNumber: 1, Items: [{unitPrice: 2}]}
    evaluators:
      - {name: spy, type: code_judge, script: spy.py, camelKey: {innerKey: 1}}
"""


@pytest.fixture
def spied(project):
    """Return what the judge of a case was given on its standard input."""
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", AGENT)
    project.write("spy.py", SPY)
    project.write("rules.instructions.md", "Be brief.\n")
    project.write("data.csv", "1,2\n")
    project.write("a.eval.yaml", SPIED)
    run = project.run("--agentv-include-trace")
    assert run.exit_code == 0, run.text
    given = json.loads((project.path / "given.json").read_text("utf-8"))
    return given, run.results[0]


@pytest.mark.scenario("Emit payload to code_judge evaluator")
@pytest.mark.scenario("Preserve legacy payload shape")
@pytest.mark.scenario("Code evaluator execution")
def test_a_code_judge_gets_the_whole_case_and_the_answer(spied, project):
    given, _ = spied
    assert list(given) == PAYLOAD_KEYS
    assert given["question"] == "How many?"
    assert given["expected_outcome"] == "finds it"
    assert given["candidate_answer"] == '{"finalAnswer":42}'
    assert given["guideline_files"] == [str(project.path / "rules.instructions.md")]
    assert given["input_files"] == [str(project.path / "data.csv")]
    assert given["input_messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "file", "value": "rules.instructions.md"},
                {"type": "file", "value": "data.csv"},
                {"type": "text", "value": " How many? "},
            ],
        }
    ]


@pytest.mark.scenario("Emit payload to code_judge evaluator")
def test_all_keys_of_the_payload_are_snake_case_at_every_depth_while_values_and_results_keep_theirs(spied):
    given, result = spied
    assert given["expected_messages"] == [
        {"role": "assistant", "content": {"invoice_number": 1, "Items": [{"unit_price": 2}]}}
    ]
    assert given["config"] == {"camel_key": {"inner_key": 1}}
    (call,) = given["output_messages"][0]["tool_calls"]
    assert call == {
        "tool": "knowledgeSearch",
        "input": {"doc_id": "x", "Query": 1},
        "output": {"total_hits": 2},
        "id": "call-1",
    }
    assert given["output_messages"][1] == {"role": "assistant", "content": {"final_answer": 42}}
    assert given["trace_summary"]["tool_calls_by_name"] == {"knowledge_search": 1}
    assert given["trace_summary"]["tool_names"] == ["knowledgeSearch"]
    assert '"invoiceNumber"' in given["reference_answer"]
    assert result["trace_summary"]["tool_calls_by_name"] == {"knowledgeSearch": 1}
    assert result["trace"][0]["input"] == {"docId": "x", "Query": 1}


@pytest.mark.scenario("OutputMessages available in evaluator context")
@pytest.mark.scenario("OutputMessage with optional metadata")
@pytest.mark.scenario("ToolCall with optional trace fields")
@pytest.mark.scenario("Provider returns output messages with tool calls")
def test_a_code_judge_gets_the_messages_and_the_trace_that_is_taken_from_them(spied):
    given, _ = spied
    first = given["output_messages"][0]
    assert first["timestamp"] == "2026-01-01T00:00:00Z"
    assert first["metadata"] == {"latency_ms": 150}
    assert given["trace"] == [
        {
            "type": "tool_call",
            "timestamp": "2026-01-01T00:00:00Z",
            "id": "call-1",
            "name": "knowledgeSearch",
            "input": {"doc_id": "x", "Query": 1},
            "output": {"total_hits": 2},
        }
    ]


@pytest.mark.scenario("Code judge receives metrics")
@pytest.mark.scenario("Provider reports token usage")
@pytest.mark.scenario("Provider reports cost")
@pytest.mark.scenario("Provider reports duration")
@pytest.mark.scenario("Computed tokens per tool")
def test_a_code_judge_gets_the_metrics_and_so_do_the_results(spied):
    given, result = spied
    metrics = {
        "token_usage": {"input": 10, "output": 5, "cached": 2},
        "cost_usd": 0.001,
        "duration_ms": 1234,
        "exploration_ratio": 0,
        "tokens_per_tool": 5,
    }
    assert given["execution_metrics"] == metrics
    assert result["execution_metrics"] == metrics
    assert {key: given["trace_summary"][key] for key in ("token_usage", "cost_usd", "duration_ms")} == {
        key: metrics[key] for key in ("token_usage", "cost_usd", "duration_ms")
    }


def test_what_is_not_known_is_null_for_a_code_judge(judged, project):
    project.write("spy.py", SPY)
    judged("- {name: spy, type: code_judge, script: spy.py}")
    given = json.loads((project.path / "given.json").read_text("utf-8"))
    assert list(given) == PAYLOAD_KEYS
    assert given["config"] is None
    assert (given["expected_messages"], given["reference_answer"], given["trace"]) == ([], "", [])


@pytest.mark.scenario("Code judge returns details")
@pytest.mark.scenario("Code judge omits details")
@pytest.mark.parametrize("details", [None, {"byField": {"unitPrice": [1, {"rowId": "x"}]}}, {}])
def test_details_of_a_code_judge_are_handed_on_as_they_came_and_never_invented(judged, project, details):
    reply = {"score": 1} if details is None else {"score": 1, "details": details}
    project.write("reply.json", json.dumps(reply))
    (found,) = judged("- {name: judge, type: code_judge, script: [cat, reply.json]}")["evaluator_results"]
    assert found.get("details") == details
    assert ("details" in found) is (details is not None)


@pytest.mark.scenario("Details payload is not valid JSON")
@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            '{"score": 1, "details": "<b>"}',
            'Code evaluator printed `details` that are no JSON object: "<b>"; print a mapping such as {"reason": "…"}, '
            "or leave them out",
        ),
        (
            '{"score": 1, "details": {1: 2}}',
            "Code evaluator did not print one JSON object: print exactly one JSON object such as "
            '{"score": 0.5, "hits": [], "misses": [], "reasoning": ""} on standard output, and everything else on '
            'standard error; it printed: {"score": 1, "details": {1: 2}}',
        ),
    ],
)
def test_details_that_are_no_json_make_a_score_of_0_with_a_message_and_keep_the_reply(judged, project, reply, message):
    project.write("reply.json", reply)
    result = judged("- {name: judge, type: code_judge, script: [cat, reply.json]}")
    (found,) = result["evaluator_results"]
    assert (found["score"], found["misses"], found["raw_output"]) == (0, [message], reply)
    assert (result["status"], result["error"]) == ("error", message)


@pytest.mark.scenario("Code evaluator execution")
def test_scripts_are_found_from_the_eval_file_and_run_beside_it(project):
    project.write("targets.yaml", HELLO)
    project.write(
        "deep/evals/judges/where.py", "import os, json; print(json.dumps({'score': 1, 'hits': [os.getcwd()]}))"
    )
    project.write(
        "deep/evals/a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators:
              - {name: path, type: code_judge, script: judges/where.py}
              - {name: shell, type: code_judge, script: 'printf "{\\"score\\": 1, \\"hits\\": [\\"$(pwd)\\"]}"'}
              - {name: elsewhere, type: code_judge, script: [pwd], cwd: judges}
        """,
    )
    found = {result["name"]: result for result in project.run().results[0]["evaluator_results"]}
    evals = str(project.path / "deep/evals")
    assert found["path"]["hits"] == [evals]
    assert found["shell"]["hits"] == [evals]
    assert found["elsewhere"]["raw_output"] == f"{evals}/judges\n"
