"""Models as judges, and the evaluators that count and compare, over real answers."""

import json

import pytest
from fake_llm import FakeLlm, Reply

from .conftest import SDK

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


def asked(project):
    path = project.path / "asked.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


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
SCRIPT = (
    SDK
    + """\
@code_judge
def judge(case):
    reply = create_target_client().invoke("Is it polite?")
    return Result(score=float("score" in reply.raw_text))
"""
)
SCRIPTED = "evaluators: [{name: s, type: code_judge, script: [python3, script.py], target: true}]"
ONE = {"calls": 1, "cost_usd": 0.25, "cost_known": 1, "input": 100, "output": 20, "tokens_known": 1}
UNKNOWN = {"calls": 1, "cost_usd": 0, "cost_known": 0, "input": 0, "output": 0, "tokens_known": 0}
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
    assert result["spent"]["judge"] == {name: 5 * figure for name, figure in ONE.items()}
    assert result["spent"]["answer"]["cost_usd"] == result["execution_metrics"]["cost_usd"] == 0.05


def test_judges_are_in_the_summary_and_a_cached_reply_costs_nothing(paid, project):
    assert paid(JUDGED, "--agentv-cache")["spent"]["judge"] == ONE
    run = project.run("--agentv-cache", "--agentv-out=again.jsonl")
    again = json.loads((project.path / "again.jsonl").read_text())
    assert (again["spent"]["answer"]["calls"], "judge" in again["spent"]) == (0, False)
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
    assert paid(nested, "--agentv-cache")["spent"]["judge"]["calls"] == 2
    assert "judge" not in paid(nested, "--agentv-cache")["spent"]


@pytest.mark.parametrize("breaks", ["{name: broken, python: '1 / 0'}", "{name: fine, contains: hello}"])
def test_what_members_took_is_not_lost_with_a_composite_that_breaks(paid, breaks):
    aggregator = "{type: weighted_average}" if "broken" in breaks else "{type: code_judge, path: exit 3}"
    result = paid(
        f"evaluators: [{{name: c, type: composite, evaluators: [{{name: q, type: llm_judge}}, {breaks}],"
        f" aggregator: {aggregator}}}]"
    )
    assert (result["status"], result["spent"]["judge"]) == ("error", ONE)


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
    assert (result["status"], result["spent"]["judge"]) == ("error", ONE)
    assert "out of turns" in result["error"]


def test_answers_that_could_not_be_judged_count_once_when_the_case_goes_on(paid, project):
    """The store has the answers of the first run, and what its judges may have cost."""
    down = project.path / "down"
    down.touch()
    flags = ("--agentv-out=run.jsonl", "--agentv-stop=never")
    assert paid("repeat: 3", *flags) is None
    down.unlink()
    run = project.run(*flags, "--agentv-resume=run.jsonl", "--agentv-retry-errors")
    assert "Cost:             $0.1500; $0.7500 for judges, known for 3 of 6 calls" in run.lines
    assert not [line for line in run.lines if line.startswith("Reruns:")]


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
        (JUDGED, '"token_usage": {"input": -1, "output": 2}', "judge judge: token_usage.input is -1 and was left out"),
        (JUDGED, '"cost_usd": "5"', "target 'judge': the answer's cost_usd is \"5\" and was left out"),
        (SCRIPTED, '"cost_usd": -5', "judge judge: cost_usd is -5 and was left out: expected a finite number of 0 or"),
    ],
    ids=["tokens", "type", "cost for a script"],
)
def test_figures_of_a_judge_that_cannot_be_are_left_out_and_told(paid, project, evaluators, figures, said):
    agent = (project.path / "agent.py").read_text()
    project.write("agent.py", agent.replace('"token_usage": {"input": 100, "output": 20}, "cost_usd": 0.25', figures))
    assert paid(evaluators)["spent"]["judge"] == UNKNOWN
    assert project.run("-o", "log_cli=true").text.count(said) == 1


def test_another_judge_and_a_panel_ask_only_whom_nobody_has_asked_yet(project):
    """Answers and replies are found under the definition of whom was asked, whoever named it."""
    with FakeLlm() as server:
        for name in ("shop", "first", "second"):
            server.script(name, Reply('{"score": 0.9, "hits": [], "misses": [], "reasoning": "Good."}'))
        server.script("shop", Reply("120 euros"))
        project.write(
            "targets.yaml",
            "targets:\n"
            + "".join(
                f"  - {{name: {name}, provider: openai, model: m, base_url: '{server.url}/{name}', api_key: sk-none}}\n"
                for name in ("shop", "first", "second")
            ),
        )

        def asked(*flags, judge="", evaluator="{type: llm_judge}"):
            """Return how often each was asked in a run with these flags, and the record."""
            before = {name: len(server.asked(name)) for name in ("shop", "first", "second")}
            case = f"{{id: a, input: What does it cost?, criteria: Names the price, assert: [{evaluator}]}}"
            project.write("a.eval.yaml", f"target: shop\nthreshold: 0.8\n{judge}cases: [{case}]\n")
            run = project.run(*flags)
            assert run.statuses == {"a": "pass"}
            return [len(server.asked(name)) - before[name] for name in before], run.results[0]

        assert asked(judge="judge: first\n")[0] == [1, 1, 0]
        again = "--agentv-cache"
        assert asked(again, judge="judge: first\n")[0] == [0, 0, 0]
        assert asked(again, judge="judge: second\n")[0] == [0, 0, 1]
        assert asked(again, "--agentv-judge=first", judge="judge: second\n")[0] == [0, 0, 0]
        assert asked(again, evaluator="{type: llm_judge, judge: second}")[0] == [0, 0, 0]
        calls, result = asked(again, evaluator="{type: llm_judge, judges: [first, first, second]}")
        assert calls == [0, 1, 0]
        details = result["evaluator_results"][0]["details"]
        assert [each["judge"] for each in details["judges"]] == ["first", "first", "second"]
        assert (
            asked("--agentv-rejudge=out-1.jsonl", evaluator="{type: llm_judge, judges: [second, second], vote: mean}")[
                0
            ][0]
            == 0
        )
