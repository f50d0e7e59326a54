"""The rules of the store of answers, each seen through a run: what the agent was asked against what the run says."""

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from xml.etree import ElementTree

import pytest
import warm
from fake_llm import FakeLlm, Reply
from kills import LONGEST_RUN
from pooled import TWO

from pytest_agentv.cli.main import main

pytestmark = pytest.mark.slow

AGENT = """
import json
import os
import sqlite3
import time
from pathlib import Path

LONGEST_WAIT = 120


def note(line):
    file = os.open("calls.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\\n".encode())  # in one piece, so that processes do not mix theirs
    os.close(file)


def answer(prompt, request):
    note(f"answer {request.eval_id} {request.answer}")
    if prompt == "break once" and not Path("broken").exists():
        Path("broken").touch()
        raise ConnectionError("the line is dead")
    if prompt == "meet":
        meet()
    text = f"hello {request.eval_id} {request.answer}"
    return {"text": text, "cost_usd": 0.25, "token_usage": {"input": 10, "output": 5}}


def judge(prompt):
    note("judge")
    text = json.dumps({"score": 1.0, "hits": ["greets"], "misses": [], "reasoning": "It greets."})
    return {"text": text, "cost_usd": 0.125, "token_usage": {"input": 2, "output": 1}}


def meet():
    until = time.monotonic() + LONGEST_WAIT
    note(f"run {os.environ['RUN']}")
    while len(set(line for line in Path("calls.txt").read_text().splitlines() if line.startswith("run "))) < 2:
        assert time.monotonic() < until, "the other run does not come"
        time.sleep(0.005)
    if not Path(".agentv/answers.sqlite").exists():
        return
    # Nobody holds the file while it waits for an answer: this one takes it itself.
    db = sqlite3.connect(".agentv/answers.sqlite", timeout=LONGEST_WAIT, isolation_level=None)
    db.execute("begin immediate")
    db.execute("rollback")
    db.close()
"""
TARGETS = """
targets:
  - {name: default, provider: python, callable: agent.py:answer, judge_target: judge}
  - {name: judge, provider: python, callable: agent.py:judge}
"""
CHECK = {"assert": [{"contains": "hello"}]}
JUDGED = {"expected_outcome": "greets"}


def write_project(project, cases):
    project.write("pytest.ini", "[pytest]\n")
    project.write("agent.py", AGENT)
    project.write("targets.yaml", TARGETS)
    write_cases(project, cases)


def write_cases(project, cases):
    entries = [{"id": eval_id, "input": "hi", **keys} for eval_id, keys in cases.items()]
    project.write("a.eval.yaml", json.dumps({"cases": entries}))


def calls(project):
    """Return what was asked since this was last called, sorted."""
    path = project.path / "calls.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(line for line in lines if not line.startswith("run "))


def rows(project, columns="eval_id, n", where="role = 'answer'"):
    with closing(sqlite3.connect(project.path / ".agentv/answers.sqlite", timeout=20)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return sorted(db.execute(f"select {columns} from answer where {where} and response is not null"))


def delete_store(project):
    for path in (project.path / ".agentv").glob("answers.sqlite*"):
        path.unlink()


MODES = [pytest.param((), id="plain"), pytest.param(("-n2",), id="n2")]
JUNIT = "junit.xml"
TWICE = ("judge", "judge")
ALL_ANSWERS = ("--agentv-stop=never", "--agentv-include-answers")


def sums_of_results(results):
    """Return calls, dollars, and tokens in and out of the answers, and the same of judges."""
    last = {each["eval_id"]: each["spent"] for each in results}.values()
    keys = ("calls", "cost_usd", "input", "output")
    return tuple(sum(each.get(role, {}).get(key, 0) for each in last) for role in ("answer", "judge") for key in keys)


# A store that cannot be written.

FULL_DISK = """
import resource

def pytest_configure():
    resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, resource.RLIM_INFINITY))

def pytest_unconfigure():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
CANNOT_BE_KEPT = "answers cannot be kept, so that a run which goes on with this one pays for them again: "


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
@pytest.mark.parametrize("mode", MODES)
def test_a_disk_that_is_full_for_the_store_is_one_warning_and_the_results_are_right(project, mode):
    cases = {f"case-{number:02}": {**JUDGED, "repeat": 2} for number in range(12)}
    write_project(project, cases)
    project.write("conftest.py", FULL_DISK)
    run = project.run(*mode, *ALL_ANSWERS, subprocess=True)
    assert (run.exit_code, run.outcomes, run.internals) == (0, {"passed": 12, "warnings": 1}, [])
    assert run.text.count(CANNOT_BE_KEPT) == 1
    assert calls(project) == [*(f"answer {eval_id} {n}" for eval_id in cases for n in (0, 1)), *["judge"] * 24]
    for eval_id, result in run.by_id.items():
        assert [each["candidate_answer"] for each in result["answers"]] == [f"hello {eval_id} {n}" for n in (0, 1)]
    assert sums_of_results(run.results) == (24, 6.0, 240, 120, 24, 3.0, 48, 24)
    assert 0 < len(rows(project)) < 24, "some were written before the disk was full"


def test_a_store_that_is_read_only_is_one_warning_and_the_run_goes_on(project):
    """SQLite takes a file for read-only whose header names a newer version of its format, whoever runs the test."""
    write_project(project, {"a": CHECK, "b": JUDGED})
    assert project.run().exit_code == 0
    path = project.path / ".agentv/answers.sqlite"
    with path.open("r+b") as file:
        file.seek(18)
        file.write(b"\x03")
    before = path.read_bytes()
    calls(project)
    green = {"passed": 2, "warnings": 1}
    rejudged = project.run("--agentv-rejudge=out-1.jsonl", "-n2")
    assert (rejudged.outcomes, calls(project)) == (green, ["judge"])
    cached = project.run("--agentv-cache")
    assert (cached.outcomes, calls(project)) == (green, ["answer a 0", "answer b 0", "judge"])
    for run in (rejudged, cached):
        assert (run.exit_code, run.text.count(CANNOT_BE_KEPT), run.internals) == (0, 1, [])
        assert "readonly" in run.text
    assert path.read_bytes() == before


# Several processes at once.


def test_two_shards_with_two_workers_each_use_one_store_at_once(project):
    """In each process the first answer waits until both runs are at work."""
    cases = {f"case-{number:02}": {"input": "meet", "repeat": 1 + number % 3, **JUDGED} for number in range(16)}
    write_project(project, cases)
    flags = ("-q", "-p", "no:cacheprovider", "-n2", "--agentv-stop=never", "--agentv-workers=3")
    runs = [
        warm.Popen(
            [sys.executable, "-m", "pytest", *flags, f"--agentv-shard={number}/2", f"--agentv-out={number}.jsonl"],
            cwd=project.path,
            env={**os.environ, "RUN": str(number)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2)
    ]
    texts = [run.communicate(timeout=LONGEST_RUN)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], texts
    assert not any(CANNOT_BE_KEPT in text for text in texts)
    wanted = [(eval_id, n) for eval_id, keys in cases.items() for n in range(keys["repeat"])]
    answers = [f"answer {eval_id} {n}" for eval_id, n in wanted]
    assert calls(project) == [*answers, *["judge"] * len(wanted)], "none was asked twice"
    assert (rows(project), len(rows(project, where="role = 'judge'"))) == (wanted, len(wanted)), "no row was lost"
    again = project.run("--agentv-cache", "--agentv-stop=never", "-n2")
    assert (again.outcomes, calls(project)) == ({"passed": 16}, [])


@pytest.mark.parametrize("kind", ["Thread", "Process"])
def test_the_answers_of_a_case_that_an_executor_asked_for_are_rows_of_their_own(project, kind):
    cases = {eval_id: {**JUDGED, "repeat": 2} for eval_id in ("a", "b")}
    write_project(project, cases)
    if kind == "Thread":
        project.write(
            "conftest.py",
            "from concurrent.futures import ThreadPoolExecutor\n\n"
            "def pytest_agentv_executor(config):\n    return ThreadPoolExecutor(2)\n",
        )
    flags = (*(TWO if kind == "Process" else ()), *ALL_ANSWERS)
    first = project.run(*flags)
    assert f"agentv: executor {kind}PoolExecutor: 4 answers" in first.lines
    wanted = [(eval_id, n) for eval_id in cases for n in (0, 1)]
    assert calls(project) == [*(f"answer {eval_id} {n}" for eval_id, n in wanted), *["judge"] * 4]
    stored = rows(project, "eval_id, n, response, judgement is not null")
    assert [(eval_id, n, judged) for eval_id, n, _, judged in stored] == [(*each, 1) for each in wanted]
    assert all(f'"hello {eval_id} {n}"' in response for eval_id, n, response, _ in stored)
    assert rows(project, where="role = 'judge'") == wanted
    again = project.run(*flags, "--agentv-cache")
    assert calls(project) == []
    for eval_id in cases:
        answers = [each["candidate_answer"] for each in again.by_id[eval_id]["answers"]]
        assert answers == [f"hello {eval_id} {n}" for n in (0, 1)]
    assert (sums_of_results(first.results)[0], sums_of_results(again.results)[0]) == (4, 0)


# Judging anew.

CLOSED = """
import socket

opened = socket.socket.connect


def connect(self, address):
    with open("connected.txt", "a") as file:
        file.write(f"{address}\\n")
    raise OSError("sockets are closed")


def pytest_configure():
    socket.socket.connect = connect


def pytest_unconfigure():
    socket.socket.connect = opened
"""


@pytest.mark.parametrize("mode", MODES)
def test_judging_anew_asks_no_target_whatever_else_the_run_does(project, mode):
    """Nobody listens where the target was, and each attempt to connect is noted."""
    project.remembers = True  # for --lf
    project.write("pytest.ini", "[pytest]\n")
    cases = {f"case-{number}": {"input": f"tent {number}", "assert": [{"contains": "green"}]} for number in range(6)}
    cases["case-4"]["repeat"] = 5
    write_cases(project, cases)
    with FakeLlm() as server:
        url = server.script("model", Reply("It is green."))
        target = f"{{name: default, provider: openai, base_url: '{url}', api_key: sk-12345678, model: m}}"
        project.write("targets.yaml", f"targets: [{target}]\n")
        assert project.run("--agentv-update-baseline").exit_code == 0
        server.script("model", *[Reply("It is red.", when="tent 4")] * 5, Reply("It is green."))
        assert project.run(*ALL_ANSWERS).outcomes == {"passed": 5, "failed": 1}
        assert len(server.asked("model")) == 20
    project.write("conftest.py", CLOSED)
    write_cases(project, {**cases, "case-1": {"input": "tent 1", "assert": [{"contains": "blue"}]}})

    def rejudge(*flags):
        run = project.run("--agentv-rejudge=out-2.jsonl", *flags, *mode)
        assert run.internals == []
        return run

    wrong = {"case-1": "fail", "case-4": "fail"}
    whole = rejudge("--junitxml=junit.xml")
    assert whole.statuses == {**dict.fromkeys(cases, "pass"), **wrong}
    suite = ElementTree.parse(project.path / "junit.xml").find("testsuite")
    assert [suite.get(key) for key in ("tests", "failures", "errors")] == ["6", "2", "0"]
    assert rejudge("--lf").statuses == wrong
    assert rejudge("-k", "case-0 or case-4").statuses == {"case-0": "pass", "case-4": "fail"}
    compared = rejudge("--agentv-baseline")
    assert compared.statuses == whole.statuses
    assert "BROKEN         case-4   5/5 -> 0/5    q 0.02" in compared.lines
    assert "to confirm" not in compared.text
    delete_store(project)
    assert rejudge().statuses == whole.statuses, "the file has the answers, too"
    assert not (project.path / "connected.txt").exists()


# Money.

NAMES = ("cost_usd", "tokens_input", "tokens_output", "judge_cost_usd")


def check_sums(project, run, name, log):
    """Check what a run says was paid against the log of the agent: summary, results file, JUnit and CSV."""
    answers, judges = (sum(line.startswith(word) for line in log) for word in ("answer", "judge"))
    known = answers - ("answer breaks 0" in log)  # its first call broke
    paid = (answers, 0.25 * known, 10 * known, 5 * known, judges, 0.125 * judges, 2 * judges, judges)
    assert sums_of_results(map(json.loads, (project.path / name).read_text().splitlines())) == paid
    told = {line.partition(":")[0]: line for line in run.lines}
    assert sum(map(float, re.findall(r"\$([\d.]+)", told.get("Cost", "")))) == paid[1] + paid[5]
    tokens = re.findall(r"(\d+) in, (\d+) out", told.get("Tokens", ""))
    assert sum(int(number) for pair in tokens for number in pair) == sum((*paid[2:4], *paid[6:8]))
    properties = [each.attrib for each in ElementTree.parse(project.path / JUNIT).iter("property")]
    junit = [sum(float(each["value"]) for each in properties if each["name"] == f"agentv_{key}") for key in NAMES]
    assert main(["convert", str(project.path / name), "-o", str(project.path / "sums.csv"), "--force"]) == 0
    table = list(csv.DictReader((project.path / "sums.csv").read_text().splitlines()))
    assert junit == [sum(float(row.get(key) or 0) for row in table) for key in NAMES] == [*paid[1:4], paid[5]]


@pytest.mark.parametrize("mode", MODES)
def test_the_sums_are_those_of_the_log_of_the_agent(project, mode):
    """The second run is on another machine: it has the results file, and no store."""
    cases = {
        "checked": CHECK,
        "judged": JUDGED,
        "often": {**JUDGED, "repeat": 2},
        "breaks": {**JUDGED, "input": "break once", "assert": [{"contains": "hello"}, {"type": "llm_judge"}]},
    }
    write_project(project, cases)
    log = []

    def run(name, *flags):
        """Run, and return what was asked."""
        finished = project.run(f"--agentv-out={name}", f"--junitxml={JUNIT}", *ALL_ANSWERS, *flags, *mode)
        asked = calls(project)
        if name == "own.jsonl":
            log.extend(asked)
        check_sums(project, finished, name, log if name == "own.jsonl" else asked)
        return asked

    resume, often = "--agentv-resume=own.jsonl", ["answer often 0", "answer often 1"]
    assert run("own.jsonl", "-k", "often or breaks") == ["answer breaks 0", *often, *TWICE]
    delete_store(project)
    others = [f"answer {eval_id} 0" for eval_id in ("breaks", "checked", "judged")]
    assert run("own.jsonl", resume, "--agentv-retry-errors") == [*others, *TWICE]
    own = project.path / "own.jsonl"
    own.write_text("".join(line for line in own.read_text().splitlines(True) if '"eval_id":"judged"' not in line))
    assert run("own.jsonl", resume) == [], "the store has the answer and the judge's reply"
    cases["breaks"]["assert"][0]["weight"] = 2
    write_cases(project, cases)
    assert run("own.jsonl", resume) == [], "another weight costs nothing"
    cases["judged"] = {**JUDGED, "repeat": 2}
    write_cases(project, cases)
    assert run("own.jsonl", resume) == ["answer judged 1", "judge"]
    assert run("anew.jsonl", "--agentv-rejudge=own.jsonl") == ["judge"] * 5
    assert run("cached.jsonl", "--agentv-cache") == often, "the replies of the judge are in the store"
    assert run("own.jsonl", resume) == []
