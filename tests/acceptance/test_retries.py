"""Attempts: what is repeated, how often, and what a case that could not be run does to the others."""

import re

import pytest
from thorough import varied

HANGS_ONCE = """
targets:
  - name: default
    provider: cli
    timeout_seconds: 0.8
    command_template: "echo {ATTEMPT} >> calls; if [ {ATTEMPT} = 0 ]; then sleep 60; fi; echo hello"
"""

HANGS = """
targets:
  - name: default
    provider: cli
    timeout_seconds: 0.2
    command_template: "echo {EVAL_ID} >> calls; sleep 60"
  - {name: well, provider: mock, response: hello}
"""


def calls(project):
    path = project.path / "calls"
    return path.read_text().split() if path.exists() else []


@pytest.mark.scenario("Timeout with retry")
@pytest.mark.scenario("Timeout and retries")
def test_a_call_that_times_out_is_made_again_and_the_attempts_are_counted(project, suite):
    project.write("targets.yaml", HANGS_ONCE)
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run()
    assert calls(project) == ["0", "1"]
    assert run.statuses == {"a": "pass"}
    assert run.by_id["a"]["attempts"] == 2
    assert run.outcomes == {"passed": 1}


@pytest.mark.scenario("Maximum retries exceeded")
@pytest.mark.scenario("Timeout and retries")
@pytest.mark.parametrize(("flags", "attempts"), [((), 3), (("--agentv-max-retries=1",), 2)])
def test_after_the_last_retry_the_case_is_an_error_and_the_next_case_runs(project, suite, flags, attempts):
    project.write("targets.yaml", HANGS)
    project.write("a.eval.yaml", suite(a="hello"))
    project.write("b.eval.yaml", "execution: {target: well}\n" + suite(b="hello"))
    run = project.run(*flags)
    assert calls(project) == ["a"] * attempts
    assert run.statuses == {"a": "error", "b": "pass"}
    broken = run.by_id["a"]
    assert broken["attempts"] == attempts
    assert broken["error"] == "CLI provider timed out after 0.2s"
    assert broken["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert broken["candidate_answer"] == "Error occurred: CLI provider timed out after 0.2s"
    assert broken["misses"] == ["Error: CLI provider timed out after 0.2s"]
    assert run.outcomes == {"passed": 1, "errors": 1}


def test_no_retries_means_one_call(project, suite):
    project.write("targets.yaml", HANGS)
    project.write("a.eval.yaml", suite(a="hello"))
    assert project.run("--agentv-max-retries=0").by_id["a"]["attempts"] == 1
    assert calls(project) == ["a"]


@pytest.mark.parametrize(
    "command",
    [
        "echo out of tokens >&2; exit 1",
        "echo 'the request timed out' >&2; exit 124",
        "kill -9 $$",
    ],
)
def test_other_failures_of_a_command_are_not_repeated(project, suite, command):
    project.write(
        "targets.yaml", f'targets: [{{name: default, provider: cli, command_template: "echo x >> calls; {command}"}}]'
    )
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run()
    assert calls(project) == ["x"]
    assert run.by_id["a"]["attempts"] == 1
    assert run.by_id["a"]["error_detail"] == {"stage": "provider", "kind": "process"}


AGENT = """
import asyncio
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls")


def note(word):
    with CALLS.open("a") as file:
        file.write(f"{word}\\n")
    return len(CALLS.read_text().split())


async def hangs_once(prompt):
    if note("async") == 1:
        await asyncio.sleep(60)
    return "hello"


def gives_up_once(prompt):
    if note("sync") == 1:
        raise TimeoutError("upstream took too long")
    return "hello"


def refuses(prompt):
    note("refused")
    raise PermissionError("no access")


async def answers_late(prompt):
    await asyncio.sleep(0.4)
    return "hello"
"""


def python_target(project, function, **keys):
    project.write("agent.py", AGENT)
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    project.write(
        "targets.yaml", f"targets: [{{name: default, provider: python, callable: agent.py:{function}{more}}}]"
    )


@pytest.mark.scenario("Timeout with retry")
@pytest.mark.parametrize("function", ["hangs_once", "gives_up_once"])
def test_timeouts_of_python_functions_are_repeated_too_whatever_their_wording(project, suite, function):
    python_target(project, function)
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-timeout=0.3")
    assert run.statuses == {"a": "pass"}
    assert run.by_id["a"]["attempts"] == 2


def test_an_exception_of_a_python_function_is_not_repeated(project, suite):
    python_target(project, "refuses")
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run()
    assert calls(project) == ["refused"]
    assert run.by_id["a"]["attempts"] == 1
    assert run.by_id["a"]["error"].startswith("target 'default': agent.py:refuses raised PermissionError: no access")


def test_the_time_limit_of_the_run_holds_for_every_call_and_0_switches_it_off(project, suite):
    python_target(project, "answers_late")
    project.write("a.eval.yaml", suite(a="hello"))
    limited = project.run("--agentv-timeout=0.05", "--agentv-max-retries=0")
    assert limited.by_id["a"]["error"] == "target 'default': agent.py:answers_late timed out after 0.05s"
    assert project.run("--agentv-timeout=0", "--agentv-max-retries=0").statuses == {"a": "pass"}


def test_the_time_limit_0_does_not_stop_judges_either(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("judge.py", "print('{\"score\": 1}')\n")
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators: [{name: j, type: code_judge, script: judge.py}]
        """,
    )
    assert project.run("--agentv-timeout=0").statuses == {"a": "pass"}


def test_the_shorter_one_of_two_time_limits_counts(project, suite):
    python_target(project, "answers_late", timeout_seconds=0.05)
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-timeout=30", "--agentv-max-retries=0")
    assert run.by_id["a"]["error"] == "target 'default': agent.py:answers_late timed out after 0.05s"


@pytest.mark.scenario("Successful test execution")
def test_a_case_is_asked_with_its_request_and_its_guidelines_and_the_answer_is_kept(project):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:echo}]\n")
    project.write("agent.py", "def echo(prompt):\n    return prompt\n")
    project.write("tone.instructions.md", "Be brief.\n")
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages:
              - role: user
                content:
                  - {type: file, value: tone.instructions.md}
                  - {type: text, value: What time is it?}
            evaluators: [{name: words, type: heuristic, hits: [What time is it?, Be brief.]}]
        """,
    )
    (result,) = project.run().results
    answer = '<file path="tone.instructions.md">\nBe brief.\n</file>\n\nWhat time is it?'
    assert result["candidate_answer"] == answer
    assert (result["score"], result["attempts"], result["status"]) == (1, 1, "pass")


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


@pytest.mark.scenario("Verbose logging")
@pytest.mark.parametrize("mode", [(), ("-n", "1")], ids=["plain", "a worker"])
def test_a_verbose_run_shows_the_calls_and_what_the_evaluators_said_of_each_case(project, suite, mode):
    project.write("targets.yaml", HANGS_ONCE.replace("echo hello", "echo a note >&2; echo hello"))
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-verbose", mode=mode)
    shown = [line for line in run.lines if line.startswith("a.eval.yaml::a: ")]
    assert len(shown) == 1
    assert re.fullmatch(
        r"a\.eval\.yaml::a: pass; target default, 2 attempts, .+, score 1\.000 \(words 1\.000\)", shown[0]
    )
    assert run.text.count("target default: running ") == 2
    assert "target default: stderr: a note" in run.text
    quiet = project.run(mode=mode).text
    assert "2 attempts" not in quiet
    assert "running" not in quiet


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
