"""Many cases in flight within one process, while each stays an item of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import warm
from busy import locked, slowness
from scripted_agent import TARGETS, numbered, read_calls, write_agent, write_cases, write_plugin
from thorough import varied

FOUR_WORKERS = TARGETS.replace("workers: 1", "workers: 4")


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def calls(project):
    """Return the calls so far; the next ones are counted anew."""
    noted = read_calls(project.path)
    (project.path / "calls.jsonl").unlink(missing_ok=True)
    return noted


def order_of_reports(run):
    return re.findall(r"^[\w./]+::([\w-]+) (?:PASSED|FAILED|ERROR)", run.text, re.MULTILINE)


@pytest.mark.scenario("Parallel execution with worker pool")
@pytest.mark.scenario("Workers flag specification")
@pytest.mark.scenario("Workers from target configuration")
@pytest.mark.scenario("Workers priority resolution")
@pytest.mark.scenario("Configurable concurrency")
@pytest.mark.scenario("Sequential execution (default)")
@pytest.mark.parametrize(
    ("flags", "ini", "targets", "count"),
    [
        (["--agentv-workers=6"], "agentv_workers = 2", FOUR_WORKERS, 6),
        ([], "agentv_workers = 2", FOUR_WORKERS, 2),
        ([], "", FOUR_WORKERS, 4),
        ([], "", TARGETS.replace(", workers: 1", ""), 1),
    ],
    ids=["command line", "ini", "target", "default"],
)
def test_as_many_cases_are_in_flight_as_the_first_of_flag_ini_and_target_says(project, flags, ini, targets, count):
    write_agent(project, targets)
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    write_cases(project, numbered(14, f"in_flight {count}; say hello"))
    run = project.run(*flags)
    assert run.outcomes == {"passed": 14}
    assert calls(project).most == count


@pytest.mark.scenario("File-level worker balancing")
def test_the_number_of_workers_of_a_run_counts_over_all_files_and_targets(project):
    project.write("targets.yaml", json.dumps({"targets": [target(name) for name in ("default", "other")]}))
    for number in range(6):
        write_cases(project, {f"one-{number}": "in_flight 5", f"two-{number}": "in_flight 5"}, f"{number}.eval.yaml")
    for number in range(0, 6, 2):
        path = project.path / f"{number}.eval.yaml"
        path.write_text("execution: {target: other}\n" + path.read_text())
    assert project.run("--agentv-workers=5").outcomes == {"passed": 12}
    assert calls(project).most == 5


def target(name, **keys):
    return {"name": name, "provider": "python", "callable": "agent.py:answer", **keys}


@pytest.mark.scenario("Workers from target configuration")
def test_each_target_has_as_many_cases_in_flight_as_it_says(project):
    project.write("targets.yaml", json.dumps({"targets": [target("two", workers=2), target("three", workers=3)]}))
    prompts = {f"{name}-{number}": "in_flight 5" for number in range(6) for name in ("two", "three")}
    write_cases(project, prompts, **{key: {"target": key.partition("-")[0]} for key in prompts})
    assert project.run().outcomes == {"passed": 12}
    noted = calls(project)
    assert {name: noted.of(name).most for name in ("two", "three")} == {"two": 2, "three": 3}


@pytest.mark.scenario("Immediate work scheduling")
def test_a_case_starts_the_moment_another_one_ends_and_waits_for_no_batch(project):
    write_cases(project, {"case-0": "start_of case-9; say hello"} | dict(list(numbered(10).items())[1:]))
    run = project.run("--agentv-workers=4", "-v")
    assert run.outcomes == {"passed": 10}
    assert calls(project).most <= 4


def test_items_are_reported_in_their_order_whatever_case_ends_first(project):
    prompts = {f"case-{number}": f"lines {5 - number} out-1.jsonl; say hello" for number in range(5)}
    write_cases(project, {**prompts, "case-5": "say hello"})
    run = project.run("--agentv-workers=6", "-v")
    assert order_of_reports(run) == [f"case-{number}" for number in range(6)]
    assert [result["eval_id"] for result in run.results] == [f"case-{number}" for number in reversed(range(6))]


@pytest.mark.scenario("Write ordering with parallel execution")
@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_slow_first_case_does_not_keep_the_results_of_finished_ones_from_the_disk(project, suffix):
    flags = (
        ("--agentv-out=own.jsonl",) if suffix == "jsonl" else ("--agentv-out=own.yaml", "--agentv-output-format=yaml")
    )
    least = 4 if suffix == "jsonl" else 4 * 15
    write_cases(project, {"slow": f"lines {least} own.{suffix}; say hello", **numbered(4)})
    assert project.run("--agentv-workers=3", *flags).outcomes == {"passed": 5}


def test_while_results_cannot_be_written_no_more_is_paid_for_than_is_in_flight(project):
    write_cases(project, numbered(8, "lines 1 held; say hello"))
    seen = []

    def hold_lock():
        deadline = time.monotonic() + 20
        # Before its first case the run itself wants the lock: it finds out whether it can write.
        while not read_calls(project.path).started and time.monotonic() < deadline:
            time.sleep(0.02)
        with locked(project.path / ".out-1.jsonl.lock"):
            project.write("held", "yes\n")
            while len(read_calls(project.path).ended) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.5)
            seen.extend(read_calls(project.path).ended)

    holder = threading.Thread(target=hold_lock)
    holder.start()
    run = project.run("--agentv-workers=2")
    holder.join()
    assert sorted(seen) == ["case-0", "case-1"]
    assert run.outcomes == {"passed": 8}
    assert sorted(run.by_id) == [f"case-{number}" for number in range(8)]


HOOK_THAT_WAITS = """
import time
from pathlib import Path


def pytest_agentv_result(case, result):
    deadline = time.monotonic() + 20
    while case.eval_id == "first" and "fifth" not in Path("calls.jsonl").read_text():
        assert time.monotonic() < deadline, "the fifth case did not start"
        time.sleep(0.01)
"""


def test_a_case_whose_answer_is_judged_lets_the_next_one_start_while_its_result_is_written(project):
    project.write("conftest.py", HOOK_THAT_WAITS)
    waiting = dict.fromkeys(("second", "third", "fourth"), "start_of fifth; say hello")
    write_cases(project, {"first": "say hello", **waiting, "fifth": "say hello"})
    run = project.run("--agentv-workers=4", "-W", "error")
    assert run.outcomes == {"passed": 5}
    assert calls(project).most == 4


@pytest.mark.parametrize(
    ("flag", "bad"), [("-x", "say nothing"), ("--maxfail=2", "fail out of tokens")], ids=["failed", "errors"]
)
def test_a_run_that_stops_at_a_case_has_made_no_more_calls_than_fit_in_flight_beside_it(project, flag, bad):
    prompts = numbered(60)
    for number in (7, 8) if flag == "--maxfail=2" else (8,):
        prompts[f"case-{number}"] = f"sleep 0.15; {bad}"
    write_cases(project, prompts)
    run = project.run(flag, "--agentv-workers=5")
    assert sum(run.outcomes.values()) == 9
    started = calls(project).started
    assert len(started) == len(set(started)) <= 9 + 5
    assert "stopping after" in run.text


BATCHED = """
targets:
  - {name: default, provider: python, callable: agent.py:answer, workers: 2}
  - {name: together, provider: cli, provider_batching: true, workers: 2,
     command_template: "echo {EVAL_ID} >> paid; test {EVAL_ID} != batch && echo hello"}
"""
"""Its command fails for a batch, and is asked for each case then."""


def test_a_run_that_is_about_to_stop_begins_no_batch(project):
    write_agent(project, BATCHED)
    prompts = {"first": "end_of bad; sleep 0.5; say hello", "bad": "say nothing", "next": "say hello", **numbered(3)}
    write_cases(project, prompts, **{name: {"target": "together"} for name in numbered(3)})
    run = project.run("-x")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert not (project.path / "paid").exists()
    assert project.run().outcomes == {"passed": 5, "failed": 1}
    assert (project.path / "paid").exists()


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=4",)], ids=["in turn", "ahead"])
def test_the_time_of_a_case_is_that_of_the_call_unless_it_could_not_be_judged(project, flags):
    project.write(
        "conftest.py",
        """
        def pytest_runtest_logreport(report):
            with open("durations.txt", "a") as file:
                spent = report.stop - report.start
                print(report.nodeid.rpartition(":")[2], report.when, report.duration, spent, file=file)
        """,
    )
    write_cases(
        project, {"good": "sleep 0.3; say hello", "bad": "sleep 0.3; say no", "broken": "sleep 0.3; fail no tokens"}
    )
    assert project.run(*flags).outcomes == {"passed": 1, "failed": 1, "errors": 1}
    noted = [line.split() for line in (project.path / "durations.txt").read_text().splitlines()]
    took = {(name, when): float(seconds) for name, when, seconds, _ in noted if when != "teardown"}
    spent = {(name, when): float(seconds) for name, when, _, seconds in noted}
    assert set(took) == {(name, when) for name in ("good", "bad") for when in ("setup", "call")} | {("broken", "setup")}
    for name in ("good", "bad"):
        assert took[name, "call"] >= 0.3
        assert took[name, "setup"] <= max(0, spent[name, "setup"] - 0.25)
    if not flags:
        assert took["broken", "setup"] >= 0.3


FORGIVING = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if item.name == "case-1" and report.failed:
        report.outcome = "passed"
    return report
"""


@pytest.mark.parametrize(
    ("bad", "keys", "conftest", "flags"),
    [
        ("say nothing", {"xfail": True}, "", ()),
        ("say nothing", {}, FORGIVING, ()),
        ("fail out of tokens", {}, FORGIVING, ()),
        ("say_once mark nothing", {}, "", ("--reruns=1",)),
    ],
    ids=["xfail", "hook", "hook, error", "rerun"],
)
@pytest.mark.parametrize("limit", ["-x", varied("--stepwise")])
def test_a_failure_that_pytest_does_not_count_makes_no_case_wait(project, bad, keys, conftest, flags, limit):
    project.write("conftest.py", conftest)
    prompts = {"case-0": "end_of case-1; say hello", "case-1": bad, **numbered(10, "in_flight 5", "next")}
    if keys:
        del prompts["case-0"]  # a case that is expected to fail does not run ahead
    write_cases(project, prompts, **{"case-1": keys})
    run = project.run(limit, "--agentv-workers=5", *flags)
    assert run.outcomes.get("failed", 0) == run.outcomes.get("errors", 0) == 0
    assert calls(project).most == 5


def test_an_answer_that_a_python_test_finds_bad_on_purpose_makes_no_case_wait(project):
    project.write(
        "0/test_first.py",
        """
        WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]

        def test_that_it_is_bad(agentv):
            assert not agentv.evaluate("nothing", evaluators=WORDS)
        """,
    )
    write_cases(project, numbered(10, "in_flight 5"), "1/a.eval.yaml")
    project.write("targets.yaml", TARGETS.replace("agent.py", f"{project.path}/agent.py"))
    run = project.run("-x", "--agentv-workers=5", "0", "1")
    assert run.outcomes == {"passed": 11}
    assert calls(project).most == 5


def test_after_a_failure_ahead_of_its_turn_the_free_place_is_left_empty(project):
    prompts = {
        "slow": "end_of bad; sleep 0.2; say hello",
        "bad": "say nothing",
        "busy": "end_of slow",
        "next": "say hi",
    }
    write_cases(project, prompts)
    run = project.run("-x", "--agentv-workers=3")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert sorted(calls(project).started) == ["bad", "busy", "slow"]


def test_a_failure_of_a_python_test_stops_the_cases_as_well(project):
    project.write("0/test_first.py", "def test_bad():\n    assert False\n")
    write_cases(project, numbered(10), "1/a.eval.yaml")
    run = project.run("-x", "--agentv-workers=5", "0", "1")
    assert run.outcomes == {"failed": 1}
    assert calls(project).started == []


def test_deselected_and_skipped_cases_never_start(project):
    write_cases(project, {**numbered(4), **numbered(4, word="other"), **numbered(4, word="skipped")})
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.name.startswith("skipped"):
                    item.add_marker(pytest.mark.skipif(True, reason="not today"))
        """,
    )
    run = project.run("--agentv-workers=4", "-k", "case or skipped")
    assert run.outcomes == {"passed": 4, "skipped": 4, "deselected": 4}
    assert sorted(calls(project).started) == [f"case-{number}" for number in range(4)]


def test_a_case_under_a_fixture_of_its_own_is_not_run_ahead_and_those_beside_it_are(project):
    project.write(
        "own/conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def case(request, monkeypatch):
            monkeypatch.setenv("AGENTV_TEST_CASE", f"hello {request.node.name}")
        """,
    )
    write_cases(project, numbered(6, "in_flight 3"), "0/a.eval.yaml")
    write_cases(project, numbered(4, "variable AGENTV_TEST_CASE", "own"), "own/a.eval.yaml")
    project.write("targets.yaml", TARGETS.replace("agent.py", f"{project.path}/agent.py"))
    run = project.run("--agentv-workers=3", "0", "own")
    assert run.outcomes == {"passed": 10}
    answers = {name: result["candidate_answer"] for name, result in run.by_id.items() if name.startswith("own")}
    assert answers == {f"own-{number}": f"hello own-{number}" for number in range(4)}
    assert calls(project).most == 3


def test_a_session_fixture_that_stands_does_not_keep_cases_from_running_ahead(project):
    project.write(
        "conftest.py", "import pytest\n@pytest.fixture(autouse=True, scope='session')\ndef server(): return 1\n"
    )
    write_cases(project, numbered(6, "in_flight 3"))
    assert project.run("--agentv-workers=3").outcomes == {"passed": 6}
    assert calls(project).most == 3


def test_under_the_debugger_one_case_runs_after_another(project):
    write_cases(project, numbered(6, "sleep 0.02; say hello"))
    assert project.run("--agentv-workers=3", "--pdb").outcomes == {"passed": 6}
    assert calls(project).most == 1


def test_a_rerun_is_a_call_of_its_own(project):
    prompts = numbered(8)
    prompts["case-1"] = "fail_once one"
    prompts["case-5"] = "say_once two nothing"
    write_cases(project, prompts)
    run = project.run("--agentv-workers=4", "--reruns", "1")
    assert run.outcomes == {"passed": 8, "rerun": 2}
    assert sorted(calls(project).started) == sorted([*prompts, "case-1", "case-5"])


def test_what_a_case_logs_is_shown_with_its_own_item(project):
    prompts = {f"case-{number}": f"log this is {number}; say nothing" for number in range(5)}
    write_cases(project, {"first": "end_of case-3; say nothing", **prompts})
    run = project.run("--agentv-workers=5")
    assert run.outcomes == {"failed": 6}
    accounts = re.split(r"^_{5,} ([\w-]+) _{5,}$", run.text, flags=re.MULTILINE)
    shown = dict(zip(accounts[1::2], accounts[2::2], strict=True))
    assert {name: re.findall(r"(?<!log )this is \d", text) for name, text in shown.items()} == {
        "first": [],
        **{f"case-{number}": [f"this is {number}"] for number in range(5)},
    }


@pytest.mark.scenario("Partial batch completion")
def test_fifty_workers_account_for_cases_that_pass_fail_hang_break_and_crash(project):
    project.write("judge.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    crashed = [{"name": "judge", "type": "code_judge", "script": [sys.executable, "-S", "judge.py"]}]
    kinds = ["say hello", "sleep 0.05; say hello", "say nothing", "fail no tokens", "sleep 60", "say a judge crashes"]
    prompts = {f"case-{number}": kinds[number % len(kinds)] for number in range(48)}
    hanging = "  - {name: hangs, provider: python, callable: agent.py:answer, timeout_seconds: 0.4}\n"
    project.write("targets.yaml", "targets:\n" + hanging + hanging.replace("hangs", "default").replace("0.4", "60"))
    broken = {key: {"evaluators": crashed} for key, text in prompts.items() if "judge" in text}
    broken |= {key: {"target": "hangs"} for key, text in prompts.items() if text == "sleep 60"}
    write_cases(project, prompts, **broken)
    run = project.run("-v", "--agentv-workers=50", "--agentv-max-retries=0")
    assert run.outcomes == {"passed": 16, "failed": 8, "errors": 24}
    assert order_of_reports(run) == list(prompts)
    assert sorted(run.by_id) == sorted(prompts)
    assert "Total eval cases: 48 (16 passed, 8 failed, 24 errors)" in run.lines
    noted = calls(project)
    assert sorted(noted.started) == sorted(noted.ended) == sorted(prompts)
    kinds_of_errors = {kinds[int(name[5:]) % 6]: result.get("error_detail") for name, result in run.by_id.items()}
    assert kinds_of_errors == {
        **dict.fromkeys(kinds[:3]),
        "fail no tokens": {"stage": "provider", "kind": "crash"},
        "sleep 60": {"stage": "provider", "kind": "timeout"},
        "say a judge crashes": {"stage": "evaluator", "kind": "process"},
    }


def test_a_health_check_that_fails_stops_everything_that_was_begun_ahead(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            workers: 8
            command_template: touch called
            healthcheck: {type: command, command_template: echo x >> checked; echo no licence >&2; exit 1}
        """,
    )
    write_cases(project, numbered(40))
    run = project.run()
    assert run.exit_code != 0
    assert (project.path / "checked").read_text() == "x\n"
    assert not (project.path / "called").exists()
    assert run.outcomes == {"errors": 1}
    assert any("! Interrupted: agentv: " in line and "no licence" in line for line in run.lines)


@pytest.mark.kills
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="sends Ctrl-C to a process group")
def test_ctrl_c_with_twenty_commands_in_flight_ends_within_three_seconds(project):
    write_plugin(
        project,
        "import pathlib, pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_setup(item):\n"
        "    if item.name == 'case-0': pathlib.Path('waits').touch()\n",
    )
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: cli, "
        "command_template: 'echo $$ >> pids; case {EVAL_ID} in swift*) echo hello;; *) sleep 61;; esac'}]\n",
    )
    write_cases(project, {**numbered(3, word="swift"), **numbered(40)})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--agentv-workers=20",
        "--agentv-out=own.jsonl",
    ]
    process = warm.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while len(started_commands(project)) < 23 and time.monotonic() < deadline:
        time.sleep(0.02)
    while not (project.path / "waits").exists() and time.monotonic() < deadline:  # pytest reports later than cases end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    started = time.monotonic()
    text = process.communicate(timeout=60)[0]
    assert time.monotonic() - started < 3 * slowness()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "Total eval cases: 4 (3 passed, 0 failed, 1 error)" in text
    *done, ended = map(json.loads, (project.path / "own.jsonl").read_text().splitlines())
    assert [result["status"] for result in done] == ["pass"] * 3
    assert (ended["eval_id"], ended["error_detail"]["kind"]) == ("case-0", "cancelled")
    assert len(started_commands(project)) == 23
    assert [pid for pid in started_commands(project) if is_alive(pid)] == []


def started_commands(project):
    path = project.path / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
