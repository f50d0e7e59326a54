"""Cases on a Dask cluster: nothing lost, nothing paid for twice, no secret at home, nothing left running."""

import json
import os
import random
import re
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

SEEN = "--agentv-ship=none"
"""Workers see the project's folder: the agent of tests notes its calls there."""
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


def running(project):
    """Return the processes that have worked for a project and go on."""
    return [pid for pid in {note["pid"] for note in read_calls(project.path).notes} if is_alive(pid)]


def test_a_run_on_a_cluster(project, cluster):
    write_agent(project)
    write_cases(project, {"a": "log seen by a; say hello", "b": "say nothing", "c": "fail badly"})
    run = project.run(on(cluster), SEEN)
    assert run.statuses == {"a": "pass", "b": "fail", "c": "error"}
    assert f"agentv: executor {cluster.address}: 3 answers" in run.lines
    assert not {note["pid"] for note in read_calls(project.path).notes} & {os.getpid()}
    assert not cluster.kept()
    assert not list(project.path.glob(".*.kept"))
    assert not running(project)


def test_a_run_of_nothing_asks_no_worker(project, cluster):
    write_agent(project)
    write_cases(project, numbered(1))
    assert project.run(on(cluster), "--collect-only", "-q").exit_code == 0
    assert not read_calls(project.path).notes


@pytest.mark.skipif(reason_not_to_hide() is not None, reason=str(reason_not_to_hide()))
def test_a_worker_that_lacks_the_project_draws_no_cases(project, make_cluster):
    """It would answer at once, and so be the one with the least to do."""
    cluster = make_cluster("one")
    cluster.hide(project.path)
    cluster.add_worker("blind")
    write_agent(project)
    write_cases(project, numbered(8))
    run = project.run(on(cluster), SEEN, "--agentv-workers=4")
    assert set(run.statuses.values()) == {"pass"}
    cluster.workers["one"].kill()
    run = project.run(on(cluster), SEEN)
    assert run.by_id["case-0"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert run.by_id["case-0"]["error"].startswith("this worker does not see the project")


def test_more_than_fifty_cases_are_in_flight(project, cluster):
    write_agent(project)
    write_cases(project, numbered(60, "in_flight 60; say hello"))
    run = project.run(on(cluster), SEEN, "--agentv-workers=60")
    assert set(run.statuses.values()) == {"pass"}
    assert len(read_calls(project.path).by_process) == 2


def test_no_secret_of_a_worker_comes_home(project, make_cluster):
    cluster = make_cluster("one", "two")
    for number, worker in enumerate(cluster.workers.values()):
        (worker.folder / ".env").write_text(f"SHOP_API_KEY={SECRET}-{number}\n")
    write_agent(project, "targets: [{name: default, provider: cli, command_template: 'sh shop.sh {PROMPT}'}]\n")
    project.write("shop.sh", "echo hello $SHOP_API_KEY $1; echo $SHOP_API_KEY >&2; test $1 = fine\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: sh shop.sh {PROMPT}
            env: {SHOP_API_KEY: "${{ SHOP_API_KEY }}"}
        """,
    )
    write_cases(project, {"a": "fine", "b": "fine", "c": "broken", "d": "broken"})
    run = project.run(on(cluster), "-vv", "--agentv-include-trace", "--agentv-dump-traces=traces")
    assert run.statuses == {"a": "pass", "b": "pass", "c": "error", "d": "error"}
    assert run.by_id["a"]["candidate_answer"] == "hello *** fine"
    assert SECRET not in run.text
    for path in project.path.rglob("*"):
        assert not path.is_file() or SECRET not in path.read_bytes().decode("utf-8", "replace"), path
    for worker in (*cluster.workers.values(), cluster.scheduler):
        assert SECRET not in worker.log.read_text()


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


def test_a_target_that_crashes_takes_its_own_cases_only(project, cluster):
    """The processes of Dask live on, and so does the work of others on them."""
    write_agent(project)
    write_cases(project, {"a": "say hello", "lost": "die_once mark; say hello", "b": "say hello"})
    run = project.run(on(cluster), SEEN)
    assert run.statuses == {"a": "pass", "lost": "error", "b": "pass"}
    assert re.search(
        r"worker lost: its process \d+ ended \(signal 9\) on worker (one|two)-", run.by_id["lost"]["error"]
    )
    assert all(worker.process.poll() is None for worker in cluster.workers.values())


def test_the_first_failure_ends_what_runs_on_workers(project, cluster):
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(
        project, {"bad": "start_of slow; say nothing", "slow": "sleep 600; say hello", "later": "sleep 600; say hello"}
    )
    run = project.run(on(cluster), SEEN, "-x")
    assert run.statuses == {"bad": "fail"}
    assert not running(project)


FAMILY = "import os, time; open('family.txt', 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_run_is_that_of_all_processes(project, cluster, number):
    project.write("family.py", FAMILY)
    project.write("leave.sh", f"setsid {sys.executable} family.py &\n{sys.executable} family.py\n")
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'sh leave.sh'}]\n")
    write_cases(project, numbered(2))
    path = project.path / "family.txt"
    run = start(project, on(cluster), SEEN)
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
    assert re.fullmatch(r"worker lost: one-1 \(tcp://.*\) is gone \(.*\)", results[lost[0]]["error"])
    assert results[lost[0]]["error_detail"] == {"stage": "provider", "kind": "process"}
    assert len(passed(project)) == 5
    assert len(model.asked("m")) == 6
    assert "; 1 lost with its worker" in printed(project)
    again = start(project, on(cluster), "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) == 0
    assert len(model.asked("m")) == 7


def test_a_lost_case_is_asked_again_by_choice(project, make_cluster, model):
    cluster = make_cluster("one", "two")
    ask_a_model(project, model, Reply("hello", delay_seconds=1))
    write_cases(project, numbered(2))
    run = start(project, on(cluster), "--agentv-lost-retries=1")
    model.wait_for("m", LONGEST_WAIT, 2)
    cluster.workers["one"].kill()
    assert run.wait(LONGEST_WAIT) == 0
    assert len(model.asked("m")) == 3


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
        assert results[eval_id]["error"].startswith(f"worker lost: the scheduler {cluster.address} is gone")
    assert set(results) == {"a", "b", "c"}
    assert f"agentv: the scheduler {cluster.address} is gone" in printed(project)
    assert len(model.asked("m")) == 3


def test_a_killed_run_loses_no_answer(project, make_cluster):
    """Workers have answers that the run, which is stopped, has not: the run that goes on fetches them."""
    cluster = make_cluster("one", "two")
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    waiting = {"a": "lines 1 go; say hello", "twice": "lines 1 go; say hello"}
    write_cases(project, {"first": "say hello", **waiting}, twice={"repeat": 2})
    run = start(project, on(cluster), SEEN, "--agentv-workers=4")
    until(lambda: len(read_calls(project.path).started) == 4 and "first" in results_of(project))
    run.send_signal(signal.SIGSTOP)
    project.write("go", "go\n")
    until(lambda: len(cluster.kept()) >= 3)
    run.send_signal(signal.SIGKILL)
    run.wait(LONGEST_WAIT)
    assert set(results_of(project)) == {"first"}
    again = start(project, "--agentv-resume=out.jsonl", SEEN)
    assert again.wait(LONGEST_WAIT) == 0, printed(project)
    assert passed(project) == {"first", "a", "twice"}
    assert len(read_calls(project.path).started) == 4
    assert not cluster.kept()
    assert not list(project.path.glob(".out.jsonl.kept"))


def test_results_that_cannot_be_fetched_are_not_paid_for_again(project, make_cluster):
    cluster = make_cluster("one")
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, {"a": "say hello", "b": "sleep 600; say hello"})
    run = start(project, on(cluster), SEEN)
    until(lambda: "a" in results_of(project))
    run.kill()
    run.wait(LONGEST_WAIT)
    cluster.close()
    again = start(project, "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) != 0
    assert f"--agentv-resume: {cluster.address}: no scheduler of Dask answered" in printed(project)
    assert "Its workers may keep results that were paid for. To do without them, delete " in printed(project)
    assert read_calls(project.path).started.count("a") == 1


@pytest.mark.parametrize("number", range(tries(3, 20)))
def test_whoever_is_killed_nothing_finished_is_asked_again(project, make_cluster, number):
    chance = random.Random(20261122 + number)
    cluster = make_cluster("one", "two")
    write_agent(project, "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, numbered(12, "sleep 0.1; say hello"))
    run = start(project, on(cluster), SEEN, "--agentv-workers=4")
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
    until(lambda: not running(project))
    if victim == "scheduler":
        cluster.revive()
    done, before = passed(project), read_calls(project.path).started
    assert len(before) == len(set(before))
    again = start(project, on(cluster), SEEN, "--agentv-resume=out.jsonl")
    assert again.wait(LONGEST_WAIT) == 0
    assert passed(project) == set(numbered(12))
    after = read_calls(project.path).started[len(before) :]
    assert not set(after) & done
    assert victim == "worker" or not cluster.kept()  # those of a machine that is gone are out of reach
    assert not list(project.path.glob(".out.jsonl.kept"))
