"""Eval cases beside other people's tests and settings: nobody is disturbed."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from busy import still_alive
from thorough import varied
from warm import environment_of_a_user

TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
"""


@pytest.fixture
def project(project, suite):
    project.write("targets.yaml", TARGETS)
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    project.write("test_python.py", "def test_one(): ...\n")
    return project


def test_python_tests_and_eval_cases_share_a_run(project):
    run = project.run("-v")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert [line.split(" ")[0] for line in run.lines if "::" in line and "%]" in line] == [
        "qa.eval.yaml::a",
        "qa.eval.yaml::b",
        "test_python.py::test_one",
    ]
    assert "Total eval cases: 2 (1 passed, 1 failed, 0 errors)" in run.text


def test_switched_off_the_plugin_leaves_no_trace(project, pytester):
    run = pytester.runpytest("-p", "no:agentv", "--collect-only", "-q")
    assert "test_python.py::test_one" in run.outlines
    assert "eval.yaml" not in run.stdout.str()
    assert "agentv" not in pytester.runpytest("-p", "no:agentv", "--help").stdout.str().replace("no:agentv", "")
    unknown = pytester.runpytest("-p", "no:agentv", "--agentv-target=x")
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    assert "unrecognized arguments: --agentv-target=x" in unknown.stderr.str()
    named = pytester.runpytest("-p", "no:agentv", "qa.eval.yaml")
    assert named.ret == pytest.ExitCode.USAGE_ERROR


def test_a_run_without_evals_says_nothing_of_them_and_writes_nothing(project, pytester):
    run = pytester.runpytest("test_python.py")
    assert run.parseoutcomes() == {"passed": 1}
    assert "EVAL" not in run.stdout.str()
    assert not (project.path / ".agentv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agentv_threshold = 1.5", "agentv_threshold: threshold 1.5 is out of range: expected a number from 0 to 1"),
        varied(
            "agentv_output_format = xml",
            "agentv_output_format: unknown output format 'xml': expected one of jsonl, yaml",
        ),
        (
            "agentv_timeout = soon",
            "agentv_timeout: 'soon' is not a number: expected 0 or more seconds (0 switches the timeout off)",
        ),
        varied("agentv_strict = maybe", "agentv_strict: 'maybe' is neither true nor false"),
        varied("agentv_max_retries = -1", "agentv_max_retries: -1 retries are out of range: expected 0 or more"),
    ],
)
def test_a_bad_ini_value_is_the_error_of_eval_files_only(project, line, message):
    project.write("pytest.ini", f"[pytest]\n{line}\n")
    run = project.run("--continue-on-collection-errors")
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert f"pytest.ini: {message}" in run.lines
    assert "pytest_agentv/" not in run.text
    assert project.run("test_python.py").outcomes == {"passed": 1}
    assert project.run().exit_code == pytest.ExitCode.INTERRUPTED


def test_ini_keys_are_known_under_strict_config(project):
    project.write("pytest.ini", "[pytest]\nagentv_threshold = 0\nagentv_files = *.eval.yaml\n")
    assert project.run("--strict-config").outcomes == {"passed": 3}


def test_the_process_is_left_as_it_was(project):
    project.write(".env", "FROM_DOTENV=1\nHOME=/elsewhere\n")
    before = (environment_of_a_user(), Path.cwd())
    others = set(threading.enumerate())  # a blocked function of another test may keep its thread for a while
    assert project.run("--agentv-workers=2").outcomes == {"passed": 2, "failed": 1}
    assert (environment_of_a_user(), Path.cwd()) == before
    new = [thread for thread in threading.enumerate() if thread not in others]
    assert still_alive(thread for thread in new if "agentv" in thread.name) == []


def test_a_python_test_after_eval_cases_sees_no_thread_loop_or_variable_of_theirs(project):
    project.write(".env", "FROM_DOTENV=1\n")
    project.write(
        "test_python.py",
        """
        import asyncio, os, signal

        def test_environment():
            assert "FROM_DOTENV" not in os.environ

        def test_a_loop_of_its_own_runs():
            async def answer():
                return 42
            assert asyncio.run(answer()) == 42

        def test_signals_are_pythons():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
            assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        """,
    )
    assert project.run("qa.eval.yaml::a", "test_python.py").outcomes == {"passed": 4}


def test_logs_and_prints_of_python_tests_are_captured_as_ever(project):
    project.write(
        "test_python.py",
        """
        import logging

        def test_logs(caplog, capsys):
            print("printed")
            logging.getLogger("mine").warning("logged")
            assert caplog.messages == ["logged"]
            assert capsys.readouterr().out == "printed\\n"
        """,
    )
    assert project.run("qa.eval.yaml::a", "test_python.py", "--agentv-verbose").outcomes == {"passed": 2}


def test_pytests_lists_of_flags_marks_and_plugins_work(project):
    assert "--agentv-target=NAME" in project.run("--help").text
    for flag in ("--markers", "--fixtures", "--version"):
        assert project.run(flag).exit_code == 0


def test_what_is_ours_in_pytests_lists_says_what_it_is(project):
    text = project.run("--help").text
    group = text[text.index("\nevaluations (pytest-agentv):") :].partition("\n\n")[0]
    flags = [line.split()[0].partition("=")[0] for line in group.splitlines() if line.startswith("  --")]
    assert len(flags) > 15
    assert all(flag.startswith("--agentv-") for flag in flags)
    assert all(line.startswith(("  --agentv-", "   ")) for line in group.splitlines()[2:])
    fixtures = project.run("--fixtures", "qa.eval.yaml").text
    ours = fixtures.partition("fixtures defined from pytest_agentv")[2].partition("-- fixtures defined")[0]
    assert "no docstring available" not in ours
    markers = [line for line in project.run("--markers").lines if "agentv" in line and line.startswith("@")]
    assert all(re.match(r"@pytest\.mark\.agentv\w*(\(.*\))?: \S", line) for line in markers)


STATE = """
import json, logging, os, signal, sys, threading, warnings

def pytest_unconfigure(config):
    state = {
        "environment": {name: os.environ[name] for name in sorted(os.environ) if not name.startswith("PYTEST_")},
        "threads": [thread.name for thread in threading.enumerate()],
        "handlers": [repr(handler) for handler in logging.getLogger().handlers],
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "path": sys.path,
        "hooks": [str(sys.excepthook), str(threading.excepthook), repr(sys.meta_path)],
        "filters": repr(warnings.filters),
        "folder": os.getcwd(),
        "files": sorted(os.listdir()),
    }
    with open(os.environ["STATE"], "w") as file:
        json.dump(state, file)
"""


QUICKLY = ("-p", "no:hypothesispytest", "-p", "no:anyio")
"""Each process would import hypothesis, which takes longer than it does."""


@pytest.mark.parametrize("flags", [QUICKLY, varied((), id="all plugins"), varied(("-n", "2", *QUICKLY), id="n2")])
def test_a_run_without_evals_prints_writes_and_changes_what_it_does_without_the_plugin(
    project, flags, tmp_path_factory
):
    project.write("conftest.py", STATE)
    project.write(".env", "FROM_DOTENV=1\n")

    def run(*plugin):
        state = tmp_path_factory.mktemp("state") / "state.json"
        finished = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *flags, "test_python.py"],
            cwd=project.path,
            env=environment_of_a_user() | {"STATE": str(state)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        output = re.sub(r"\nplugins: .*| in \d+\.\d+s =+|=", "", finished.stdout)
        seen = json.loads(state.read_text().replace(str(state), "").replace(str(state.parent), ""))
        return finished.returncode, output, finished.stderr, {name: without_addresses(seen[name]) for name in seen}

    without, with_plugin = run("-p", "no:agentv"), run()
    assert with_plugin == without
    assert "FROM_DOTENV" not in with_plugin[3]["environment"]


def without_addresses(value):
    return re.sub(r"0x[0-9a-f]+", "", json.dumps(value))
