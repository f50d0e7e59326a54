"""Models as judges, and the evaluators that count and compare, over real answers."""

import json
import re

import pytest
from thorough import varied

TARGETS = """
targets:
  - {name: default, provider: python, callable: agent.py:answer, judge_target: judge}
  - {name: judge, provider: python, callable: agent.py:judge}
  - {name: alone, provider: cli, command_template: echo hello}
"""

AGENT = """
import json
from pathlib import Path

HERE = Path(__file__).parent


def answer(prompt):
    return {
        "text": (HERE / "answer.txt").read_text(),
        "token_usage": {"input": 10, "output": 5, "cached": 2},
        "cost_usd": 0.05,
        "duration_ms": 120,
        "trace": [],
    }


def judge(prompt, request):
    with (HERE / "asked.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": request.prompt.question, "system": request.system_prompt, "all": prompt}))
        file.write("\\n")
    return (HERE / "reply.txt").read_text()
"""


@pytest.fixture
def judged(project):
    """Return what runs one case and returns its result; `project.asked()` tells what the judge was asked."""
    project.write("targets.yaml", TARGETS)
    project.write("agent.py", AGENT)

    def run(keys, *flags, answer="hello world", reply='{"score": 1}'):
        (project.path / "answer.txt").write_text(answer)
        (project.path / "reply.txt").write_text(reply)
        project.write(
            "a.eval.yaml",
            "evalcases:\n  - id: a\n    expected_outcome: is polite\n"
            "    input_messages: [{role: user, content: greet me}]\n"
            "    expected_messages: [{role: assistant, content: good day}]\n"
            + "".join(f"    {line}\n" for line in keys.strip("\n").splitlines()),
        )
        results = project.run(*flags).results
        return results[0] if results else None

    return run


def unmarked(text):
    """Return a prompt without the markers around what the judge must not obey."""
    return re.sub("</?quoted-[0-9a-f]{16}>", "", text)


def asked(project):
    path = project.path / "asked.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.scenario("Enforce JSON prompt contract")
@pytest.mark.scenario("Record evaluator request metadata")
@pytest.mark.scenario("LLM grading with reasoning")
def test_a_case_without_evaluators_is_judged_by_the_judge_target(judged, project):
    result = judged(
        "", reply='Well: {"score": 1, "hits": [" a ", "b", "c", "d", "e"], "misses": [" "], "reasoning": "R"}'
    )
    (question,) = asked(project)
    for name, text in {
        "expected_outcome": "is polite",
        "question": "greet me",
        "reference_answer": "good day",
        "candidate_answer": "hello world",
    }.items():
        assert f"[[ ## {name} ## ]]\n{text}" in unmarked(question["all"])
    for word in ('"score"', '"hits"', '"misses"', '"reasoning"', "at most four"):
        assert word in question["all"]
    assert (result["score"], result["hits"], result["misses"]) == (1, ["a", "b", "c", "d"], [])
    assert (result["reasoning"], result["status"]) == ("R", "pass")
    request = result["evaluator_provider_request"]
    assert list(request) == ["user_prompt", "system_prompt", "target"]
    assert request["target"] == "judge"
    assert "[[ ## candidate_answer ## ]]\nhello world" in unmarked(request["user_prompt"])
    assert '"score"' in request["system_prompt"]
    assert "evaluator_results" not in result


@pytest.mark.scenario("LLM judge evaluation failure")
@pytest.mark.scenario("LLM grading failure fallback")
@pytest.mark.scenario("Parse JSON evaluator response")
def test_a_reply_that_is_no_judgement_is_a_score_of_0_that_keeps_the_reply_and_warns_of_nothing(judged, project):
    result = judged("evaluators: [{name: model, type: llm_judge}]", reply="I like it.")
    (found,) = result["evaluator_results"]
    assert (found["score"], found["hits"], found["misses"]) == (0, [], [])
    assert found["raw_output"] == "I like it."
    assert result["status"] == "error"
    assert len(asked(project)) == 3
    assert "warning" not in project.run().text.rpartition("=== ")[2]


@pytest.mark.scenario("User provides custom prompt for LLM judge evaluator")
@pytest.mark.parametrize(
    "keys", ["prompt: judges/mine.md", "promptPath: judges/mine.md", "prompt: 'Rate: {{ candidate_answer }}'"]
)
def test_a_prompt_of_ones_own_is_a_file_or_a_text_and_replaces_the_default_one(judged, project, keys):
    project.write("judges/mine.md", "Rate: {{ candidate_answer }}")
    judged(f"evaluators: [{{name: model, type: llm_judge, {keys}}}]")
    (question,) = asked(project)
    assert unmarked(question["all"]).rstrip().endswith("Rate: hello world")
    assert "[[ ## expected_outcome ## ]]" not in question["all"]
    assert '"score"' in question["all"]


@pytest.mark.scenario("LLM judge may consume trace (opt-in)")
def test_a_judge_sees_the_trace_only_where_that_is_asked_for(judged, project):
    judged("evaluators: [{name: a, type: llm_judge}, {name: b, type: llm_judge, include_trace: true}]")
    without, with_trace = asked(project)
    assert "trace_summary" not in without["all"]
    assert "[[ ## trace_summary ## ]]" in with_trace["all"]


def test_a_command_without_a_judge_target_cannot_judge_itself_and_the_message_says_what_to_write(judged):
    result = judged("", "--agentv-target=alone")
    assert (result["status"], result["attempts"]) == ("error", 0)
    assert result["error"] == (
        "target 'alone' (targets.yaml:4) would have to judge its own answers: give it a model as judge, "
        "`judge_target: <name of a target>`, or give the case evaluators that need no model"
    )


@pytest.mark.parametrize("keys", ["rubrics: [is short, {id: warm, description: is warm, weight: 3, required: false}]"])
def test_rubrics_are_checked_one_by_one_and_weighed(judged, project, keys):
    checks = [
        {"id": "rubric-1", "satisfied": True, "reasoning": "two words"},
        {"id": "warm", "satisfied": False, "reasoning": "cold"},
    ]
    result = judged(keys, reply=json.dumps({"checks": checks, "overall_reasoning": "mixed"}))
    (found,) = result["evaluator_results"]
    assert (found["name"], found["score"], found["verdict"]) == ("rubric", 0.25, "fail")
    assert found["hits"] == ["[rubric-1] is short: two words"]
    assert found["misses"] == ["[warm] is warm: cold"]
    assert found["reasoning"] == "mixed"
    assert "- [warm] (weight: 3): is warm" in asked(project)[0]["all"]


@pytest.mark.scenario("Calculate hits score")
@pytest.mark.scenario("Calculate misses score")
@pytest.mark.scenario("Error detection")
def test_keywords_are_counted_and_errors_detected(judged):
    result = judged(
        "evaluators: [{name: words, type: heuristic, hits: [hello, world, moon], misses: [sorry, error]}]",
        answer="Hello world\nValueError: sorry",
    )
    (found,) = result["evaluator_results"]
    assert found["details"] == {"hit_ratio": pytest.approx(2 / 3), "miss_ratio": 1, "has_error": True}
    assert (found["hits"], found["misses"]) == (["hello", "world"], ["sorry", "error", "missing: moon"])
    assert found["score"] == 0


def test_fields_of_a_json_answer_are_compared_with_those_that_were_expected(project):
    project.write(
        "targets.yaml", 'targets: [{name: default, provider: mock, response: \'{"total": 10.4, "n": "2"}\'}]\n'
    )
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            expected_messages: [{role: assistant, content: {total: 10, n: 2}}]
            evaluators:
              - name: fields
                type: field_accuracy
                fields:
                  - {path: total, match: numeric_tolerance, tolerance: 0.5, weight: 3}
                  - {path: n, match: exact}
        """,
    )
    (result,) = project.run().results
    (found,) = result["evaluator_results"]
    assert found["score"] == 0.75
    assert found["hits"] == ["total (within tolerance: diff=0.40)"]
    assert found["misses"] == ["n (type mismatch: got string, expected number)"]


FIELD_CASES = """
evalcases:
  - id: file
    input: q
    expected_messages: [{role: assistant, content: [{type: file, value: ideal.json}]}]
    assert: &total [{field_accuracy: [{path: total, match: exact}]}]
  - id: text
    input: q
    expected_messages: [{role: assistant, content: [{type: text, value: '{"total": 120}'}]}]
    assert: *total
  - {id: no-json, input: q, expected_messages: [{role: assistant, content: [{type: text, value: x}]}], assert: *total}
  - {id: no-data, input: q, assert: *total}
  - {id: no-date, input: q, expected_output: {d: soon}, assert: [{not-field_accuracy: [{path: d, match: date}]}]}
  - id: no-format
    input: q
    expected_output: {d: 2025-01-05}
    assert: [{field_accuracy: [{path: d, match: date, formats: [EU]}]}]
"""


def test_expected_data_is_read_from_parts_and_what_no_answer_can_meet_is_not_asked(project):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", 'def answer(prompt):\n    return \'{"total": 999, "d": "2025-01-05"}\'\n')
    project.write("ideal.json", '{"total": 120}\n')
    project.write("a.eval.yaml", FIELD_CASES)
    run = project.run()
    found = {result["eval_id"]: result for result in run.results}
    assert {name: result["status"] for name, result in found.items()} == {
        **dict.fromkeys(("file", "text", "no-data"), "fail"),
        **dict.fromkeys(("no-json", "no-date", "no-format"), "error"),
    }
    assert found["file"]["misses"] == found["text"]["misses"] == ["total (value mismatch)"]
    assert found["no-date"]["error"].startswith("the expected 'd' is the text 'soon', and no date that can be read")
    assert found["no-json"]["error"].startswith("the text and file parts of the expected message hold no JSON")
    assert [found[name]["attempts"] for name in ("no-json", "no-date", "no-format")] == [0, 0, 0]
    assert run.text.count("no-data: evaluator 'field_accuracy': there is no expected data") == 1


@pytest.mark.parametrize(
    ("evaluator", "score", "finding"),
    [
        ("type: latency, threshold: 120", 1, "Duration 120ms <= 120ms threshold"),
        ("type: latency, threshold: 100", 0, "Duration 120ms > 100ms threshold"),
        ("type: cost, budget: 0.1", 1, "Cost $0.0500 <= $0.1000 budget"),
        ("type: cost, budget: 0.01", 0, "Cost $0.0500 > $0.0100 budget"),
        ("type: token_usage, max_total: 17", 1, "Total tokens 17 <= 17"),
        ("type: token_usage, maxOutput: 4", 0, "Output tokens 5 > 4"),
    ],
)
def test_limits_hold_for_what_the_target_reports(judged, evaluator, score, finding):
    result = judged(f"evaluators: [{{name: limit, {evaluator}}}]")
    assert result["score"] == score
    assert finding in result["hits"] + result["misses"]


COMPOSITE = """
evaluators:
  - name: gate
    type: composite
    evaluators:
      - {name: words, type: heuristic, hits: [hello, moon]}
      - {name: model, type: llm_judge, prompt: 'Mine: {{ candidate_answer }}'}
"""


def test_a_composite_weighs_its_members_and_keeps_their_results(judged, project):
    result = judged(f"{COMPOSITE}    aggregator: {{type: weighted_average, weights: {{words: 3}}}}\n")
    (found,) = result["evaluator_results"]
    assert found["score"] == pytest.approx((3 * 0.5 + 1) / 4)
    assert [(member["name"], member["score"]) for member in found["evaluator_results"]] == [
        ("words", 0.5),
        ("model", 1),
    ]
    assert found["hits"] == ["[words] hello"]
    assert unmarked(asked(project)[0]["all"]).rstrip().endswith("Mine: hello world")


def test_a_script_decides_over_the_members_of_a_composite(judged, project):
    project.write(
        "gate.py",
        """
        import json, sys
        results = json.load(sys.stdin)["results"]
        lowest = min(result["score"] for result in results.values())
        print(json.dumps({"score": lowest, "verdict": "pass", "hits": list(results)}))
        """,
    )
    result = judged(f"{COMPOSITE}    aggregator: {{type: code_judge, path: python3 gate.py}}\n")
    (found,) = result["evaluator_results"]
    assert (found["score"], found["verdict"], found["hits"]) == (0.5, "pass", ["words", "model"])


def test_the_prompt_file_of_a_composites_judge_is_read(judged, project):
    project.write("judges/all.md", "All in all: {{EVALUATOR_RESULTS_JSON}}\n")
    result = judged(
        f"{COMPOSITE}    aggregator: {{type: llm_judge, prompt: judges/all.md}}\n",
        reply='{"score": 0.9, "hits": ["h"]}',
    )
    (found,) = result["evaluator_results"]
    assert (found["score"], found["hits"]) == (0.9, ["h"])
    last = asked(project)[-1]["all"]
    assert "All in all: {" in unmarked(last)
    assert '"words"' in last


@pytest.mark.parametrize(
    ("word", "place"),
    [("evaluator", "case"), ("grader", "file"), varied("evaluator", "file"), varied("grader", "case")],
)
def test_the_older_words_for_the_default_judge_are_understood(judged, project, word, place):
    judged(f"{word}: llm_judge" if place == "case" else "")
    if place == "file":
        path = project.path / "a.eval.yaml"
        path.write_text(f"{word}: llm_judge\n{path.read_text()}")
    run = project.run()
    assert run.statuses == {"a": "pass"}
    assert "warning" not in run.text


JUDGED = "evaluators: [{name: quality, type: llm_judge}]"


def replies(project):
    return (project.path / "asked.jsonl").read_text().splitlines()


def test_replies_that_are_no_judgement_are_asked_for_anew_with_a_cache(judged, project):
    """Kept, they would make the same case the same error in each run."""
    assert judged(JUDGED, "--agentv-cache", reply="hm")["status"] == "error"
    assert len(replies(project)) == 3
    result = judged(JUDGED, "--agentv-cache", reply='{"score": 1}')
    assert (result["status"], result["cached"]) == ("pass", True)
    assert len(replies(project)) == 4


PAID_JUDGE = """
def judge(prompt):
    assert not (HERE / "down").exists()
    checks = [{"id": "statement-1", "satisfied": True, "reasoning": ""}]
    text = json.dumps({"score": 1, "checks": checks, "overall_reasoning": ""})
    return {"text": text, "token_usage": {"input": 100, "output": 20}, "cost_usd": 0.25}
"""
SCRIPT = """
from pytest_agentv.sdk import Result, code_judge, create_target_client


@code_judge
def judge(case):
    reply = create_target_client().invoke("Is it polite?")
    return Result(score=float("score" in reply.raw_text))
"""
SCRIPTED = "evaluators: [{name: s, type: code_judge, script: [python3, script.py], target: true}]"
ONE = {"calls": 1, "token_usage": {"input": 100, "output": 20}, "cost_usd": 0.25}
ALL_KINDS = """
evaluators:
  - {name: words, type: heuristic, hits: [hello]}
  - {name: quality, type: llm_judge}
  - Is polite
  - name: both
    type: composite
    evaluators: [{name: inner, type: llm_judge}, {name: plain, contains: hello}]
    aggregator: {type: llm_judge}
  - {name: script, type: code_judge, script: [python3, script.py], target: true}
"""


@pytest.fixture
def paid(judged, project):
    """Return `judged`, with a judge that reports what it took."""
    project.write("agent.py", AGENT.partition("def judge")[0] + PAID_JUDGE)
    project.write("script.py", SCRIPT)
    return judged


def test_what_judges_took_is_recorded_for_each_evaluator_and_for_the_case(paid):
    result = paid(ALL_KINDS)
    words, quality, polite, both, script = result["evaluator_results"]
    assert "judge_metrics" not in words
    assert [each["judge_metrics"] for each in (quality, polite, both, script)] == [ONE] * 4
    assert [each.get("judge_metrics") for each in both["evaluator_results"]] == [ONE, None]
    assert result["judge_metrics"] == {"calls": 5, "token_usage": {"input": 500, "output": 100}, "cost_usd": 1.25}
    assert result["execution_metrics"]["cost_usd"] == 0.05


def test_the_default_judge_and_judges_of_several_answers_are_counted(paid):
    assert paid("")["judge_metrics"] == ONE
    assert paid("repeat: 3")["judge_metrics"]["cost_usd"] == 0.75


def test_judges_are_in_the_summary_and_a_cached_reply_costs_nothing(paid, project):
    assert paid(JUDGED, "--agentv-cache")["judge_metrics"] == ONE
    run = project.run("--agentv-cache", "--agentv-out=again.jsonl")
    again = json.loads((project.path / "again.jsonl").read_text())
    assert again["judge_metrics"] == {"calls": 0, "cached": 1}
    assert not [line for line in run.lines if line.startswith(("Cost:", "Tokens:"))]
    fresh = project.run()
    assert "Cost:             $0.0500; $0.2500 for judges" in fresh.lines
    assert "Tokens:           17 (10 in, 5 out, 2 cached); 120 (100 in, 20 out) for judges" in fresh.lines
    resumed = project.run("--agentv-resume=again.jsonl")
    assert not [line for line in resumed.lines if line.startswith(("Cost:", "Tokens:"))]


def test_a_judge_that_combines_composites_is_not_asked_again_with_a_cache(paid):
    nested = """
evaluators:
  - name: outer
    type: composite
    aggregator: {type: llm_judge}
    evaluators:
      - name: inner
        type: composite
        aggregator: {type: weighted_average}
        evaluators: [{name: quality, type: llm_judge}, {name: plain, contains: hello}]
"""
    assert paid(nested, "--agentv-cache")["judge_metrics"]["calls"] == 2
    assert paid(nested, "--agentv-cache")["judge_metrics"] == {"calls": 0, "cached": 2}


@pytest.mark.parametrize("breaks", ["{name: broken, python: '1 / 0'}", "{name: fine, contains: hello}"])
def test_what_members_took_is_not_lost_with_a_composite_that_breaks(paid, breaks):
    aggregator = "{type: weighted_average}" if "broken" in breaks else "{type: code_judge, path: exit 3}"
    result = paid(
        f"evaluators: [{{name: c, type: composite, evaluators: [{{name: q, type: llm_judge}}, {breaks}],"
        f" aggregator: {aggregator}}}]"
    )
    assert (result["status"], result["judge_metrics"]) == ("error", ONE)


def test_what_a_script_asked_is_not_lost_when_the_target_tells_an_error_and_its_cost(paid, project):
    agent = (project.path / "agent.py").read_text()
    project.write(
        "agent.py",
        "from pytest_agentv import ProviderResponse, TokenUsage\n"
        + agent.partition("def judge")[0]
        + """
def judge(prompt):
    return ProviderResponse(error="out of turns", token_usage=TokenUsage(100, 20), cost_usd=0.25)
""",
    )
    result = paid(SCRIPTED)
    assert (result["status"], result["judge_metrics"]) == ("error", ONE)
    assert "out of turns" in result["error"]


def test_answers_that_could_not_be_judged_count_once_when_the_case_goes_on(paid, project):
    """All three of the first run: the result of the second has what they took."""
    down = project.path / "down"
    down.touch()
    flags = ("--agentv-out=run.jsonl", "--agentv-stop=never")
    assert paid("repeat: 3", *flags) is None
    down.unlink()
    run = project.run(*flags, "--agentv-resume=run.jsonl", "--agentv-retry-errors")
    assert "Cost:             $0.3000; $0.7500 for judges, known for 3 of 6 calls" in run.lines
    assert not [line for line in run.lines if line.startswith("Reruns:")]


def test_a_dry_run_takes_nothing(paid):
    assert "judge_metrics" not in paid(JUDGED, "--agentv-dry-run")


def test_replies_that_are_no_judgement_were_paid_for(paid, project):
    agent = (project.path / "agent.py").read_text()
    project.write("agent.py", agent.replace("text = json", 'text = "hm" or json'))
    result = paid(JUDGED)
    assert (result["status"], result["judge_metrics"]["calls"], result["judge_metrics"]["cost_usd"]) == (
        "error",
        3,
        0.75,
    )


def test_replies_that_led_to_a_judgement_are_kept_and_cost_nothing_again(judged, project):
    reply = 'return (HERE / "reply.txt").read_text() if "Your last reply" in prompt else "hm"'
    project.write("agent.py", AGENT.replace('return (HERE / "reply.txt").read_text()', reply))
    for _ in range(2):
        result = judged(JUDGED, "--agentv-cache")
        assert (result["status"], result["judge_retries"]) == ("pass", 1)
    assert len(replies(project)) == 2


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize(
    ("evaluators", "figures", "said"),
    [
        (JUDGED, '"cost_usd": -5', "judge judge: cost_usd is -5 and was left out: expected a finite number of 0 or"),
        (JUDGED, '"token_usage": {"input": -1, "output": 2}', "judge judge: token_usage.input is -1 and was left out"),
        (JUDGED, '"cost_usd": "5"', "target 'judge': the answer's cost_usd is \"5\" and was left out"),
        (JUDGED, '"cost": 5', "target 'judge': the answer has a key that is not read: 'cost'"),
        (SCRIPTED, '"cost_usd": -5', "judge judge: cost_usd is -5 and was left out: expected a finite number of 0 or"),
        (SCRIPTED, '"cost": 5', "target 'judge': the answer has a key that is not read: 'cost'"),
    ],
    ids=["cost", "tokens", "type", "key", "cost for a script", "key for a script"],
)
def test_figures_of_a_judge_that_cannot_be_are_left_out_and_told(paid, project, evaluators, figures, said):
    agent = (project.path / "agent.py").read_text()
    project.write("agent.py", agent.replace('"token_usage": {"input": 100, "output": 20}, "cost_usd": 0.25', figures))
    assert paid(evaluators)["judge_metrics"] == {"calls": 1}
    assert project.run("-o", "log_cli=true").text.count(said) == 1
