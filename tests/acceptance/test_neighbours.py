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


def test_the_process_is_left_as_it_was_and_python_tests_see_nothing_of_the_cases(project):
    project.write(".env", "FROM_DOTENV=1\nHOME=/elsewhere\n")
    project.write(
        "test_python.py",
        """
        import asyncio, logging, os, signal

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

        def test_logs(caplog, capsys):
            print("printed")
            logging.getLogger("mine").warning("logged")
            assert caplog.messages == ["logged"]
            assert capsys.readouterr().out == "printed\\n"
        """,
    )
    before = (environment_of_a_user(), Path.cwd())
    others = set(threading.enumerate())  # a blocked function of another test may keep its thread for a while
    run = project.run("--agentv-workers=2", "--agentv-verbose", "-m", "not slow")
    assert run.outcomes == {"passed": 5, "failed": 1}
    assert (environment_of_a_user(), Path.cwd()) == before
    new = [thread for thread in threading.enumerate() if thread not in others]
    assert still_alive(thread for thread in new if "agentv" in thread.name) == []


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


def test_a_mark_timeout_is_refused_because_it_says_nothing_to_pytest_timeout(project):
    """pytest-timeout ended the run with INTERNALERROR."""
    project.write("qa.eval.yaml", "evalcases: [{id: a, marks: [timeout], input: hi, assert: [contains: hello]}]\n")
    assert project.run("qa.eval.yaml").by_id["a"]["error"] == (
        "qa.eval.yaml:1: evalcases[0].marks: 'timeout' cannot mark a case: timeout says nothing without seconds; "
        "write timeout_seconds: 60 at the target, or use --timeout=60"
    )


STATE = """
import json, logging, os, signal, sys, threading, warnings

def pytest_unconfigure(config):
    finders = [each for each in sys.meta_path if getattr(each, "__module__", "") != "pytest_agentv"]  # finds ours only
    state = {
        "environment": {name: os.environ[name] for name in sorted(os.environ) if not name.startswith("PYTEST_")},
        "threads": [thread.name for thread in threading.enumerate()],
        "handlers": [repr(handler) for handler in logging.getLogger().handlers],
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "path": sys.path,
        "hooks": [str(sys.excepthook), str(threading.excepthook), repr(finders)],
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
