"""Attempts: what is repeated, how often, and what a case that could not be run does to the others."""

import re

import pytest
from thorough import varied

MIXED = """
def answer(prompt):
    if "broken" in prompt:
        raise RuntimeError("out of order")
    return prompt
"""


@pytest.mark.scenario("Error isolation in parallel mode")
@pytest.mark.scenario("Partial batch completion")
@pytest.mark.scenario("Maximum retries exceeded")
def test_a_case_that_breaks_leaves_the_others_alone_in_every_mode(project_in_all_modes, suite):
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", MIXED)
    project.write("a.eval.yaml", suite(a="one", b="broken", c="three", d="broken", e="five", f="six"))
    run = project.run()
    assert run.exit_code == 1
    assert run.statuses == {"a": "pass", "b": "error", "c": "pass", "d": "error", "e": "pass", "f": "pass"}
    assert "RuntimeError: out of order" in run.by_id["b"]["error"]
    assert run.outcomes == {"passed": 4, "errors": 2}


JUDGED = """
import asyncio
from pathlib import Path

CALLS = Path(__file__).with_name("calls")


async def answer(prompt):
    if not CALLS.exists():
        CALLS.touch()
        await asyncio.sleep(60)
    if "break" in prompt:
        raise RuntimeError("out of order")
    return "hello"
"""


@pytest.mark.scenario("Verbose logging")
@pytest.mark.parametrize("mode", [(), varied(("-n", "1"))], ids=["plain", "a worker"])
def test_a_verbose_run_shows_each_call_of_a_target_and_of_a_judge(project, suite, mode):
    """Only commands were shown."""
    project.write("agent.py", JUDGED)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: python, callable: agent.py:answer, timeout_seconds: 0.5, judge_target: model}
          - {name: model, provider: cli, command_template: "echo '{\\"score\\": 1}'"}
        """,
    )
    case = "input_messages: [{role: user, content: %s}], evaluators: [{name: j, type: llm_judge}]}\n"
    cases = "".join(f"  - {{id: {word}, expected_outcome: o, {case % word}" for word in ("fine", "break"))
    project.write("a.eval.yaml", f"evalcases:\n{cases}")
    flags = ("--agentv-verbose", "--agentv-cache")
    assert [shown_calls(project.run(*flags, mode=mode)) for _ in range(2)] == [
        [
            "target default: call 1: failed: target 'default': agent.py:answer timed out after 0.5s",
            "target default: call 2: answered",
            "judge model: call 1: answered",
            OUT_OF_ORDER,
        ],
        [
            "target default: call 1: answered from the store",
            "judge model: call 1: answered from the store",
            OUT_OF_ORDER,
        ],
    ]
    assert "call 1" not in project.run("--agentv-cache", mode=mode).text


OUT_OF_ORDER = "target default: call 1: failed: target 'default': agent.py:answer raised RuntimeError: out of order"


SHOWN_CALL = r"  DEBUG .+?:(?:answers|stored)\.py:\d+ (.+: call \d+)(?:, [\d.]+ ms)?(: .+)"


def shown_calls(run):
    """Return what stands below the lines of cases, without the times of calls."""
    lines = (re.fullmatch(SHOWN_CALL, line) for line in run.lines)
    return ["".join(line.groups()) for line in lines if line]


PAYS = """
    from pytest_agentv import Message, Provider, ProviderError, ProviderResponse, TokenUsage

    class Pays(Provider):
        kind = "pays"
        ways: str

        def open(self, environment):
            return self

        def invoke(self, request):
            way = self.ways[request.attempt]
            if way == "x":
                raise ProviderError("too late", "timeout")
            error = "too late" if way == "t" else None
            said = (Message("assistant", "hi" if request.prompt.question == "q" else '{"score": 1}'),)
            paid = {"cost_usd": 1.0, "token_usage": TokenUsage(10, 5)}
            return ProviderResponse(said, error=error, error_kind="timeout", **paid)

    def pytest_agentv_providers():
        return [Pays]
    """


@pytest.fixture
def paying(project):
    def run(ways, judge_ways="a"):
        project.write("conftest.py", PAYS)
        target = f"{{name: default, provider: pays, ways: {ways}, judge_target: judge}}"
        project.write("targets.yaml", f"targets: [{target}, {{name: judge, provider: pays, ways: {judge_ways}}}]\n")
        checks = "[{name: cheap, cost: 1.5}, {name: judged, type: llm_judge}]"
        project.write("a.eval.yaml", f"evalcases: [{{id: a, expected_outcome: o, input: q, evaluators: {checks}}}]\n")
        return project.run()

    return run


@pytest.mark.parametrize(
    ("ways", "cost", "status"),
    [("a", 1, "pass"), ("tta", 3, "pass"), ("xta", 2, "pass"), ("ttt", 3, "error"), ("ttx", 2, "error")],
)
def test_calls_that_timed_out_and_were_paid_for_count(paying, ways, cost, status):
    run = paying(ways)
    (result,) = run.results
    assert (result["status"], result["attempts"]) == (status, len(ways))
    metrics = result["execution_metrics"]
    assert (metrics["cost_usd"], metrics["token_usage"]) == (cost, {"input": 10 * cost, "output": 5 * cost})
    assert result["cost_source"] == "target"
    assert f"${cost:.4f}" in run.text
    if status == "error":
        assert (result["error"], result["error_detail"]) == ("too late", {"stage": "provider", "kind": "timeout"})


def test_calls_of_a_judge_that_timed_out_and_were_paid_for_count(paying):
    costs = paying("a", judge_ways="txa").results[0]["spent"]["judge"]
    assert (costs["calls"], costs["cost_usd"], costs["cost_known"]) == (3, 2, 2)
