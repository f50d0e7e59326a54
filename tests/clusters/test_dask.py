"""Cases on a Dask cluster: nothing lost, nothing paid for twice, no secret at home, nothing left running."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import warm
from busy import slowness
from dask_cluster import LONGEST_WAIT, NEEDS_DASK, is_alive, until
from elsewhere import reason_not_to_hide
from fake_llm import FakeLlm, Reply
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import tries

pytestmark = [pytest.mark.dask, NEEDS_DASK]

SECRET = "sk-of-the-worker-0123456789abcdef"


@pytest.fixture(scope="module")
def cluster(make_shared_cluster):
    return make_shared_cluster("one", "two")


def on(cluster):
    return f"--agentv-executor={cluster.address}"


def start(project, *args):
    plugins = ("-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider", "-p", "no:rerunfailures")
    with (project.path / "printed.txt").open("w") as file:
        return warm.Popen(
            [sys.executable, "-m", "pytest", *plugins, "--agentv-out=out.jsonl", *args],
            cwd=project.path,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def printed(project):
    return (project.path / "printed.txt").read_text()


def results_of(project):
    path = project.path / "out.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {result["eval_id"]: result for result in map(json.loads, lines)}


def passed(project):
    return {eval_id for eval_id, result in results_of(project).items() if result["status"] == "pass"}


def unfinished(project):
    """Return the calls of the agent that go on: those that have not ended in processes that live."""
    notes = read_calls(project.path).notes
    ended = {(note["id"], note["pid"]) for note in notes if note["event"] == "end"}
    return [note for note in notes if (note["id"], note["pid"]) not in ended and is_alive(note["pid"])]


def test_a_run_on_a_cluster(project, cluster):
    write_agent(project)
    write_cases(project, {"a": "log seen by a; say hello", "b": "say nothing", "c": "fail badly"})
    run = project.run(on(cluster))
    assert run.statuses == {"a": "pass", "b": "fail", "c": "error"}
    assert f"agentv: executor {cluster.address}: 3 answers" in run.lines
    assert not {note["pid"] for note in read_calls(project.path).notes} & {os.getpid()}
    assert not unfinished(project)


def test_a_run_of_nothing_asks_no_worker(project, cluster):
    write_agent(project)
    write_cases(project, numbered(1))
    assert project.run(on(cluster), "--collect-only", "-q").exit_code == 0
    assert not read_calls(project.path).notes


@pytest.mark.skipif(reason_not_to_hide() is not None, reason=str(reason_not_to_hide()))
def test_a_worker_that_does_not_see_the_project_says_so(project, make_cluster):
    cluster = make_cluster()
    cluster.hide(project.path)
    cluster.add_worker("blind")
    write_agent(project)
    write_cases(project, numbered(1))
    run = project.run(on(cluster))
    assert run.by_id["case-0"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert run.by_id["case-0"]["error"].endswith("a.eval.yaml: start it in the project's folder")


def test_more_than_fifty_cases_are_in_flight(project, make_cluster):
    cluster = make_cluster("one", "two", threads=30)
    write_agent(project)
    write_cases(project, numbered(60, "in_flight 60; say hello"))
    run = project.run(on(cluster), "--agentv-workers=60")
    assert set(run.statuses.values()) == {"pass"}
    assert len(read_calls(project.path).by_process) == 2


def test_no_secret_of_a_worker_comes_home(project, cluster):
    project.write(".env", f"SHOP_API_KEY={SECRET}\n")
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: 'sh shop.sh {PROMPT}'}]\n"
    )
    project.write("shop.sh", "echo hello $SHOP_API_KEY $1; echo $SHOP_API_KEY >&2; test $1 = fine\n")
    write_cases(project, {"a": "fine", "b": "fine", "c": "broken", "d": "broken"})
    run = project.run(on(cluster), "-vv", "--agentv-include-trace", "--agentv-dump-traces=traces")
    assert run.statuses == {"a": "pass", "b": "pass", "c": "error", "d": "error"}
    assert run.by_id["a"]["candidate_answer"] == "hello *** fine"
    assert SECRET not in run.text
    for path in project.path.rglob("*"):
        assert path.name == ".env" or not path.is_file() or SECRET not in path.read_text("utf-8", "replace"), path
    for worker in (*cluster.workers.values(), cluster.scheduler):
        assert SECRET not in worker.log.read_text()


def test_a_worker_runs_the_code_that_is_there_now(project, cluster):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", "from words import WORD\n\ndef answer(prompt):\n    return WORD\n")
    write_cases(project, numbered(2))
    for word, status in (("goodbye", "fail"), ("hello", "pass"), ("so long", "fail")):
        project.write("words.py", f"WORD = {word!r}\n")
        assert set(project.run(on(cluster)).statuses.values()) == {status}


def test_health_is_checked_once_for_all_workers(project, cluster):
    project.write("check.sh", f"echo checked >> {project.path}/checks.txt; exit $(cat {project.path}/health)\n")
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
    write_cases(project, numbered(4))
    write_cases(project, numbered(1, word="fixed"), "fixed/b.eval.yaml")
    project.write("fixed/conftest.py", "import pytest\n@pytest.fixture(autouse=True)\ndef seen(): pass\n")
    project.write("health", "0")
    assert set(project.run(on(cluster)).statuses.values()) == {"pass"}
    assert (project.path / "checks.txt").read_text() == "checked\n"
    project.write("health", "1")
    sick = project.run(on(cluster))
    assert (project.path / "checks.txt").read_text() == "checked\nchecked\n"
    assert {result["error_detail"]["stage"] for result in sick.results} == {"setup"}
    assert "agentv: " in sick.text
    assert len(sick.results) < 5


def test_the_first_failure_ends_what_runs_on_workers(project, cluster):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(
        project, {"bad": "start_of slow; say nothing", "slow": "sleep 600; say hello", "later": "sleep 600; say hello"}
    )
    run = project.run(on(cluster), "-x")
    assert run.statuses == {"bad": "fail"}
    until(lambda: not unfinished(project))


FAMILY = "import os, time; open('family.txt', 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_run_is_that_of_all_processes(project, cluster, number):
    project.write("family.py", FAMILY)
    project.write("leave.sh", f"setsid {sys.executable} family.py &\n{sys.executable} family.py\n")
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'sh leave.sh'}]\n")
    write_cases(project, numbered(2))
    path = project.path / "family.txt"
    run = start(project, on(cluster))
    family = until(lambda: path.exists() and len(path.read_text().split()) == 4 and path.read_text().split())
    began = time.monotonic()
    run.send_signal(number)
    run.wait(LONGEST_WAIT)
    until(lambda: not any(is_alive(int(pid)) for pid in family))
    assert time.monotonic() - began < 10 * slowness()
    assert all(worker.process.poll() is None for worker in cluster.workers.values())


@pytest.fixture
def model():
    with FakeLlm() as server:
        yield server


def ask_a_model(project, model, *replies):
    url = model.script("m", *replies)
    project.write(
        "targets.yaml", f"targets: [{{name: default, provider: openai, base_url: '{url}', api_key: k, model: m}}]\n"
    )


def test_a_run_of_200_cases_that_loses_a_worker_says_what_was_lost(project, make_cluster):
    cluster = make_cluster("one", "two", threads=4)
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, numbered(200, "sleep 0.2; say hello"))
    run = start(project, on(cluster))
    until(
        lambda: (
            len(passed(project)) > 60
            and any(each["pid"] == cluster.workers["one"].process.pid for each in unfinished(project))
        )
    )
    cluster.workers["one"].kill()
    assert run.wait(LONGEST_WAIT) == 1
    results, before = results_of(project), read_calls(project.path).started
    lost = {name for name, result in results.items() if result["status"] == "error"}
    assert 1 <= len(lost) <= 8
    assert {results[name]["error"] for name in lost} == {"worker lost: its worker ended before it replied"}
    assert passed(project) | lost == set(numbered(200))
    assert f"; {len(lost)} lost with " in printed(project)
    assert len(before) == len(set(before)), "no case was asked twice"
    assert set(before) | lost == set(numbered(200))
    again = start(project, on(cluster), "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) == 0
    assert passed(project) == set(numbered(200))
    assert sorted(read_calls(project.path).started[len(before) :]) == sorted(lost)


def test_a_lost_worker_costs_its_cases_in_flight(project, make_cluster, model):
    cluster = make_cluster("one", "two")
    ask_a_model(project, model, Reply("hello", when="quick"), Reply("hello", when="slow", delay_seconds=1))
    write_cases(project, {f"quick-{number}": "quick" for number in range(4)} | {"slow-1": "slow", "slow-2": "slow"})
    run = start(project, on(cluster))
    model.wait_for("m", LONGEST_WAIT, 6)
    cluster.workers["one"].kill()
    run.wait(LONGEST_WAIT)
    results = results_of(project)
    lost = [eval_id for eval_id, result in results.items() if result["status"] == "error"]
    assert len(lost) == 1
    assert lost[0].startswith("slow")
    assert results[lost[0]]["error"] == "worker lost: its worker ended before it replied"
    assert results[lost[0]]["error_detail"] == {"stage": "provider", "kind": "process"}
    assert len(passed(project)) == 5
    assert len(model.asked("m")) == 6
    assert "; 1 lost with its worker" in printed(project)
    again = start(project, on(cluster), "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) == 0
    assert len(model.asked("m")) == 7


def test_a_lost_scheduler_ends_the_run(project, make_cluster, model):
    cluster = make_cluster("one", "two")
    ask_a_model(project, model, Reply("hello", when="quick"), Reply(fault="hang"))
    write_cases(project, {"a": "quick", "b": "slow", "c": "slow", "d": "quick", "e": "quick"})
    run = start(project, on(cluster))
    model.wait_for("m", LONGEST_WAIT, 3)
    until(lambda: "a" in results_of(project))
    cluster.scheduler.kill()
    assert run.wait(LONGEST_WAIT) not in (0, None)
    results = results_of(project)
    for eval_id in ("b", "c"):
        assert results[eval_id]["error"].startswith(f"worker lost: {cluster.address} is gone")
    assert set(results) == {"a", "b", "c"}
    assert f"agentv: {cluster.address} is gone" in printed(project)
    assert len(model.asked("m")) == 3


@pytest.mark.parametrize("number", range(tries(3, 20)))
def test_whoever_is_killed_nothing_finished_is_asked_again(project, make_cluster, number):
    chance = random.Random(20261122 + number)
    cluster = make_cluster("one", "two")
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, numbered(12, "sleep 0.1; say hello"))
    run = start(project, on(cluster), "--agentv-workers=4")
    until(lambda: passed(project))
    time.sleep(chance.uniform(0, 0.2))
    victim = ("controller", "worker", "scheduler")[number % 3]
    if victim == "controller":
        run.send_signal(signal.SIGKILL)
    elif victim == "worker":
        cluster.workers[chance.choice(["one", "two"])].kill()
    else:
        cluster.scheduler.kill()
    run.wait(LONGEST_WAIT)
    until(lambda: not unfinished(project))
    if victim == "scheduler":
        cluster.revive()
    done, before = passed(project), read_calls(project.path).started
    assert len(before) == len(set(before))
    again = start(project, on(cluster), "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) == 0
    assert passed(project) == set(numbered(12))
    after = read_calls(project.path).started[len(before) :]
    assert not set(after) & done
