"""Targets, judges and hooks that raise what ends programs, cancel themselves, or block: each case has its record."""

import json
import time
from collections.abc import Callable

import pytest

from .conftest import Project, Run

RAISES = {
    "interrupt": "raise KeyboardInterrupt('mine')",
    "exit": "raise SystemExit(3)",
    "generator": "raise GeneratorExit('mine')",
    "cancelled": "raise asyncio.CancelledError('mine')",
    "base": "raise Odd('mine')",
}
HEAD = "import asyncio, time\nclass Odd(BaseException): pass\n"
SELF = "asyncio.current_task().cancel()\n    await asyncio.sleep(1)"
LATER = "asyncio.current_task().cancel()\n    return 'hello'"
CHILD = "async def child(): raise KeyboardInterrupt\n    asyncio.ensure_future(child())\n    await asyncio.sleep(0.2)\n    return 'hello'"


@pytest.fixture
def run_bad(project_in_all_modes: Project) -> Callable[..., Run]:
    """Run six cases, of which `bad` makes the target or its judge misbehave."""
    project = project_in_all_modes

    def run(*args: str, evaluators: str = "[{name: words, type: heuristic, hits: [hello]}]") -> Run:
        cases = "".join(
            f"  - {{id: {name}, expected_outcome: x, input: {name}, evaluators: {evaluators}}}\n"
            for name in ("a", "b", "bad", "c", "d", "e")
        )
        project.write("x.eval.yaml", f"evalcases:\n{cases}")
        return project.run(*args)

    return run


def check(run: Run, message: str, *, stage: str = "provider", kind: str = "crash") -> None:
    assert run.statuses == {name: "error" if name == "bad" else "pass" for name in ("a", "b", "bad", "c", "d", "e")}
    assert run.outcomes == {"passed": 5, "errors": 1}
    assert message in run.by_id["bad"]["error"]
    assert run.by_id["bad"]["error_detail"] == {"stage": stage, "kind": kind}
    assert run.internals == []


def agent(project: Project, head: str, body: str) -> None:
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:ask'}]\n")
    project.write(
        "agent.py", f"{HEAD}{head} ask(prompt):\n    if 'bad' not in prompt:\n        return 'hello'\n    {body}\n"
    )


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.parametrize("name", RAISES)
def test_a_target_that_raises_what_ends_programs(
    project_in_all_modes: Project, run_bad: Callable[..., Run], name: str, workers: str
) -> None:
    for head, line in (("def", 5), ("async def", 5)):
        agent(project_in_all_modes, head, RAISES[name])
        word = RAISES[name].removeprefix("raise ").removeprefix("asyncio.").partition("(")[0]
        check(run_bad(f"--agentv-workers={workers}"), f"agent.py:ask raised {word}: ")
        assert line


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.parametrize("body", [SELF, LATER], ids=["waits", "returns"])
def test_a_target_that_cancels_itself(
    project_in_all_modes: Project, run_bad: Callable[..., Run], body: str, workers: str
) -> None:
    agent(project_in_all_modes, "async def", body)

    check(run_bad(f"--agentv-workers={workers}"), "agent.py:ask raised CancelledError")


def test_a_task_of_the_targets_that_is_interrupted_ends_no_loop(
    project_in_all_modes: Project, run_bad: Callable[..., Run]
) -> None:
    agent(project_in_all_modes, "async def", CHILD)

    assert set(run_bad("--agentv-workers=4").statuses.values()) == {"pass"}


@pytest.mark.parametrize("name", [*RAISES, "self"])
def test_an_evaluator_that_raises_what_ends_programs(
    project_in_all_modes: Project, run_bad: Callable[..., Run], name: str
) -> None:
    project = project_in_all_modes
    agent(project, "def", "return 'hello'")
    body = RAISES.get(name, SELF).replace("\n    ", "\n        ")
    project.write(
        "conftest.py",
        f"{HEAD}from pytest_agentv.models.scores import Score\n"
        "class Judge:\n"
        "  async def evaluate(self, context):\n"
        "    if context.case.eval_id == 'bad':\n"
        f"        {body}\n"
        "    return Score(1.0)\n"
        "def pytest_agentv_evaluators(): return {'odd': lambda spec, services: Judge()}\n",
    )

    run = run_bad("--agentv-workers=4", evaluators="[{name: odd, type: odd}]")

    check(run, "CancelledError" if name == "self" else "mine" if name != "exit" else "SystemExit: 3", stage="evaluator")


@pytest.mark.parametrize("name", RAISES)
@pytest.mark.parametrize("hook", ["pytest_agentv_response(case, response)", "pytest_agentv_assert(case, result)"])
def test_a_hook_that_raises_what_ends_programs(
    project_in_all_modes: Project, run_bad: Callable[..., Run], name: str, hook: str
) -> None:
    project = project_in_all_modes
    agent(project, "def", "return 'hello'")
    project.write("conftest.py", f"{HEAD}def {hook}:\n    if case.eval_id == 'bad':\n        {RAISES[name]}\n")

    check(run_bad("--agentv-workers=4"), f"{hook.partition('(')[0]} raised ", stage="evaluator")


@pytest.mark.parametrize("name", RAISES)
@pytest.mark.parametrize("place", ["factory", "check", "invoke", "close"])
def test_a_provider_of_a_conftest_that_raises_what_ends_programs(project: Project, name: str, place: str) -> None:
    raising = {key: "pass" for key in ("factory", "check", "invoke", "close")} | {place: RAISES[name]}
    project.write("targets.yaml", "targets: [{name: default, provider: odd}]\n")
    project.write(
        "conftest.py",
        f"{HEAD}from pytest_agentv.providers.base import ProviderResponse\n"
        "from pytest_agentv.models.messages import Message\n"
        "class Odder:\n"
        "    mode = 'lm'\n"
        f"    async def check(self):\n        {raising['check']}\n"
        f"    async def invoke(self, request):\n        {raising['invoke']}\n"
        "        return ProviderResponse((Message('assistant', 'hello'),))\n"
        f"    async def close(self):\n        {raising['close']}\n"
        f"def make(target, environment):\n    {raising['factory']}\n    return Odder()\n"
        "def pytest_agentv_providers(): return {'odd': make}\n",
    )
    evaluators = "[{name: words, type: heuristic, hits: [hello]}]"
    cases = "".join(f"  - {{id: {name}, expected_outcome: x, input: x, evaluators: {evaluators}}}\n" for name in "abc")
    project.write("x.eval.yaml", f"evalcases:\n{cases}")

    run = project.run()

    expected = "pass" if place == "close" else "error"
    assert run.statuses == {"a": expected, "b": expected, "c": expected}, run.text
    assert run.internals == []


@pytest.mark.parametrize("message", ["", "slow"])
def test_a_bare_timeout_error_without_a_limit_is_a_timeout(project: Project, message: str) -> None:
    agent(project, "async def", f"raise TimeoutError({message!r})")
    project.write(
        "conftest.py",
        "import pytest\n"
        "class Agent:\n"
        f"    async def invoke(self, request): raise TimeoutError({message!r})\n"
        "@pytest.fixture(scope='session')\n"
        "def agentv_provider(): return Agent()\n",
    )
    project.write("x.eval.yaml", "evalcases: [{id: a, expected_outcome: x, input: bad, evaluators: []}]\n")

    result = project.run("--agentv-timeout=0").by_id["a"]

    assert result["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert result["error"].startswith("agentv_provider raised TimeoutError" + (": slow" if message else "\n"))


def test_a_group_of_errors_shows_its_members(project: Project) -> None:
    agent(
        project,
        "async def",
        "async def a(): raise ValueError('first')\n    async def b(): raise KeyError('second')\n"
        "    async with asyncio.TaskGroup() as group:\n        group.create_task(a())\n        group.create_task(b())",
    )
    project.write("x.eval.yaml", "evalcases: [{id: a, expected_outcome: x, input: bad, evaluators: []}]\n")

    assert project.run().by_id["a"]["error"].split("\n")[1:] == [
        "  agent.py:8 in ask",
        "  ValueError: first",
        "    agent.py:6 in a",
        "  KeyError: 'second'",
        "    agent.py:7 in b",
    ]


def test_an_async_target_that_never_yields_is_timed_out_and_holds_up_nobody(project: Project) -> None:
    agent(project, "async def", "time.sleep(6)\n    return 'hello'")
    evaluators = "[{name: words, type: heuristic, hits: [hello]}]"
    cases = "".join(
        f"  - {{id: {name}, expected_outcome: x, input: {name}, evaluators: {evaluators}}}\n"
        for name in ("bad", "a", "b", "c")
    )
    project.write("x.eval.yaml", f"evalcases:\n{cases}")
    started = time.monotonic()

    run = project.run("--agentv-timeout=1", "--agentv-max-retries=1", "--agentv-workers=2")

    assert time.monotonic() - started < 6 + 4
    assert run.statuses == {"bad": "error", "a": "pass", "b": "pass", "c": "pass"}
    assert run.by_id["bad"]["error_detail"]["kind"] == "timeout"
    assert run.by_id["bad"]["error"] == (
        "target 'default': agent.py:ask timed out after 1s; the event loop of async functions is blocked: call nothing "
        "that blocks in them, or use `def`"
    )


def test_a_late_answer_is_a_timeout(project: Project) -> None:
    body = "try:\n        await asyncio.sleep(5)\n    except asyncio.CancelledError:\n        return 'hello'"
    agent(project, "async def", body)
    project.write("x.eval.yaml", "evalcases: [{id: a, expected_outcome: x, input: bad, evaluators: []}]\n")

    result = project.run("--agentv-timeout=0.3", "--agentv-max-retries=0").by_id["a"]

    assert (result["status"], result["error_detail"]["kind"]) == ("error", "timeout")


def test_a_sync_target_without_an_event_loop_is_told_what_to_do(project: Project) -> None:
    agent(project, "def", "return asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 'hello'))")
    project.write("x.eval.yaml", "evalcases: [{id: a, expected_outcome: x, input: bad, evaluators: []}]\n")

    assert project.run().by_id["a"]["error"] == (
        "target 'default': agent.py:ask raised RuntimeError: There is no current event loop in thread 'agentv-python'. "
        "(a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or make it "
        "`async def`)\n  agent.py:6 in ask"
    )


def test_a_clients_loop_is_that_of_all_calls(project: Project) -> None:
    """Clients belong to one loop: those that a module keeps are shared by its cases, and by a judge in the same file."""
    project.write(
        "agent.py",
        "import asyncio, json\nloops = set()\n"
        "async def ask(prompt): loops.add(asyncio.get_running_loop()); return 'hello'\n"
        "async def judge(prompt): loops.add(asyncio.get_running_loop()); return json.dumps({'score': len(loops) == 1})\n",
    )
    project.write(
        "targets.yaml",
        "targets:\n"
        "  - {name: default, provider: python, callable: 'agent.py:ask', judge_target: judge}\n"
        "  - {name: judge, provider: python, callable: 'agent:judge'}\n",
    )
    project.write("x.eval.yaml", "evalcases: [{id: a, expected_outcome: x, input: x}]\n")

    assert project.run().outcomes == {"passed": 1}


def test_logs_of_async_targets_are_shown_with_their_case(project: Project) -> None:
    agent(project, "async def", "import logging\n    logging.getLogger('mine').warning('seen %s', prompt)\n    return 'x'")
    evaluators = "[{name: words, type: heuristic, hits: [hello]}]"
    project.write(
        "x.eval.yaml", f"evalcases: [{{id: a, expected_outcome: x, input: bad, evaluators: {evaluators}}}]\n"
    )

    assert "WARNING  mine:agent.py:7 seen bad" in project.run().text


@pytest.mark.parametrize("head", ["def", "async def"])
def test_a_target_that_ends_its_worker_has_a_record(project: Project, head: str) -> None:
    agent(project, head, "import os\n    os._exit(3)")
    evaluators = "[{name: words, type: heuristic, hits: [hello]}]"
    names = ("a", "b", "bad", "c", "d", "e")
    cases = "".join(
        f"  - {{id: {name}, expected_outcome: x, input: {name}, evaluators: {evaluators}}}\n" for name in names
    )
    project.write("x.eval.yaml", f"evalcases:\n{cases}")

    run = project.run("-n", "2", "--agentv-workers=2", subprocess=True)

    assert {*run.statuses} == {*names}, run.text
    assert run.statuses["bad"] == "error"
    assert json.dumps(run.by_id["bad"]["error_detail"]) == '{"stage": "setup", "kind": "crash"}'
