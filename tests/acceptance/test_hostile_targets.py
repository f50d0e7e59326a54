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
        pytest.param("async def", ASYNC_WAYS, ("-n", "2"), "4", marks=pytest.mark.slow),
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


ODD = """
import asyncio, json, logging

async def child(): raise KeyboardInterrupt

async def interrupted(prompt):
    # Else asyncio logs it when the task is collected, which may be in the next test.
    asyncio.ensure_future(child()).add_done_callback(lambda task: task.exception())
    await asyncio.sleep(0.1)
    return "hello"

async def a(): raise ValueError("first")
async def b(): raise KeyError("second")

async def group(prompt):
    async with asyncio.TaskGroup() as group:
        group.create_task(a())
        group.create_task(b())

async def late(prompt):
    try: await asyncio.sleep(5)
    except asyncio.CancelledError: return "hello"

def loop(prompt): asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))

async def logs(prompt):
    logging.getLogger("mine").warning("seen %s", prompt)
    return "x"

loops = set()

async def client(prompt):
    loops.add(asyncio.get_running_loop())
    return "hello"

async def judge(prompt):
    loops.add(asyncio.get_running_loop())
    return json.dumps({"score": 1.0 / len(loops)})
"""
"""Clients belong to one loop: those of a module are shared by its cases, and by a judge in the same file."""


def test_what_functions_do_with_tasks_loops_and_logs(project: Project) -> None:
    project.write("agent.py", ODD)
    names = ("interrupted", "group", "late", "loop", "logs", "client")
    targets = "".join(
        f"  - {{name: {name}, provider: python, callable: 'agent.py:{name}', judge_target: judge, timeout_seconds: "
        f"{0.3 if name == 'late' else 60}}}\n"
        for name in names
    )
    project.write(
        "targets.yaml", f"targets:\n{targets}  - {{name: judge, provider: python, callable: 'agent:judge'}}\n"
    )
    check = {"client": "expected_outcome: x"}
    cases = (
        f"  - {{id: {name}, input: {name}, target: {name}, {check.get(name, 'assert: [contains: hello]')}}}\n"
        for name in names
    )
    project.write("x.eval.yaml", f"evalcases:\n{''.join(cases)}")

    run = project.run("--agentv-max-retries=0")

    wrong = {"group": "error", "late": "error", "loop": "error", "logs": "fail"}
    assert run.statuses == {"interrupted": "pass", "client": "pass"} | wrong
    lines = run.by_id["group"]["error"].split("\n")[1:]
    assert [line for line in lines if "taskgroups.py" not in line] == [
        "  agent.py:15 in group",
        "  ValueError: first",
        "    agent.py:11 in a",
        "  KeyError: 'second'",
        "    agent.py:12 in b",
    ]
    assert run.by_id["late"]["error_detail"]["kind"] == "timeout"
    assert run.by_id["loop"]["error"].startswith(
        "target 'loop': agent.py:loop raised RuntimeError: There is no current event loop in thread "
        "'agentv-python'. (a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or "
        "make it `async def`)\n  agent.py:23 in loop\n"
    )
    assert "WARNING  mine:agent.py:26 seen logs" in run.text


@pytest.mark.slow
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


LOGGERS = tries(1_500, 2_500)


@pytest.mark.slow
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
