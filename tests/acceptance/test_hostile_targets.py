"""Targets, judges and hooks that raise what ends programs, cancel themselves, or block: each case has its record."""

import logging
import time

import pytest
from thorough import tries, varied

from .conftest import Project, Run

HEAD = "import asyncio, time\nclass Odd(BaseException): pass\n"
WAYS = {
    "interrupt": ("raise KeyboardInterrupt('mine')", "KeyboardInterrupt: mine"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "generator": ("raise GeneratorExit('mine')", "GeneratorExit: mine"),
    "cancelled": ("raise asyncio.CancelledError('mine')", "CancelledError: mine"),
    "odd": ("raise Odd('mine')", "Odd: mine"),
}
"""By the id of the case: what its target does, and how it is named."""
ASYNC_WAYS = WAYS | {
    "waits": ("asyncio.current_task().cancel(); await asyncio.sleep(1)", "CancelledError"),
    "returns": ("asyncio.current_task().cancel(); return 'hello'", "CancelledError"),
}
WORKERS = pytest.mark.parametrize(
    ("mode", "workers"),
    [varied((), "1", id="plain-1"), pytest.param((), "4", id="plain-4"), varied(("-n", "2"), "4", id="n2-4")],
)
GOOD = ("good-1", "good-2", "good-3")


def misbehaving(ways: dict[str, tuple[str, str]], key: str) -> str:
    """Return the lines of a function's body that misbehave as `key`, an expression, says."""
    return "".join(f"    if {key} == {name!r}: {code}\n" for name, (code, _) in ways.items())


def write_cases(
    project: Project, *names: str, evaluator: str = "{name: words, type: heuristic, hits: [hello]}"
) -> None:
    cases = "".join(
        f"  - {{id: {name}, expected_outcome: x, input: {name}, evaluators: [{evaluator}]}}\n" for name in names
    )
    project.write("x.eval.yaml", f"evalcases:\n{cases}")


def write_agent(project: Project, head: str, body: str) -> None:
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:ask'}]\n")
    project.write(
        "agent.py", f"{HEAD}{head} ask(prompt):\n    prompt = prompt.splitlines()[-1]\n{body}    return 'hello'\n"
    )


def check(run: Run, ways: dict[str, tuple[str, str]], stage: str) -> None:
    """Each case that misbehaves is an error, told in words of ours; all others pass."""
    assert run.statuses == dict.fromkeys(GOOD, "pass") | dict.fromkeys(ways, "error"), run.text
    assert run.outcomes == {"passed": len(GOOD)} | ({"errors": len(ways)} if ways else {})
    assert run.internals == []
    for name, (_, message) in ways.items():
        assert message in run.by_id[name]["error"]
        assert run.by_id[name]["error_detail"] == {"stage": stage, "kind": "crash"}


@pytest.mark.parametrize(
    ("head", "ways", "mode", "workers"),
    [
        ("def", WAYS, (), "1"),
        varied("def", WAYS, (), "4"),
        varied("async def", ASYNC_WAYS, (), "1"),
        ("async def", ASYNC_WAYS, (), "4"),
        ("async def", ASYNC_WAYS, ("-n", "2"), "4"),
    ],
    ids=["sync-1", "sync-4", "async-1", "async-4", "async-n2-4"],
)
def test_a_target_that_raises_what_ends_programs(
    project_in_all_modes: Project, head: str, ways: dict[str, tuple[str, str]], workers: str
) -> None:
    project = project_in_all_modes
    write_agent(project, head, misbehaving(ways, "prompt"))
    write_cases(project, "good-1", *ways, "good-2", "good-3")

    run = project.run(f"--agentv-workers={workers}")

    check(run, ways, "provider")
    assert run.by_id["interrupt"]["error"] == (
        "target 'default': agent.py:ask raised KeyboardInterrupt: mine\n  agent.py:5 in ask"
    )


def test_a_task_of_the_targets_that_is_interrupted_ends_no_loop(project: Project) -> None:
    write_agent(
        project,
        "async def",
        "    async def child(): raise KeyboardInterrupt\n"
        # Else asyncio logs it when the task is collected, which may be in the next test.
        "    asyncio.ensure_future(child()).add_done_callback(lambda task: task.exception())\n"
        "    await asyncio.sleep(0.1)\n",
    )
    write_cases(project, *GOOD)

    check(project.run(), {}, "provider")


@WORKERS
def test_an_evaluator_that_raises_what_ends_programs(project_in_all_modes: Project, workers: str) -> None:
    project = project_in_all_modes
    write_agent(project, "def", "")
    project.write(
        "conftest.py",
        f"{HEAD}from pytest_agentv.model.results import Score\n"
        "async def judge(name):\n"
        f"{misbehaving(ASYNC_WAYS, 'name')}"
        "class Judge:\n"
        "  async def evaluate(self, context):\n"
        "    await judge(context.case.eval_id)\n"
        "    return Score(1.0)\n"
        "def pytest_agentv_evaluators(): return {'odd': lambda spec, services: Judge()}\n",
    )
    write_cases(project, "good-1", *ASYNC_WAYS, "good-2", "good-3", evaluator="{name: odd, type: odd}")

    check(project.run(f"--agentv-workers={workers}"), ASYNC_WAYS, "evaluator")


@pytest.mark.parametrize(
    ("hook", "mode"),
    [
        ("pytest_agentv_response(case, response)", ()),
        ("pytest_agentv_assert(case, result)", ()),
        varied("pytest_agentv_assert(case, result)", ("-n", "2")),
    ],
)
def test_a_hook_that_raises_what_ends_programs(project_in_all_modes: Project, hook: str) -> None:
    project = project_in_all_modes
    write_agent(project, "def", "")
    project.write("conftest.py", f"{HEAD}def {hook}:\n{misbehaving(WAYS, 'case.eval_id')}")
    write_cases(project, "good-1", *WAYS, "good-2", "good-3")

    check(project.run("--agentv-workers=4"), WAYS, "evaluator")


@pytest.mark.parametrize("place", ["factory", "check", "invoke", "close"])
def test_a_provider_of_a_conftest_that_raises_what_ends_programs(project: Project, place: str) -> None:
    targets = [f"{{name: {name}, provider: odd, who: {name}}}" for name in (*GOOD, *WAYS)]
    project.write("targets.yaml", f"targets: [{', '.join(targets)}]\n")
    bodies = dict.fromkeys(("factory", "check", "invoke", "close"), "    pass\n") | {place: misbehaving(WAYS, "name")}
    functions = "".join(
        f"{'' if each == 'factory' else 'async '}def {each}(name):\n{body}" for each, body in bodies.items()
    )
    project.write(
        "conftest.py",
        f"{HEAD}from pytest_agentv.providers.base import ProviderResponse\n"
        f"from pytest_agentv.model.messages import Message\n{functions}"
        "class Odder:\n"
        "    mode = 'lm'\n"
        "    def __init__(self, name): self.name = name\n"
        "    async def check(self): await check(self.name)\n"
        "    async def invoke(self, request):\n"
        "        await invoke(self.name)\n"
        "        return ProviderResponse((Message('assistant', 'hello'),))\n"
        "    async def close(self): await close(self.name)\n"
        "def make(target, environment):\n    factory(target.name)\n    return Odder(target.name)\n"
        "def pytest_agentv_providers(): return {'odd': make}\n",
    )
    evaluator = "{name: words, type: heuristic, hits: [hello]}"
    cases = "".join(
        f"  - {{id: {name}, expected_outcome: x, input: x, evaluators: [{evaluator}], execution: {{target: {name}}}}}\n"
        for name in ("good-1", *WAYS, "good-2", "good-3")
    )
    project.write("x.eval.yaml", f"evalcases:\n{cases}")

    run = project.run("--agentv-workers=2")

    if place == "close":
        assert {*run.statuses.values()} == {"pass"}
        assert run.internals == []
    else:
        check(run, WAYS, "provider" if place == "invoke" else "setup")


@pytest.mark.parametrize("message", ["", "slow"])
def test_a_bare_timeout_error_without_a_limit_is_a_timeout(project: Project, message: str) -> None:
    write_agent(project, "def", "")
    project.write(
        "conftest.py",
        "import pytest\n"
        "class Agent:\n"
        f"    async def invoke(self, request): raise TimeoutError({message!r})\n"
        "@pytest.fixture(scope='session')\n"
        "def agentv_provider(): return Agent()\n",
    )
    write_cases(project, "a")

    result = project.run("--agentv-timeout=0").by_id["a"]

    assert result["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert result["error"].startswith("agentv_provider raised TimeoutError" + (": slow" if message else "\n"))


def test_a_group_of_errors_shows_its_members(project: Project) -> None:
    write_agent(
        project,
        "async def",
        "    async def a(): raise ValueError('first')\n    async def b(): raise KeyError('second')\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        group.create_task(a())\n        group.create_task(b())\n",
    )
    write_cases(project, "a")

    lines = project.run().by_id["a"]["error"].split("\n")[1:]
    assert [line for line in lines if "taskgroups.py" not in line] == [
        "  agent.py:7 in ask",
        "  ValueError: first",
        "    agent.py:5 in a",
        "  KeyError: 'second'",
        "    agent.py:6 in b",
    ]


def test_an_async_target_that_never_yields_is_timed_out_and_holds_up_nobody(project: Project) -> None:
    write_agent(project, "async def", "    if prompt == 'bad': time.sleep(8)\n")
    write_cases(project, "bad", "a", "b", "c")
    started = time.monotonic()

    run = project.run("--agentv-timeout=1", "--agentv-max-retries=0", "--agentv-workers=2")

    assert time.monotonic() - started < 8
    assert run.statuses == {"bad": "error", "a": "pass", "b": "pass", "c": "pass"}
    assert run.by_id["bad"]["error_detail"]["kind"] == "timeout"
    assert run.by_id["bad"]["error"] == (
        "target 'default': agent.py:ask timed out after 1s; the event loop of async functions is blocked: call nothing "
        "that blocks in them, or use `def`"
    )


def test_a_late_answer_is_a_timeout(project: Project) -> None:
    body = "    try: await asyncio.sleep(5)\n    except asyncio.CancelledError: return 'hello'\n"
    write_agent(project, "async def", body)
    write_cases(project, "a")

    result = project.run("--agentv-timeout=0.3", "--agentv-max-retries=0").by_id["a"]

    assert (result["status"], result["error_detail"]["kind"]) == ("error", "timeout")


def test_a_sync_target_without_an_event_loop_is_told_what_to_do(project: Project) -> None:
    write_agent(project, "def", "    asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))\n")
    write_cases(project, "a")

    error = project.run().by_id["a"]["error"]

    assert error.startswith(
        "target 'default': agent.py:ask raised RuntimeError: There is no current event loop in thread "
        "'agentv-python'. (a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or "
        "make it `async def`)\n  agent.py:5 in ask\n"
    )


def test_async_targets_run_on_a_loop_of_the_users_policy(project: Project) -> None:
    """Under uvloop's policy, for instance, only its own loops can start subprocesses."""
    project.write(
        "conftest.py",
        "import asyncio, pytest\n"
        "class Loop(asyncio.SelectorEventLoop): pass\n"
        "class Policy(asyncio.DefaultEventLoopPolicy):\n    def new_event_loop(self): return Loop()\n"
        "@pytest.fixture(autouse=True, scope='session')\n"
        "def policy():\n"
        "    asyncio.set_event_loop_policy(Policy())\n    yield\n    asyncio.set_event_loop_policy(None)\n",
    )
    write_agent(project, "async def", "    return type(asyncio.get_running_loop()).__name__\n")
    write_cases(project, "a", evaluator="{name: words, type: heuristic, hits: [Loop], misses: [Selector]}")

    assert project.run().outcomes == {"passed": 1}


def test_a_clients_loop_is_that_of_all_calls(project: Project) -> None:
    """Clients belong to one loop: those of a module are shared by its cases, and by a judge in the same file."""
    project.write(
        "agent.py",
        "import asyncio, json\nloops = set()\n"
        "async def ask(prompt): loops.add(asyncio.get_running_loop()); return 'hello'\n"
        "async def judge(prompt):\n"
        "    loops.add(asyncio.get_running_loop())\n    return json.dumps({'score': 1.0 / len(loops)})\n",
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
    write_agent(
        project, "async def", "    import logging; logging.getLogger('mine').warning('seen %s', prompt); return 'x'\n"
    )
    write_cases(project, "a")

    assert "WARNING  mine:agent.py:5 seen a" in project.run().text


LOGGERS = tries(1_500, 2_500)


def test_targets_make_loggers_in_their_threads_while_pytest_walks_through_all(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root.manager, "loggerDict", dict(logging.root.manager.loggerDict))
    names = [f"case-{number}" for number in range(20)]
    write_cases(project, *names)
    make = f"    for number in range({LOGGERS}): logging.getLogger(f'{{prompt}}.{{number}}')\n"
    write_agent(project, "import logging\ndef", make)
    run = project.run("--agentv-workers=10")
    assert run.statuses == dict.fromkeys(names, "pass"), run.text
    assert run.outcomes == {"passed": len(names)}
    assert len(logging.root.manager.loggerDict) > LOGGERS * len(names)


@pytest.mark.parametrize("head", ["def", varied("async def")])
def test_a_target_that_ends_its_worker_has_a_record(project: Project, head: str) -> None:
    write_agent(project, head, "    if prompt == 'bad': import os; os._exit(3)\n")
    names = ("a", "b", "bad", "c", "d", "e")
    write_cases(project, *names)

    run = project.run("-n", "2", "--agentv-workers=2")

    assert {*run.statuses} == {*names}, run.text
    assert run.statuses["bad"] == "error"
    assert run.by_id["bad"]["error_detail"] == {"stage": "setup", "kind": "crash"}
