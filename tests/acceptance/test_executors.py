"""Cases that run in other processes: the same records, nothing lost, nothing paid for twice, nothing left running."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import warm
from every_kind import without_times
from fake_llm import FakeLlm, Reply
from pooled import TWO
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import tries, varied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]

SECRET = "s3cr3t-value-of-the-worker"
LONGEST_WAIT = 60.0

HOOK = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

def pytest_agentv_executor(config):
    with open("executors.txt", "a") as file:
        file.write("x")
    return ProcessPoolExecutor(2, mp_context=get_context("fork"))
"""


def write_every_kind(project, url):
    """Write cases with targets and evaluators of many kinds, and a file, a script and a secret."""
    project.write(".env", f"WORKER_API_KEY={SECRET}\nMODEL_URL={url}/model\nJUDGE_URL={url}/judge\n")
    project.write("note.txt", "Say hello to the note.\n")
    project.write("agent.py", "def answer(prompt):\n    return f'hello from python: {len(prompt)}'\n")
    project.write(
        "judge.py", "import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'score': 0.5, 'hits': ['ok']}))\n"
    )
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello world}
          - {name: shell, provider: cli, command_template: "echo hello $WORKER_API_KEY", judge_target: judge}
          - {name: code, provider: python, callable: agent.py:answer}
          - name: model
            provider: openai
            base_url: ${{ MODEL_URL }}
            api_key: ${{ WORKER_API_KEY }}
            model: m
            judge_target: judge
          - {name: judge, provider: openai, base_url: "${{ JUDGE_URL }}", api_key: "${{ WORKER_API_KEY }}", model: m}
          - {name: broken, provider: cli, command_template: "exit 3"}
          - {name: unset, provider: openai, api_key: "${{ NOWHERE }}", model: m}
        """,
    )
    text = {"name": "words", "type": "heuristic", "hits": ["hello"], "misses": ["bye"]}
    code = {"name": "code", "type": "code_judge", "script": [sys.executable, "judge.py"]}
    judge = {"name": "judge", "type": "llm_judge"}
    both = {"name": "both", "type": "composite", "evaluators": [text, code], "aggregator": {"type": "weighted_average"}}
    calls = {"name": "calls", "type": "tool_trajectory", "mode": "any_order", "minimums": {"search": 1}}
    equal = {"name": "equal", "type": "contains", "value": "hello"}
    content = [{"type": "text", "value": "read"}, {"type": "file", "value": "note.txt"}]
    cases = {
        "mock": ("default", [text, equal], "hi"),
        "shell": ("shell", [text, code], "hi"),
        "python": ("code", [both], [{"role": "user", "content": content}]),
        "model": ("model", [judge, text], "hi"),
        "judged": ("shell", [judge], "hi"),
        "calls": ("default", [calls], "hi"),
        "broken": ("broken", [text], "hi"),
        "unset": ("unset", [text], "hi"),
        "unknown": ("nowhere", [text], "hi"),
    }
    entries = [
        {
            "id": eval_id,
            "expected_outcome": "says hello",
            "input": prompt,
            "execution": {"target": target, "evaluators": evaluators},
        }
        for eval_id, (target, evaluators, prompt) in cases.items()
    ]
    repeated = {"id": "repeated", "expected_outcome": "hello", "input": "x", "evaluators": [text], "repeat": 3}
    project.write("a.eval.yaml", json.dumps({"evalcases": [*entries, repeated]}))


@pytest.fixture(scope="module")
def kinds(shared_project):
    """Run every kind here and in processes; return the project and the runs."""
    project = shared_project()
    verdict = json.dumps({"score": 0.75, "hits": ["kind"], "misses": [], "reasoning": "because"})

    with FakeLlm() as model:
        model.script("judge", Reply(verdict))
        model.script("model", Reply("hello from the model"))
        write_every_kind(project, model.url)
        here = project.run("--agentv-executor=local", "--agentv-include-trace")
        there = project.run(*TWO, "--agentv-include-trace")
    return project, here, there


def test_records_are_those_of_a_local_run(kinds):
    _, here, there = kinds
    assert without_times(there.results) == without_times(here.results)
    assert len(here.results) == 10


def test_the_kinds_are_judged_at_all(kinds):
    _, here, _ = kinds
    assert here.by_id["judged"]["score"] == 0.75
    assert here.by_id["python"]["score"] == 0.75
    assert here.statuses["mock"] == here.statuses["repeated"] == "pass"


def test_one_line_says_where_the_cases_ran(kinds):
    _, here, there = kinds
    assert "agentv: executor ProcessPoolExecutor: 12 answers" in there.lines
    assert "executor" not in here.text


def test_no_secret_leaves_a_worker(kinds):
    project, _, there = kinds
    assert SECRET not in there.text
    for path in project.path.rglob("*"):
        if path.is_file() and path.name != ".env":
            assert SECRET not in path.read_bytes().decode("utf-8", "replace"), path


def test_cases_run_side_by_side_in_both_processes(project):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, {"a": "start_of b; log seen by a; say hello", "b": "start_of a; say nothing"})
    run = project.run(*TWO)
    assert run.statuses == {"a": "pass", "b": "fail"}
    calls = read_calls(project.path)
    assert len(calls.by_process) == 2
    assert os.getpid() not in {note["pid"] for note in calls.notes}


def test_logs_come_home_with_the_item(project):
    write_agent(project)
    write_cases(project, {"a": "log seen by a; say nothing"})
    assert "seen by a" in project.run(*TWO).text


def test_prints_come_home_with_the_item(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-live-Zq9xVb7Tk4Lm2Rw8Pq5")
    project.write(
        "agent.py",
        """
        import os, sys
        def answer(prompt):
            print("asked", prompt, "with", os.environ["SHOP_API_KEY"])
            print("warned", prompt, file=sys.stderr)
            return "no"
        """,
    )
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    cases = "".join(f"  - {{id: c-{name}, input: {name}, assert: [{{contains: hello}}]}}\n" for name in "ab")
    project.write("a.eval.yaml", f"evalcases:\n{cases}")
    lines = [line for line in project.run(*TWO).lines if re.match("_+ c-|asked|warned", line)]
    assert [line.strip("_ ") for line in lines] == [
        *("c-a", "asked a with ***", "warned a"),
        *("c-b", "asked b with ***", "warned b"),
    ]


def test_bound_cases_run_at_home(project):
    write_agent(project)
    write_cases(project, numbered(2, word="away"))
    write_cases(project, numbered(2, word="fixed"), "fixed/b.eval.yaml")
    write_cases(project, numbered(1, word="hooked"), "hooked/c.eval.yaml")
    project.write(
        "fixed/conftest.py", "import pytest\n@pytest.fixture(autouse=True)\ndef seen():\n    open('seen.txt', 'w')\n"
    )
    project.write("hooked/conftest.py", "def pytest_agentv_response(case, response): pass\n")
    run = project.run(*TWO)
    assert set(run.statuses.values()) == {"pass"}
    line = "executor ProcessPoolExecutor: 2 answers; 3 ran in this process: 2 with fixtures, 1 with hooks"
    assert f"agentv: {line}" in run.lines
    here = {note["id"] for note in read_calls(project.path).notes if note["pid"] == os.getpid()}
    assert here == {"fixed-0", "fixed-1", "hooked-0"}


OWN_KINDS = """
from pytest_agentv import Evaluator, Provider, Score


class Parrot(Provider):
    kind = "Parrot"

    def open(self, environment):
        return self

    def invoke(self, request):
        return 'hello {"score": 1, "hits": ["hello"], "misses": []}'


class Shouted(Evaluator):
    kind = "shouted"

    async def evaluate(self, context):
        return Score(1.0)


def pytest_agentv_providers():
    return {"Parrot": Parrot}


def pytest_agentv_evaluators():
    return [Shouted]
"""


def test_only_cases_that_use_a_kind_of_the_project_run_at_home(project):
    project.write("conftest.py", OWN_KINDS)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello}
          - {name: parrot, provider: Parrot}
          - {name: judged, provider: mock, response: hello, judge_target: parrot}
        """,
    )
    asserts = {"away": "default", "own": "parrot", "judged": "judged"}
    cases = [
        {"id": name, "expected_outcome": "x", "input": "hi", "target": target, "assert": [{"contains": "hello"}]}
        for name, target in asserts.items()
    ]
    cases[2]["assert"].append({"type": "llm_judge", "name": "judge"})
    shouted = {**cases[0], "id": "shouted", "assert": [{"type": "shouted"}]}
    project.write("a.eval.yaml", json.dumps({"evalcases": [*cases, shouted]}))
    run = project.run(*TWO, "--agentv-strict")  # workers do not call the kind unknown
    assert set(run.statuses.values()) == {"pass"}
    line = "executor ProcessPoolExecutor: 1 answer; 3 ran in this process: 3 with kinds of this project"
    assert f"agentv: {line}" in run.lines


def test_a_case_says_what_is_wrong_with_the_kinds_of_the_project(project):
    project.write("conftest.py", "def pytest_agentv_providers(): return 5\n")
    write_agent(project)
    write_cases(project, numbered(1))
    there, here = project.run(*TWO), project.run("--agentv-executor=local")
    assert without_times(there.results) == without_times(here.results)
    assert there.results[0]["error_detail"] == {"stage": "setup", "kind": "config"}


def test_a_kind_of_the_project_in_place_of_a_built_in_one_is_not_mistaken(project):
    """A worker would find fault with the keys of targets that have the built-in kind's word."""
    project.write(
        "conftest.py",
        OWN_KINDS.replace('"Parrot": Parrot', '"mock": Parrot').replace("kind =", "word: str = ''\n    kind ="),
    )
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: cli, command_template: echo hello}
          - {name: other, provider: mock, word: hello}
        """,
    )
    write_cases(project, numbered(1))
    run = project.run(*TWO, "--agentv-strict")
    assert set(run.statuses.values()) == {"pass"}
    assert "1 ran in this process: 1 with kinds of this project" in run.text


def test_batches_run_at_home(project):
    project.write("batch.sh", "")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            provider_batching: true
            command_template: 'printf "%s\\n%s\\n" "{\\"id\\":\\"b-0\\",\\"text\\":\\"hello\\"}"
              "{\\"id\\":\\"b-1\\",\\"text\\":\\"hello\\"}" > {OUTPUT_FILE}'
        """,
    )
    write_cases(project, numbered(2, word="b"))
    assert "2 ran in this process: 2 with batches" in project.run(*TWO).text


@pytest.mark.kills
def test_an_executor_that_breaks_ends_the_run(project):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, {"a": "say hello", "lost": "die_once mark; say hello", "b": "say hello", "c": "say hello"})
    run = project.run(*TWO, "--agentv-workers=1", subprocess=True)
    assert run.statuses["a"] == "pass"
    error = run.by_id["lost"]
    assert error["error"].startswith("worker lost: BrokenProcessPool: ")
    assert error["error_detail"] == {"stage": "provider", "kind": "process"}
    assert "c" not in run.statuses
    assert "agentv: the executor takes no more cases: " in run.text
    assert read_calls(project.path).started == ["a", "lost"]
    again = project.run("--agentv-resume=out-1.jsonl", *TWO)
    assert set(again.statuses.values()) == {"pass"}
    assert sorted(read_calls(project.path).started) == ["a", "b", "c", "lost", "lost"]


def test_an_executor_of_threads_runs_cases(project):
    project.write("conftest.py", HOOK.replace("Process", "Thread").replace(', mp_context=get_context("fork")', ""))
    write_agent(project)
    write_cases(project, {"a": "log seen by a; say hello", "b": "say nothing"})
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "fail"}
    assert "agentv: executor ThreadPoolExecutor: 2 answers" in run.lines


def test_a_hook_must_return_an_executor(project):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write("conftest.py", "def pytest_agentv_executor(config): return 5\n")
    run = project.run()
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "pytest_agentv_executor returned a value of type int: expected a concurrent.futures.Executor" in run.text
    assert not read_calls(project.path).notes
    assert project.run("--agentv-executor=local").statuses == {"case-0": "pass"}


def test_a_hook_that_raises_ends_the_run_as_wrong_usage(project, monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", "sk-abcdEFGH1234ijkl")
    write_agent(project)
    write_cases(project, numbered(1))
    project.write(
        "conftest.py",
        """
        import os

        def pytest_agentv_executor(config):
            raise ValueError("no cluster for " + os.environ["OWN_API_KEY"])
        """,
    )
    run = project.run("--junitxml=junit.xml")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: pytest_agentv_executor raised ValueError: no cluster for ***" in run.text
    assert "conftest.py:4 in pytest_agentv_executor" in run.text
    assert run.internals == []
    assert not read_calls(project.path).notes


def test_workers_of_xdist_and_an_executor_exclude_each_other(project):
    write_agent(project)
    write_cases(project, numbered(1))
    run = project.run("-n", "1", "--agentv-executor=dask://127.0.0.1", subprocess=True)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "--agentv-executor and the workers of pytest-xdist (-n) exclude each other: drop one" in run.text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("processes:2", "unknown executor 'processes:2': expected local or dask://HOST:PORT"),
        ("ray://x", "unknown executor 'ray://x': expected local or dask://HOST:PORT"),
        ("dask://", "'dask://' names no scheduler: expected dask://HOST:PORT, such as dask://localhost:8786"),
    ],
)
def test_unknown_executors_are_refused(project, value, message):
    assert message in project.run(f"--agentv-executor={value}").text


def test_collecting_starts_no_worker(project):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write("conftest.py", HOOK)
    assert project.run("--collect-only", "-q").exit_code == 0
    assert not (project.path / "executors.txt").exists()


def test_a_run_in_which_nothing_runs_leaves_nothing(project):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write(
        "conftest.py",
        f"{HOOK}\nimport pytest\n\ndef pytest_collection_modifyitems(items):\n"
        "    for item in items:\n        item.add_marker(pytest.mark.skip(reason='not now'))\n",
    )
    run = project.run()
    assert run.outcomes == {"skipped": 1}
    assert (project.path / "executors.txt").read_text() == "x"


def test_a_sick_target_is_checked_once_and_ends_the_run(project):
    project.write("check.sh", "echo checked >> checks.txt; exit 1\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: echo hello
            workers: 4
            healthcheck: {type: command, command_template: "sh check.sh"}
        """,
    )
    write_cases(project, numbered(6))
    run = project.run(*TWO)
    assert (project.path / "checks.txt").read_text() == "checked\n"
    assert "agentv: " in run.text
    assert len(run.results) < 6


@pytest.mark.kills
def test_first_failure_ends_what_runs_elsewhere(project):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(
        project, {"bad": "start_of slow; say nothing", "slow": "sleep 600; say hello", "later": "sleep 600; say hello"}
    )
    run = project.run(*TWO, "-x")
    assert run.statuses == {"bad": "fail"}
    until(lambda: not living(read_calls(project.path)))


@pytest.mark.kills
@pytest.mark.parametrize("executor", [TWO, varied(("--agentv-executor=local",))])
def test_a_case_that_ended_before_the_first_failure_is_reported_by_the_resumed_run(project, executor):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    prompts = {
        "bad": "start_of slow; lines 2 out-1.jsonl; say nothing",
        "ahead": "say hello",
        "ahead-bad": "say no",
        "slow": "sleep 600",
    }
    write_cases(project, prompts)
    run = project.run(*executor, "-x", "--agentv-workers=4", "--junitxml=junit.xml")
    assert (run.exit_code, run.outcomes) == (1, {"failed": 1})
    assert run.statuses == {"bad": "fail", "ahead": "pass", "ahead-bad": "fail"}
    assert "Total eval cases: 3 (1 passed, 2 failed, 0 errors)" in run.text
    assert (project.path / "junit.xml").read_text().count("<testcase ") == 1
    resumed = project.run(*executor, "--agentv-resume=out-1.jsonl", "-k", "not slow")
    assert resumed.outcomes == {"failed": 2, "passed": 1, "deselected": 1}
    assert resumed.statuses == run.statuses
    assert "Total eval cases: 3 (1 passed, 2 failed, 0 errors)" in resumed.text
    assert sorted(read_calls(project.path).started) == ["ahead", "ahead-bad", "bad", "slow"]


def living(calls):
    return [pid for pid in {note["pid"] for note in calls.notes} - {os.getpid()} if is_alive(pid)]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition):
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def start(project, *args):
    plugins = ("-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider")
    return warm.Popen(
        [sys.executable, "-m", "pytest", *plugins, "--agentv-out=out.jsonl", *args],
        cwd=project.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


FAMILY = "import os, subprocess, sys, time; open('family.txt', 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"


def write_families(project):
    """Write cases whose targets start processes in sessions of their own."""
    project.write("family.py", FAMILY)
    project.write("leave.sh", f"setsid {sys.executable} family.py &\n{sys.executable} family.py\n")
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'sh leave.sh'}]\n")
    write_cases(project, numbered(2))


def family(project):
    path = project.path / "family.txt"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.kills
@pytest.mark.parametrize(
    ("number", "method"),
    [
        (signal.SIGINT, "fork"),
        (signal.SIGKILL, "spawn"),
        varied(signal.SIGINT, "spawn"),
        varied(signal.SIGKILL, "fork"),
    ],
)
def test_the_end_of_the_run_is_that_of_all_processes(project, number, method):
    write_families(project)
    project.write("conftest.py", HOOK.replace("fork", method))
    run = start(project)
    until(lambda: len(family(project)) == 4)
    run.send_signal(number)
    run.wait(LONGEST_WAIT)
    until(lambda: not any(map(is_alive, family(project))))
    until(lambda: not processes_in(project.path))


def processes_in(folder):
    """Return the other processes that have a folder as their working directory."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended
            found[int(path.parent.name)] = path.readlink()
    return [pid for pid, where in found.items() if where == folder and pid != os.getpid()]


def results_of(project):
    path = project.path / "out.jsonl"
    return path.read_text() if path.exists() else ""


def finished(project):
    """Return the ids of the cases that passed."""
    lines = [json.loads(line) for line in results_of(project).split("\n") if line.endswith("}")]
    return {line["eval_id"] for line in lines if line["status"] == "pass"}


@pytest.mark.kills
@pytest.mark.parametrize("number", range(tries(2, 20)))
def test_whoever_is_killed_nothing_finished_is_asked_again(project, number):
    chance = random.Random(20261122 + number)
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, numbered(12, "sleep 0.1; say hello"))
    run = start(project, *TWO, "--agentv-workers=4")
    until(lambda: finished(project))
    time.sleep(chance.uniform(0, 0.2))
    pids = {note["pid"] for note in read_calls(project.path).notes}
    victim = run.pid if number % 2 == 0 else chance.choice(sorted(pids))
    os.kill(victim, signal.SIGKILL)
    run.wait(LONGEST_WAIT)
    until(lambda: not living(read_calls(project.path)))
    done, before = finished(project), read_calls(project.path).started
    again = project.run("--agentv-resume=out.jsonl", *TWO)
    assert again.exit_code == 0
    assert finished(project) | set(again.statuses) == set(numbered(12))
    assert [eval_id for eval_id in read_calls(project.path).started[len(before) :] if eval_id in done] == []
    assert len(before) == len(set(before))


def test_a_cluster_without_its_package_is_a_usage_error(project):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write("conftest.py", "import sys\nsys.modules['distributed'] = None\n")
    run = project.run("--agentv-executor=dask://127.0.0.1", subprocess=True)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    needs = "dask://127.0.0.1:8786 needs a package that is not installed (distributed)"
    assert f"ERROR: {needs}: pip install 'pytest-agentv[dask]'" in run.lines
    assert not run.results
