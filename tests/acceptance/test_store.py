"""The store of answers: what a run has paid for and written is not asked again after a kill, and is counted once."""

import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kills import LONGEST_RUN, WORKERS, children, start, wait_for_the_end
from thorough import tries

KILLS = tries(20, 200)
CASES = 8
LONGEST_DELAY = 0.4
"""Seconds from a run's first call to the kill; an undisturbed run takes about that long."""
SEED = 20261128

AGENT = """
import os
import time


def answer(prompt, request):
    note(f"begin {request.eval_id} {request.answer}")
    time.sleep(0.03)
    note(f"end {request.eval_id} {request.answer}")
    return {"text": "hello", "cost_usd": 0.25, "token_usage": {"input": 10, "output": 5}}


def note(line):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(line + "\\n")
"""
CHECKS: list[list[dict[str, Any]]] = [
    [{"contains": "hello"}],  # judged at once: the answer is written with its judgement
    [{"type": "code_judge", "name": "judge", "script": ["/bin/sh", "judge.sh"]}],
]


def write_project(folder: Path) -> None:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "judge.sh").write_text("read -r _\nsleep 0.03\necho '{\"score\": 1}'\n")
    (folder / "targets.yaml").write_text("targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    cases = [
        {"id": f"case-{number}", "input": f"q {number}", "assert": CHECKS[number % 2], "repeat": 1 + number % 3}
        for number in range(CASES)
    ]
    (folder / "a.eval.yaml").write_text(json.dumps({"cases": cases}))
    (folder / "pytest.ini").write_text("[pytest]\n")


def log(folder: Path, word: str) -> Counter[tuple[str, int]]:
    path = folder / "calls.txt"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return Counter((line[1], int(line[2])) for line in lines if line[0] == word)


def stored(folder: Path) -> set[tuple[str, int]]:
    path = folder / ".agentv/answers.sqlite"
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path, timeout=20)) as db:
        sql = "select eval_id, n from answer where role = 'answer' and response is not null"
        return set(db.execute(sql)) if db.execute("select 1 from sqlite_master").fetchone() else set()


def recorded(folder: Path) -> set[str]:
    """Return the cases with a line. Their answers need no row: one that is judged at once has it a little later."""
    path = folder / "out.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return {json.loads(line)["eval_id"] for line in lines if line.endswith("\n")}


def kill_and_resume(folder: Path, mode: tuple[str, ...], delay: float) -> tuple[str | None, int]:
    """Return what is wrong, and how many answers had ended and were not written when the run was killed."""
    write_project(folder)
    process = start(folder, *mode)
    deadline = time.monotonic() + LONGEST_RUN
    while not log(folder, "begin") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    family = [process.pid, *children(process.pid)]
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(LONGEST_RUN)
    wait_for_the_end(family)
    ended, finished = log(folder, "end"), recorded(folder)
    before = stored(folder) | {each for each in ended if each[0] in finished}
    has_file = (folder / "out.jsonl").exists()
    start(folder, *mode, *(["--agentv-resume=out.jsonl"] if has_file else [])).wait(LONGEST_RUN)
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    last = {line["eval_id"]: line for line in lines}
    lost = len([each for each in ended if each not in before])
    if {line["status"] for line in last.values()} != {"pass"} or len(last) != CASES:
        return f"the resumed run ended with {last}", lost
    again = [each for each in before if log(folder, "end")[each] != 1]
    if again:
        return f"asked again, although the store had them: {again}", lost
    spent = sum(line["spent"]["answer"]["cost_usd"] for line in last.values())
    paid = (log(folder, "end").total() - lost) * 0.25
    if abs(spent - paid) > 1e-9:
        return f"the lines count {spent} of {paid} dollars", lost
    in_flight = WORKERS + (2 if mode else 0)
    return (f"{lost} answers were lost" if lost > in_flight else None), lost


@pytest.mark.kills
@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["alone", "n2"])
def test_no_answer_in_the_store_is_asked_again_after_a_kill_and_each_is_counted_once(tmp_path, mode):
    moments = random.Random(SEED)
    lost = []
    for number in range(KILLS // 2):
        fault, missing = kill_and_resume(tmp_path / str(number), mode, moments.uniform(0, LONGEST_DELAY))
        assert fault is None, f"kill {number}: {fault}"
        lost.append(missing)
    print(f"answers that had ended and were not written yet: {lost}")


def test_a_store_that_cannot_be_used_is_one_warning_and_the_run_goes_on(project):
    project.write(".agentv/answers.sqlite", "no database" * 1000)
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", "def answer(prompt): return 'hello'\n")
    project.write("a.eval.yaml", "cases: [{id: a, input: x, assert: [{contains: hello}]}]\n")
    run = project.run()
    assert run.outcomes["passed"] == 1
    assert run.text.count("answers cannot be kept") == 1


@pytest.mark.parametrize("days", ["0", "30"])
def test_the_store_is_private_and_can_be_switched_off(project, days):
    project.write("pytest.ini", f"[pytest]\nagentv_keep_answers = {days}\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", "def answer(prompt): return 'hello'\n")
    project.write("a.eval.yaml", "cases: [{id: a, input: x, assert: [{contains: hello}]}]\n")
    assert project.run().outcomes == {"passed": 1}
    path = project.path / ".agentv/answers.sqlite"
    assert path.exists() is (days != "0")
    if path.exists():
        assert path.stat().st_mode & 0o777 == 0o600
