"""A run that is killed at any moment loses nothing it has finished, and is completed by the next one."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kills import LONGEST_RUN, WORKERS, children, command_of, start, wait_for_the_end
from thorough import tries

CASES = 12
KILLS = tries(20, 50)
LONGEST_DELAY = 0.35
"""Seconds from a run's first call to the kill; an undisturbed run takes about that long."""
PAUSE = 0.005
"""Seconds between two looks at the processes; a judge lives longer."""
SEED = 20261121

AGENT = """
import os
import time


def answer(prompt):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(prompt + "\\n")
    time.sleep(0.04)
    return "hello"
"""

JUDGE = """
read -r _
sleep 0.04
echo '{"score": 1}'
"""
"""In a shell, which starts in a tenth of the time of Python."""


def write_project(folder: Path) -> None:
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (evals / "agent.py").write_text(AGENT)
    (evals / "judge.sh").write_text(JUDGE)
    (evals / "targets.yaml").write_text("targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    judge = {"name": "judge", "type": "code_judge", "script": ["/bin/sh", "judge.sh"]}
    cases = [
        {"id": f"case-{number}", "criteria": "says hello", "input": f"question {number}", "evaluators": [judge]}
        for number in range(CASES)
    ]
    (evals / "kills.eval.yaml").write_text(json.dumps({"evalcases": cases}))


def victims(kind: str, process: "subprocess.Popen[bytes]") -> list[int]:
    if kind == "controller":
        return [process.pid]
    word = "judge.sh" if kind == "judge" else "import sys;exec(eval(sys.stdin.readline()))"
    return [pid for pid in children(process.pid) if word in command_of(pid)]


def kill_one(kind: str, process: "subprocess.Popen[bytes]") -> list[int]:
    """Kill a process of a kind, should one come before the run's end; return what ran until then.

    A judge lives for a moment, and may be gone before the signal comes: then it hits the next one.
    """
    family = list(children(process.pid))
    while process.poll() is None:
        family = list(children(process.pid))
        for pid in victims(kind, process):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return family
        time.sleep(PAUSE)
    return family


def read(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the results that are whole, and how many lines are not."""
    path = folder / "out.jsonl"
    results, torn = [], 0
    for line in path.read_text().split("\n") if path.exists() else []:
        try:
            results += [json.loads(line)] if line else []
        except ValueError:
            torn += 1
    return results, torn


def calls(folder: Path) -> int:
    path = folder / "calls.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill_once(folder: Path, kind: str, xdist: bool, delay: float) -> str | None:
    """Kill something of a run at a moment, complete the run, and say what is wrong with the outcome."""
    write_project(folder)
    mode = ("-n", "2") if xdist else ()
    process = start(folder, *mode)
    deadline = time.monotonic() + LONGEST_RUN
    while not calls(folder) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(PAUSE)
    time.sleep(delay)
    family = kill_one(kind, process)
    process.wait(LONGEST_RUN)
    survivors = wait_for_the_end(family)
    if survivors:
        return f"still running: {survivors}"
    finished, torn = read(folder)
    if torn > 1:
        return f"{torn} lines are torn"
    done = {result["eval_id"] for result in finished if result["status"] == "pass"}
    before = calls(folder)
    resume = ("--agentv-resume=out.jsonl", "--agentv-retry-errors") if finished else ()
    next_mode = mode if kind == "worker" else ()  # a run without workers completes one with them as well
    start(folder, *next_mode, *resume).wait(LONGEST_RUN)
    results, _ = read(folder)
    last = {result["eval_id"]: result["status"] for result in results}
    if last != {f"case-{number}": "pass" for number in range(CASES)}:
        return f"the resumed run ended with {last}"
    repeated = calls(folder) - before
    if repeated > CASES - len(done):
        return f"{repeated} calls for {CASES - len(done)} cases that were not finished"
    in_flight = WORKERS + 2 * xdist  # each process has its share, and one whose turn has come
    if calls(folder) > CASES + in_flight:
        return f"{calls(folder)} calls for {CASES} cases"
    return None


PLANS = [
    (kind, kind == "worker" or bool(number % 2), delay)
    for number, (kind, delay) in enumerate(
        (random.Random(SEED + number).choice(["controller", "worker", "judge"]), number * LONGEST_DELAY / KILLS)
        for number in range(KILLS)
    )
]
PARTS = tries(3, 5)


@pytest.mark.kills
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes to kill in /proc")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_killed_at_any_moment_is_completed_by_the_next(tmp_path: Path, part: int) -> None:
    plans = PLANS[part::PARTS]
    faults = [kill_once(tmp_path / str(number), *plan) for number, plan in enumerate(plans)]
    assert [f"{plan}: {fault}" for plan, fault in zip(plans, faults, strict=True) if fault] == []
