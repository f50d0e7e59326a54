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
evalcases:
  - id: words
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators: [{name: words, type: heuristic, hits: [nowhere]}]
  - id: default-judge
    expected_outcome: o
    input_messages: [{role: user, content: q}]
  - id: rubrics
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    rubrics: [is polite, is brief]
  - id: composite
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators:
      - name: both
        type: composite
        evaluators: [{name: a, type: llm_judge}, {name: b, type: llm_judge}]
        aggregator: {type: llm_judge}
  - id: in-python
    expected_outcome: o
    execution: {target: python}
    input_messages: [{role: user, content: q}]
    evaluators: [{name: calls, type: tool_trajectory, mode: any_order, minimums: {read: 1}}]
"""


NEGATED = """
evalcases:
  - id: a
    expected_outcome: o
    input: q
    assert:
      - not-cost: 0.1
      - not-token_usage: {max_output: 2}
      - {latency: 1, negate: true}
      - not-composite: {evaluators: [{cost: 0.1}], aggregator: {type: weighted_average}}
      - not-python: len(tool_calls) > 3
"""


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_DEPLOYMENT_NAME", "A_KEY_NOBODY_HAS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.scenario("Dry-run mode")
@pytest.mark.scenario("Mock provider for dry-run")
def test_a_dry_run_needs_no_credentials_starts_nothing_and_does_not_mind_the_scores(project):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", SUITE)
    run = project.run("--agentv-dry-run", "--agentv-threshold=1")
    assert run.exit_code == 0
    assert run.outcomes == {"passed": 5}
    assert not (project.path / "target-ran").exists()
    assert not (project.path / "probe-ran").exists()
    assert [result["target"] for result in run.results] == ["default-dry-run"] * 4 + ["python-dry-run"]
    for result in run.results:
        assert (result["status"], result["dry_run"], result["attempts"]) == ("pass", True, 1)
        assert result["candidate_answer"] == '{"answer":"Mock dry-run response"}'
    assert run.by_id["words"]["score"] == 0


def test_the_same_cases_need_the_credentials_without_the_flag(project):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", SUITE)
    run = project.run()
    assert set(run.statuses.values()) == {"error"}
    assert not any("dry_run" in result for result in run.results)
    assert not (project.path / "target-ran").exists()


def test_the_summary_says_that_the_scores_mean_nothing(project, suite):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", suite(a="hello"))
    said = "Dry run: answers and judgements were mocked, so the scores mean nothing."
    assert said in project.run("--agentv-dry-run").lines
    assert said not in project.run().lines


def test_scripts_of_code_judges_do_run(project):
    project.write("targets.yaml", LOCKED)
    project.write(
        "judge.py",
        """
        import json, sys
        given = json.load(sys.stdin)
        print(json.dumps({"score": 0.25, "hits": [given["candidate_answer"]]}))
        """,
    )
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators: [{name: judge, type: code_judge, script: judge.py}]
        """,
    )
    (result,) = project.run("--agentv-dry-run").results
    assert (result["status"], result["score"]) == ("pass", 0.25)
    assert result["hits"] == ['{"answer":"Mock dry-run response"}']


def test_what_is_really_broken_fails_a_dry_run_too(project):
    project.write("targets.yaml", LOCKED)
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: lost-file
            expected_outcome: o
            input_messages: [{role: user, content: [{type: file, value: gone.md}]}]
          - id: misspelt
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators: [{name: words, type: heuristics, hits: [hello]}]
          - id: broken-judge
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators: [{name: judge, type: code_judge, script: [no-such-program]}]
          - id: unknown-target
            expected_outcome: o
            execution: {target: nobody}
            input_messages: [{role: user, content: q}]
          - id: fine
            expected_outcome: o
            input_messages: [{role: user, content: q}]
        """,
    )
    run = project.run("--agentv-dry-run")
    assert run.exit_code == 1
    assert run.outcomes == {"passed": 1, "errors": 4}
    errors = {eval_id: result.get("error", "") for eval_id, result in run.by_id.items()}
    assert "file 'gone.md' was not found" in errors["lost-file"]
    assert "did you mean 'heuristic'?" in errors["misspelt"]
    assert "no-such-program" in errors["broken-judge"]
    assert "'nobody'" in errors["unknown-target"]
    assert all(result["dry_run"] is True for result in run.results)


def test_a_missing_targets_file_fails_a_dry_run_too(project, suite):
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-dry-run")
    assert run.statuses == {"a": "error"}
    assert "no targets file found" in run.by_id["a"]["error"]


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


def test_what_only_the_target_would_report_is_no_error(project):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", NEGATED)
    assert project.run("--agentv-dry-run").outcomes == {"passed": 1}


READING = """
evalcases:
  - {id: expression, expected_outcome: o, input: q, assert: [{python: "data['price'] > 3"}]}
  - {id: function, expected_outcome: o, input: q, assert: [{python: "checks.py:price"}]}
  - {id: own kind, expected_outcome: o, input: q, assert: [{type: priced}]}
  - {id: own error, expected_outcome: o, input: q, assert: [{type: priced, says: no price}]}
  - {id: script, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: [python, judge.py]}]}
  - id: member
    expected_outcome: o
    input: q
    assert: [{composite: {evaluators: [{python: "data['price'] > 3"}], aggregator: {type: weighted_average}}}]
  - {id: syntax, expected_outcome: o, input: q, assert: [{python: "data["}]}
  - {id: name, expected_outcome: o, input: q, assert: [{python: "checks.py:misspelt"}]}
  - {id: module, expected_outcome: o, input: q, assert: [{python: "broken.py:check"}]}
  - {id: file, expected_outcome: o, input: q, assert: [{python: "gone.py:check"}]}
  - {id: result, expected_outcome: o, input: q, assert: [{python: "checks.py:nothing"}]}
  - {id: own result, expected_outcome: o, input: q, assert: [{type: wordless}]}
  - {id: script name, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: [python, name.py]}]}
  - {id: script file, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: [python, gone.py]}]}
  - {id: shell, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: no-such-program --x}]}
  - {id: package, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: [python, -m, no_such]}]}
  - {id: words, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: "sh -c 'if then'"}]}
  - {id: hidden, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: no-such; exit 1}]}
  - {id: flag, expected_outcome: o, input: q, assert: [{name: j, type: code_judge, script: [python, flag.py, --x]}]}
"""

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


def test_a_check_that_only_cannot_read_the_answer_of_the_mock_is_no_error(project):
    """Checks that read the data of the answer failed every dry run."""
    project.write("targets.yaml", LOCKED)
    project.write("conftest.py", READING_KINDS)
    project.write("a.eval.yaml", READING)
    functions = ["def price(data): return data['price'] > 3", "def misspelt(data): return dta", "def nothing(): pass"]
    project.write("checks.py", "\n".join(functions))
    project.write("broken.py", "import no_such_module\ndef check(): return True")
    project.write("judge.py", "import json, sys; print(json.loads(json.load(sys.stdin)['candidate_answer'])['price'])")
    project.write("name.py", "print(scoer)")
    project.write("flag.py", "import argparse; argparse.ArgumentParser().parse_args()")
    run = project.run("--agentv-dry-run")
    passed = {"expression", "function", "own kind", "own error", "script", "member"}
    assert {eval_id for eval_id, status in run.statuses.items() if status == "pass"} == passed
    assert set(run.statuses.values()) == {"pass", "error"}
    assert "KeyError: 'price'" in run.by_id["expression"]["evaluator_results"][0]["reasoning"]


def test_a_check_of_an_eval_in_python_may_raise_on_the_answer_of_the_mock(project):
    project.write("targets.yaml", LOCKED)
    project.write(
        "test_price.py",
        """
        def test_price(agentv):
            assert agentv.run("q", evaluators=[{"python": "data['price'] > 3"}])
        """,
    )
    assert project.run("--agentv-dry-run").outcomes == {"passed": 1}
