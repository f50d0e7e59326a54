"""Items whose set-up fails, and items that are ended while their case runs: each has a record, and no more is paid."""

import json
import sys
import time
from importlib.util import find_spec

import pytest
from scripted_agent import TARGETS, numbered, read_calls, write_agent, write_cases, write_plugin
from thorough import varied

ALARM = """
import pathlib, signal, pytest

def is_asked():
    pids, calls = pathlib.Path("pids"), pathlib.Path("calls.jsonl")
    return pids.exists() and pids.read_text() or calls.exists() and "slow" in calls.read_text()

def end(number, frame):
    if not is_asked():
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        return
    RAISE

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if item.name == "slow":
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
"""
SLEEPS = "targets: [{name: default, provider: cli, command_template: 'echo $$ >> pids; sleep 61'}]\n"


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def calls(project):
    return read_calls(project.path).started


def details(run):
    return {eval_id: result.get("error_detail") for eval_id, result in run.by_id.items()}


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=4",), varied(("-n2", "--agentv-workers=4"))])
def test_a_case_with_a_misspelt_fixture_is_not_called_and_is_recorded_as_an_error(project, flags):
    prompts = numbered(8)
    write_cases(project, prompts, **{"case-3": {"fixtures": ["databse"]}, "case-5": {"fixtures": ["databse"]}})
    run = project.run(*flags)
    assert run.outcomes == {"passed": 6, "errors": 2}
    assert sorted(calls(project)) == sorted(set(prompts) - {"case-3", "case-5"})
    assert run.statuses == dict.fromkeys(prompts, "pass") | {"case-3": "error", "case-5": "error"}
    assert run.by_id["case-3"]["error"] == "fixture 'databse' not found"
    assert run.by_id["case-3"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert "Total eval cases: 8 (6 passed, 0 failed, 2 errors)" in run.lines
    assert "ERROR a.eval.yaml::case-3 - fixture 'databse' not found" in run.lines
    assert "pytest_agentv" not in run.text, "no frame of ours"


RAISERS = {
    "error": ("raise RuntimeError('no database')", "RuntimeError: no database"),
    "fail": ("pytest.fail('no database')", "Failed: no database"),
    "base": ("raise BaseException('no database')", "BaseException: no database"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "generator": ("raise GeneratorExit", "GeneratorExit"),
}


RAISING = {
    "fixture": "import pytest\n@pytest.fixture\ndef base():\n    RAISE\n",
    "hook": "import pytest\ndef pytest_runtest_setup(item):\n    if item.name.endswith('-1'):\n        RAISE\n",
}


def test_whatever_a_fixture_or_hook_raises_its_case_is_an_error_and_the_others_run(project):
    project.write("targets.yaml", TARGETS.replace("agent.py", f"{project.path}/agent.py"))
    words = {f"{place}-{what}": RAISERS[what] for place in RAISING for what in RAISERS}
    for word, (code, _) in words.items():
        place = word.partition("-")[0]
        project.write(f"{word}/conftest.py", RAISING[place].replace("RAISE", code))
        fixtures = {f"{word}-1": {"fixtures": ["base"]}} if place == "fixture" else {}
        write_cases(project, numbered(3, word=word), f"{word}/a.eval.yaml", **fixtures)
    run = project.run()
    assert run.outcomes == {"passed": 2 * len(words), "errors": len(words)}
    assert sorted(calls(project)) == sorted(f"{word}-{number}" for word in words for number in (0, 2))
    for word, (_, text) in words.items():
        assert [run.statuses[name] for name in numbered(3, word=word)] == ["pass", "error", "pass"]
        assert run.by_id[f"{word}-1"]["error"] == text
    assert run.internals == []


def test_a_case_that_ran_ahead_of_a_set_up_that_fails_is_an_error_in_the_end(project):
    write_plugin(
        project,
        "import time\ndef pytest_runtest_setup(item):\n"
        "    if item.name == 'case-2':\n        time.sleep(0.3)\n        raise RuntimeError('no database')\n",
    )
    write_cases(project, numbered(4))
    run = project.run("--agentv-workers=4")
    assert run.outcomes == {"passed": 3, "errors": 1}
    assert [result["status"] for result in run.results if result["eval_id"] == "case-2"] == ["pass", "error"]
    assert "Total eval cases: 4 (3 passed, 0 failed, 1 error)" in run.lines


def test_a_case_that_ran_ahead_of_a_hook_that_skips_it_is_paid_no_further(project):
    write_plugin(
        project,
        "import pytest\ndef pytest_runtest_setup(item):\n    if item.name == 'case-2':\n"
        "        pytest.skip('not today')\n",
    )
    write_cases(project, numbered(4) | {"case-2": "sleep 60; say hello"})
    run = project.run("--agentv-workers=4")
    assert run.outcomes == {"passed": 3, "skipped": 1}
    assert sorted(run.by_id) == ["case-0", "case-1", "case-3"]
    assert "case-2" in read_calls(project.path).ended


def test_a_skipped_case_has_no_record_and_setup_only_records_nothing(project):
    ways = ("pytest.skip('no')", "pytest.xfail('no')", "raise unittest.SkipTest('no')", "raise RuntimeError('down')")
    fixtures = (f"@pytest.fixture\ndef way{number}():\n    {way}\n" for number, way in enumerate(ways))
    project.write("conftest.py", "import pytest, unittest\n" + "".join(fixtures))
    write_cases(project, numbered(4), **{f"case-{number}": {"fixtures": [f"way{number}"]} for number in range(4)})
    assert (project.run("--setup-only").results, calls(project)) == ([], [])
    assert (project.run().statuses, calls(project)) == ({"case-3": "error"}, [])


def test_only_the_cases_of_a_broken_fixture_are_run_again(project):
    broken = "import pytest\n@pytest.fixture\ndef database():\n    raise RuntimeError('down')\n"
    project.write("conftest.py", broken)
    write_cases(project, numbered(4), **{name: {"fixtures": ["database"]} for name in ("case-1", "case-2")})
    assert project.run("--agentv-out=own.jsonl").outcomes == {"passed": 2, "errors": 2}
    project.write("conftest.py", broken.replace("raise RuntimeError('down')", "return 1"))
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert run.outcomes == {"passed": 4}
    assert sorted(calls(project)) == sorted(numbered(4))


def test_each_attempt_of_a_rerun_is_recorded_and_the_last_one_counts(project):
    project.write(
        "conftest.py",
        "import pytest\ntries = []\n@pytest.fixture\ndef flaky():\n    tries.append(1)\n    assert len(tries) > 1\n",
    )
    write_cases(project, numbered(2), **{"case-0": {"fixtures": ["flaky"]}})
    run = project.run("--reruns=1")
    assert run.outcomes == {"passed": 2, "rerun": 1}
    assert [result["status"] for result in run.results] == ["error", "pass", "pass"]
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in run.lines


ENDS = {
    "time-out": ("pytest.fail('Timeout >0.7s')", "ended before it was done: Failed: Timeout >0.7s"),
    "error": ("raise RuntimeError('enough')", "ended before it was done: RuntimeError: enough"),
    "base": ("raise BaseException('enough')", "ended before it was done: BaseException: enough"),
    "exit": ("pytest.exit('enough')", "ended before it was done: Exit: enough"),
    "interrupt": ("raise KeyboardInterrupt", "ended before it was done: Ctrl-C (KeyboardInterrupt)"),
}


@pytest.mark.kills
@pytest.mark.skipif(sys.platform == "win32", reason="has no alarms")
@pytest.mark.parametrize("what", ENDS)
def test_an_item_that_is_ended_cancels_its_case_and_its_processes(project, what):
    code, text = ENDS[what]
    write_plugin(project, ALARM.replace("RAISE", code))
    project.write("targets.yaml", SLEEPS)
    write_cases(project, {"slow": "q"})
    started = time.monotonic()
    run = project.run("--agentv-out=own.jsonl", subprocess=what == "interrupt")
    assert time.monotonic() - started < 30
    assert run.exit_code != 0
    assert "Total eval cases: 1 (0 passed, 0 failed, 1 error)" in run.lines
    (result,) = [json.loads(line) for line in (project.path / "own.jsonl").read_text().splitlines()]
    assert (result["status"], result["error"]) == ("error", text)
    assert result["error_detail"]["kind"] == "cancelled"
    (pid,) = (project.path / "pids").read_text().split()
    assert not (project.path / "/proc" / pid).exists()
    assert run.internals == []


@pytest.mark.parametrize(
    "flags",
    [
        (),
        varied(("--agentv-workers=4",)),
        varied(("-n2",)),
        pytest.param(("-n2", "--agentv-workers=4"), marks=pytest.mark.slow),
    ],
)
def test_pytest_exit_ends_the_run_with_its_reason_and_its_code(project, flags):
    """The frame that raises it is hidden, and pytest needs one that is not."""
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_runtest_logreport(report):
            pytest.exit("enough", returncode=7)
        """,
    )
    write_cases(project, numbered(2))
    run = project.run(*flags, subprocess=True)
    assert run.exit_code == 7
    assert [line.strip("! ") for line in run.lines if "enough" in line] == ["_pytest.outcomes.Exit: enough"]
    assert not [line for line in run.lines if "Traceback" in line]


@pytest.mark.parametrize(
    "flags", [(), ("--agentv-workers=4",), varied(("-n2",)), varied(("-n2", "--agentv-workers=4"))]
)
def test_the_others_run_on_when_a_time_out_ends_an_item(project, flags):
    write_plugin(project, ALARM.replace("RAISE", "pytest.fail('Timeout >0.7s')"))
    prompts = {"slow": "sleep 61; say hello", **numbered(6)}
    write_cases(project, prompts)
    run = project.run(*flags)
    assert run.outcomes == {"passed": 6, "errors": 1}
    assert run.statuses == dict.fromkeys(numbered(6), "pass") | {"slow": "error"}
    assert sorted(read_calls(project.path).ended) == sorted(prompts)
    assert run.internals == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pytest_timeout") is None, reason="needs pytest-timeout")
def test_pytest_timeout_ends_the_case(project):
    write_cases(project, {**numbered(3), "slow": "sleep 61; say hello"})
    run = project.run("--timeout=2", "--agentv-workers=2", subprocess=True)
    assert run.outcomes == {"passed": 3, "errors": 1}
    assert details(run)["slow"]["kind"] == "cancelled"
    assert "Timeout" in run.by_id["slow"]["error"]


def test_a_resumed_run_runs_a_case_that_was_ended(project):
    write_plugin(project, ALARM.replace("RAISE", "pytest.fail('Timeout >0.7s')"))
    write_cases(project, {**numbered(3), "slow": "say_once mark hello; sleep 61"})
    assert project.run("--agentv-out=own.jsonl").outcomes == {"passed": 3, "errors": 1}
    write_cases(project, {**numbered(3), "slow": "say hello"})
    project.write("conftest.py", "")  # on a busy machine the alarm would end this run as well
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert run.outcomes == {"passed": 4}
    assert sorted(calls(project)) == sorted(["slow", "slow", *numbered(3)])


def test_a_time_out_of_a_python_test_cancels_what_it_evaluates(project):
    project.write(
        "conftest.py", ALARM.replace("RAISE", "pytest.fail('Timeout >0.7s')").replace('"slow"', '"test_slow"')
    )
    project.write(
        "test_a.py",
        "WORDS = [{'name': 'words', 'type': 'heuristic', 'hits': ['hello']}]\n"
        "def test_slow(agentv):\n    agentv.run('sleep 61', evaluators=WORDS)\n"
        "def test_next(agentv):\n    assert agentv.run('say hello', evaluators=WORDS)\n",
    )
    run = project.run("test_a.py")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert run.statuses == {"test_slow": "error", "test_next": "pass"}
    assert details(run)["test_slow"]["kind"] == "cancelled"
    assert len(read_calls(project.path).ended) == 2


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=4",)])
def test_what_breaks_while_a_case_is_prepared_ahead_is_its_own_error(project, flags):
    path = {"type": "file", "value": "/" + "x" * 300}  # longer than names of files may be
    broken = [{"role": "user", "content": [{"type": "text", "value": "say hello"}, path]}]
    write_cases(project, numbered(4), **{"case-2": {"input": broken}})
    run = project.run(*flags)
    assert run.statuses == dict.fromkeys(numbered(4), "pass") | {"case-2": "error"}
    assert sorted(calls(project)) == ["case-0", "case-1", "case-3"]
    assert run.outcomes == {"passed": 3, "errors": 1}
    assert run.internals == []


def test_what_a_thread_evaluates_is_cancelled_when_its_test_ends(project):
    project.write(
        "test_a.py",
        """
        import threading, time

        WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]

        def evaluate(agentv):
            try:
                agentv.run("say_once mark hello; sleep 61", evaluators=WORDS)
            except Exception:
                pass

        def test_that_waits_for_nothing(agentv, request):
            threading.Thread(target=evaluate, args=(agentv,)).start()
            while not (request.path.parent / "calls.jsonl").exists():
                time.sleep(0.02)
        """,
    )
    started = time.monotonic()
    run = project.run("test_a.py")
    assert time.monotonic() - started < 30
    assert run.outcomes == {"passed": 1}
    assert [result["error"] for result in run.results] == ["ended before it was done: its test has ended"]
    assert len(read_calls(project.path).ended) == 1
