"""A dry run: everything but the target and the judge is real."""

import time

import pytest

LOCKED = """
targets:
  - name: default
    provider: cli
    command_template: touch target-ran; echo ${{ A_KEY_NOBODY_HAS }}
    healthcheck: {type: command, command_template: touch probe-ran}
    judge_target: cloud
  - {name: cloud, provider: azure}
  - {name: python, provider: python, callable: gone.py:answer}
"""

SUITE = """
defaults: {input: q, criteria: o}
evalcases:
  - {id: words, assert: [{heuristic: {hits: [nowhere]}}]}
  - {id: default-judge}
  - {id: rubrics, rubrics: [is polite, is brief]}
  - id: composite
    evaluators:
      - name: both
        type: composite
        evaluators: [{name: a, type: llm_judge}, {name: b, type: llm_judge}]
        aggregator: {type: llm_judge}
  - {id: in-python, target: python, assert: [{tool_trajectory: {mode: any_order, minimums: {read: 1}}}]}
  - {id: script-runs, assert: [{name: j, type: code_judge, script: [python, quarter.py]}]}
  - id: negated
    assert:
      - not-cost: 0.1
      - not-token_usage: {max_output: 2}
      - {latency: 1, negate: true}
      - not-composite: {evaluators: [{cost: 0.1}], aggregator: {type: weighted_average}}
      - not-python: len(tool_calls) > 3
  - {id: expression, assert: [{python: "data['price'] > 3"}]}
  - {id: function, assert: [{python: "checks.py:price"}]}
  - {id: own kind, assert: [{type: priced}]}
  - {id: own error, assert: [{type: priced, says: no price}]}
  - {id: script, assert: [{name: j, type: code_judge, script: [python, judge.py]}]}
  - id: member
    assert: [{composite: {evaluators: [{python: "data['price'] > 3"}], aggregator: {type: weighted_average}}}]
"""
BROKEN = """
defaults: {input: q, criteria: o}
evalcases:
  - {id: syntax, assert: [{python: "data["}]}
  - {id: name, assert: [{python: "checks.py:misspelt"}]}
  - {id: module, assert: [{python: "broken.py:check"}]}
  - {id: file, assert: [{python: "gone.py:check"}]}
  - {id: result, assert: [{python: "checks.py:nothing"}]}
  - {id: own result, assert: [{type: wordless}]}
  - {id: script name, assert: [{name: j, type: code_judge, script: [python, name.py]}]}
  - {id: script file, assert: [{name: j, type: code_judge, script: [python, gone.py]}]}
  - {id: shell, assert: [{name: j, type: code_judge, script: no-such-program --x}]}
  - {id: package, assert: [{name: j, type: code_judge, script: [python, -m, no_such]}]}
  - {id: words, assert: [{name: j, type: code_judge, script: "sh -c 'if then'"}]}
  - {id: hidden, assert: [{name: j, type: code_judge, script: no-such; exit 1}]}
  - {id: flag, assert: [{name: j, type: code_judge, script: [python, flag.py, --x]}]}
  - {id: unknown target, target: nobody}
"""
"""What is really broken fails a dry run as well."""


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_DEPLOYMENT_NAME", "A_KEY_NOBODY_HAS"):
        monkeypatch.delenv(name, raising=False)


def answer_times(project, *flags):
    """Return how many milliseconds each answer took."""
    return [result["execution_metrics"]["duration_ms"] for result in project.run("--agentv-dry-run", *flags).results]


@pytest.mark.scenario("Dry-run mode")
def test_mocked_answers_take_as_long_as_the_flags_say(project, suite, monkeypatch):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", suite(a="x", b="x"))
    assert max(answer_times(project)) < 300
    assert min(answer_times(project, "--agentv-dry-run-delay=300")) >= 299
    range_of_delays = ("--agentv-dry-run-delay-min=100", "--agentv-dry-run-delay-max=400")
    monkeypatch.setattr("random.randint", lambda low, high: low)
    assert 99 <= min(answer_times(project, *range_of_delays)) < 390
    monkeypatch.setattr("random.randint", lambda low, high: high)
    assert min(answer_times(project, *range_of_delays)) >= 399


def test_a_shortest_delay_above_the_longest_is_a_wrong_usage(project, suite):
    """The longest one was ignored."""
    run = project.run("--agentv-dry-run", "--agentv-dry-run-delay-min=300", "--agentv-dry-run-delay-max=10")
    assert run.exit_code == 4
    text = "--agentv-dry-run-delay-min=300 is above --agentv-dry-run-delay-max=10: expected the shorter delay first"
    assert f"ERROR: {text}" in run.lines
    assert "--agentv" not in project.run("--agentv-dry-run", "--agentv-dry-run-delay-min=1").text


def test_a_delay_longer_than_the_time_limit_is_a_timeout_of_the_dry_run(project, suite):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", suite(a="x"))
    started = time.monotonic()
    run = project.run(
        "--agentv-dry-run", "--agentv-dry-run-delay=20000", "--agentv-timeout=0.1", "--agentv-max-retries=1"
    )
    assert time.monotonic() - started < 10
    assert run.statuses == {"a": "error"}
    (result,) = run.results
    assert (result["attempts"], result["dry_run"]) == (2, True)
    assert result["error"] == "target 'dry-run' timed out after 0.1s"


READING_KINDS = """
    import json
    from pytest_agentv import Evaluator, EvaluatorError

    class Priced(Evaluator):
        kind = "priced"
        says: str = ""

        def evaluate(self, context):
            if self.says:
                raise EvaluatorError(self.says)
            return json.loads(context.candidate_answer)["price"]

    class Wordless(Evaluator):
        kind = "wordless"

        def evaluate(self, context):
            return "good"

    def pytest_agentv_evaluators():
        return [Priced, Wordless]
    """


@pytest.mark.scenario("Dry-run mode")
@pytest.mark.scenario("Mock provider for dry-run")
def test_a_dry_run_needs_no_credentials_starts_nothing_and_minds_neither_scores_nor_data_of_answers(project):
    """Checks that read the data of the answer failed every dry run."""
    project.write("targets.yaml", LOCKED)
    project.write("conftest.py", READING_KINDS)
    project.write("a.eval.yaml", SUITE)
    project.write("broken.eval.yaml", BROKEN)
    functions = ["def price(data): return data['price'] > 3", "def misspelt(data): return dta", "def nothing(): pass"]
    project.write("checks.py", "\n".join(functions))
    project.write("broken.py", "import no_such_module\ndef check(): return True")
    project.write("judge.py", "import json, sys; print(json.loads(json.load(sys.stdin)['candidate_answer'])['price'])")
    given = "json.load(sys.stdin)['candidate_answer']"
    project.write("quarter.py", f"import json, sys; print(json.dumps({{'score': 0.25, 'hits': [{given}]}}))")
    project.write("name.py", "print(scoer)")
    project.write("flag.py", "import argparse; argparse.ArgumentParser().parse_args()")
    project.write(
        "test_price.py",
        "def test_price(agentv):\n    assert agentv.run('q', evaluators=[{'python': \"data['price'] > 3\"}])\n",
    )
    run = project.run("--agentv-dry-run", "--agentv-threshold=1")
    assert run.outcomes == {"passed": SUITE.count("id: ") + 1, "errors": BROKEN.count("id: ")}
    assert not (project.path / "target-ran").exists()
    assert not (project.path / "probe-ran").exists()
    for result in run.results:
        assert result["dry_run"] is True
        assert (result["status"] == "error") is (result["eval_file"] == "broken.eval.yaml")
        if result["status"] == "pass":
            assert result["target"] == ("python" if result["eval_id"] == "in-python" else "default") + "-dry-run"
            assert (result["attempts"], result["candidate_answer"]) == (1, '{"answer":"Mock dry-run response"}')
    by_id = {result["eval_id"]: result for result in run.results if result["status"] == "pass"}
    assert by_id["words"]["score"] == 0
    assert (by_id["script-runs"]["score"], by_id["script-runs"]["hits"]) == (0.25, [by_id["words"]["candidate_answer"]])
    assert "KeyError: 'price'" in by_id["expression"]["evaluator_results"][0]["reasoning"]
