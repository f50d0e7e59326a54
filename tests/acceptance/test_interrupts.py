"""Runs that are broken off: soon over, with what is done kept, and nothing left running or lying about."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import warm
from busy import slowness
from thorough import variation, varied

pytestmark = [
    pytest.mark.kills,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]

WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]
MARK = "AGENTV_TEST_RUN"
SOON = 2.0
"""Seconds from Ctrl-C to the end of the run, on an idle machine."""
TRIES = 3
"""What else a machine does may make one try slow."""

FAMILY = """
# A program with a child in its own process group and one in a session of its own, as agents have them for their tools.
import subprocess, sys, time

sleep = [sys.executable, "-IS", "-c", "import time; print(flush=True); time.sleep(60)"]
for session in (False, True):
    subprocess.Popen(sleep, stdout=subprocess.PIPE, start_new_session=session).stdout.readline()
open(sys.argv[1], "w").close()
time.sleep(60)
"""
HANGS_IN_LOGGING = """
import logging

KEPT = logging.StreamHandler()  # the interpreter removes it at its end, which takes the lock

def answer(prompt):
    open("up", "w").close()
    while True:
        with logging._lock:
            for _ in range(1_000):
                pass
"""
LONGEST_WAIT = 60.0
"""Seconds after which what is waited for will not happen any more."""

DEAF = "import signal\nfor number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"


class Started:
    """A pytest run in a process group of its own, as a shell starts it."""

    def __init__(self, project, temp, *args):
        self.project = project
        self.temp = temp
        self.mark = uuid.uuid4().hex
        self.out = project.path / "out.jsonl"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:hypothesispytest",
            "-p",
            "no:anyio",
            "-p",
            "no:cacheprovider",
        ]
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(temp)}
        self.process = warm.Popen(
            [*command, f"--basetemp={project.path}/base", f"--agentv-out={self.out}", *args],
            cwd=project.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for_file(self, *names):
        for name in names:
            until(lambda name=name: (self.project.path / name).exists() or self.process.poll() is not None)
            assert self.process.poll() is None, self.process.communicate()[0].decode()

    def wait_for_results(self, count):
        until(lambda: len(self.results()) >= count)

    def interrupt(self, *, all_processes=True):
        """Send Ctrl-C as a terminal does, or to pytest alone; return what was printed and the seconds it took."""
        started = time.monotonic()
        if all_processes:
            os.killpg(self.process.pid, signal.SIGINT)
        else:
            self.process.send_signal(signal.SIGINT)
        exit_code, text = self.end()
        seconds = time.monotonic() - started
        assert exit_code == pytest.ExitCode.INTERRUPTED
        assert "! KeyboardInterrupt !" in text
        until(lambda: not self.leftovers())
        return text, seconds

    def end(self):
        """Wait for the end of the run; return its exit code and what it printed."""
        text = self.process.communicate(timeout=LONGEST_WAIT)[0].decode()
        assert "pytest_agentv/" not in text, text
        assert "INTERNALERROR" not in text, text
        return self.process.returncode, text

    def results(self):
        """Return the results; each line has to be whole."""
        text = self.out.read_text("utf-8") if self.out.exists() else ""
        assert not text or text.endswith("\n")
        return [json.loads(line) for line in text.split("\n") if line]

    def kinds(self):
        """Return the ids of the results, each with the kind of its error."""
        return [(result["eval_id"], result.get("error_detail", {}).get("kind")) for result in self.results()]

    def leftovers(self):
        """Return the processes of the run that still live, and the temporary files of it."""
        return [*self.living(), *self.temp.iterdir()]

    def living(self):
        mark = f"{MARK}={self.mark}".encode()
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in pids if mark in environment_of(pid) and not is_zombie(pid)]


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until(condition):
    """Wait until something holds."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def is_soon_over(test):
    """Try a test, which returns the seconds that a run took to end, until they are few enough."""

    @functools.wraps(test)
    def repeated(**fixtures):
        tries = []
        for _ in range(TRIES):
            tries.append((test(**fixtures), SOON * slowness()))
            if tries[-1][0] <= tries[-1][1]:
                return
        pytest.fail(f"seconds, and how many are soon: {tries}")

    return repeated


class Start:
    """Starts pytest, in a project that has programs to be interrupted."""

    def __init__(self, project, temp):
        self.project = project
        self.temp = temp
        self.started = []
        project.write("family.py", FAMILY)
        project.write("deaf.py", DEAF + FAMILY)

    def __call__(self, targets, *args, evaluators=WORDS):
        """Run a case for each of the targets, which are given by id."""
        listed = [{"name": name, "provider": "cli", **target} for name, target in targets.items()]
        self.project.write("targets.yaml", json.dumps({"targets": listed}))
        cases = [
            {"id": name, "expected_outcome": "o", "input": "q", "target": name, "evaluators": evaluators}
            for name in targets
        ]
        self.project.write("a.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(case)}\n" for case in cases))
        return self._start(*args)

    def _start(self, *args):
        for path in (*self.project.path.glob("up*"), self.project.path / "out.jsonl"):  # of the try before
            path.unlink(missing_ok=True)
        self.started.append(Started(self.project, self.temp, *args))
        return self.started[-1]


@pytest.fixture
def start(project, tmp_path):
    """Return what starts pytest; whatever is left in the end is killed."""
    temp = tmp_path / "temp"
    temp.mkdir()
    begin = Start(project, temp)
    yield begin
    for run in begin.started:
        for pid in run.living():
            os.kill(pid, signal.SIGKILL)
        run.process.communicate()


def command(text):
    return {"command_template": text}


def family(name, script="family.py"):
    """A command with an output file, so that it has a temporary folder as well."""
    return command(f"{sys.executable} -IS {script} {name} {{OUTPUT_FILE}}")


@pytest.mark.parametrize("script", [varied("family.py"), "deaf.py"])
@is_soon_over
def test_ctrl_c_ends_a_run_and_leaves_the_results_of_finished_cases_and_the_error_of_the_one_on_turn(start, script):
    run = start({"done": command("echo hello"), "slow": family("up", script), "later": command("touch later")})
    run.wait_for_file("up")
    assert len(run.living()) >= 5
    text, seconds = run.interrupt()
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in text
    assert run.kinds() == [("done", None), ("slow", "cancelled")]
    assert not (run.project.path / "later").exists()
    return seconds


@is_soon_over
def test_ctrl_c_that_only_pytest_gets_ends_the_command_as_well(start):
    run = start({"slow": family("up")})
    run.wait_for_file("up")
    _, seconds = run.interrupt(all_processes=False)
    assert run.kinds() == [("slow", "cancelled")]
    return seconds


@variation
@is_soon_over
def test_ctrl_c_ends_all_cases_in_flight(start):
    slow = {f"slow-{number}": family(f"up-{number}") for number in range(2)}
    run = start({"done": command("echo hello"), **slow}, "--agentv-workers=2")
    run.wait_for_file(*(f"up-{number}" for number in range(2)))
    text, seconds = run.interrupt()
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in text
    assert run.kinds() == [("done", None), ("slow-0", "cancelled")]
    return seconds


@pytest.mark.parametrize(
    ("all_processes", "script"),
    [
        pytest.param(True, "family.py", id="all-family"),
        pytest.param(False, "deaf.py", id="controller-deaf"),
        varied(True, "deaf.py", id="all-deaf"),
        varied(False, "family.py", id="controller-family"),
    ],
)
@is_soon_over
def test_ctrl_c_ends_a_run_with_workers_and_their_commands(start, script, all_processes):
    targets = {"done": command("echo hello"), "a": family("up-a", script), "b": family("up-b", script)}
    run = start(targets, "-n2", "--dist=load")
    run.wait_for_file("up-a", "up-b")
    run.wait_for_results(1)
    text, seconds = run.interrupt(all_processes=all_processes)
    assert "Total eval cases: 3 (1 passed, 0 failed, 2 errors)" in text
    assert sorted(run.kinds()) == [("a", "cancelled"), ("b", "cancelled"), ("done", None)]
    return seconds


@is_soon_over
def test_ctrl_c_ends_a_judge_script(start):
    judge = [{"name": "judge", "type": "code_judge", "script": [sys.executable, "-IS", "family.py", "up"]}]
    run = start({"judged": command("echo hello")}, evaluators=judge)
    run.wait_for_file("up")
    _, seconds = run.interrupt()
    assert run.kinds() == [("judged", "cancelled")]
    return seconds


@is_soon_over
def test_ctrl_c_ends_a_health_check(start):
    check = {"type": "command", "command_template": f"{sys.executable} -IS family.py up"}
    run = start({"probed": {"command_template": "echo hello", "healthcheck": check}})
    run.wait_for_file("up")
    _, seconds = run.interrupt()
    assert run.kinds() == [("probed", "cancelled")]
    return seconds


@is_soon_over
def test_ctrl_c_does_not_wait_for_a_python_function_that_hangs(start, project):
    project.write("agent.py", "import time\ndef answer(prompt):\n    open('up', 'w').close()\n    time.sleep(60)\n")
    run = start({"hangs": {"provider": "python", "callable": "agent.py:answer"}})
    run.wait_for_file("up")
    _, seconds = run.interrupt()
    assert run.kinds() == [("hangs", "cancelled")]
    return seconds


@pytest.mark.parametrize("define", ["def", varied("async def")])
def test_ctrl_c_ends_the_process_while_a_target_that_hangs_holds_the_lock_of_logging(
    start, project, define, monkeypatch
):
    monkeypatch.setenv("PYTHONHASHSEED", "1")  # a process of its own, which tears its modules down
    project.write("agent.py", HANGS_IN_LOGGING.replace("def answer", f"{define} answer"))
    run = start({"hangs": {"provider": "python", "callable": "agent.py:answer"}})
    run.wait_for_file("up")
    run.interrupt()
    assert run.kinds() == [("hangs", "cancelled")]


def test_a_run_that_stops_at_a_failure_ends_the_commands_it_began_ahead(start):
    bad = command("until test -e up; do sleep 0.02; done; echo nothing")
    run = start({"bad": bad, "ahead": family("up")}, "-x", "--agentv-workers=2")
    exit_code, text = run.end()
    assert exit_code == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in text
    assert [(result["eval_id"], result["status"]) for result in run.results()] == [("bad", "fail")]
    until(lambda: not run.leftovers())


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(start):
    slow = {**family("up"), "timeout_seconds": 3}
    run = start({"slow": slow, "next": command("echo hello")}, "--agentv-max-retries=0")
    exit_code, _ = run.end()
    assert exit_code == pytest.ExitCode.TESTS_FAILED
    assert (run.project.path / "up").exists()
    assert [(result["eval_id"], result["status"]) for result in run.results()] == [("slow", "error"), ("next", "pass")]
    until(lambda: not run.leftovers())


@pytest.mark.parametrize(
    ("number", "flags"), [(signal.SIGKILL, ()), (signal.SIGTERM, ()), (signal.SIGKILL, ("-n2",))], ids=str
)
def test_when_pytest_is_killed_its_commands_die_with_it_and_the_results_stay_whole(start, number, flags):
    run = start({"done": command("echo hello"), "slow": family("up")}, *flags)
    run.wait_for_file("up")
    run.wait_for_results(1)
    run.process.send_signal(number)
    # xdist's workers notice that their controller is gone, and give their case five seconds.
    assert run.end()[0] == -number
    until(lambda: not run.leftovers())
    ended = [("slow", "cancelled")] if flags else []  # a worker survives its controller long enough to say so
    assert run.kinds() == [("done", None), *ended]


def test_when_a_worker_is_killed_its_command_dies_and_the_other_cases_are_run(start):
    once = f"test -e up || exec {sys.executable} -IS family.py up {{OUTPUT_FILE}}; echo hello > {{OUTPUT_FILE}}"
    others = {f"other-{number}": command("echo hello") for number in range(3)}
    run = start({"slow": command(once), **others}, "-n2")
    run.wait_for_file("up")
    (program,) = [pid for pid in run.living() if b"family.py" in command_line(pid)]
    os.kill(parent_of(program), signal.SIGKILL)
    exit_code, text = run.end()
    assert exit_code == 1
    assert "crashed while running 'a.eval.yaml::slow'" in text
    statuses = {result["eval_id"]: result["status"] for result in run.results()}
    assert {name: statuses.get(name) for name in others} == dict.fromkeys(others, "pass")
    assert statuses["slow"] == "error"
    until(lambda: not run.leftovers())
