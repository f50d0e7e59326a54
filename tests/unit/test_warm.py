"""A forked run is what a fresh one is, but for the time that it takes to start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux only")

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio"]
"""Without plugins that take longer to import than pytest itself, which fresh runs would do each time."""

TELL = """
import codecs, json, os, sys

def pytest_sessionstart(session):
    state = {
        "argv": sys.argv[1:], "folder": os.getcwd(), "parent": os.getppid(), "leads": os.getsid(0) == os.getpid(),
        "environment": dict(os.environ), "first": sys.path[:2], "warm": "warm.child" in sys.modules,
        "shown": open("/proc/self/cmdline").read().strip("\\0").split("\\0")[1:],
        "environ": sorted(filter(None, open("/proc/self/environ").read().split("\\0"))),
        "encoding": codecs.lookup(sys.stdout.encoding).name,
    }
    worker = getattr(session.config, "workerinput", {}).get("workerid", "main")
    with open(f"state-{worker}.json", "w") as file:
        json.dump(state, file)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(TELL)
    (tmp_path / "test_one.py").write_text("def test_one(): ...\ndef test_two(): assert not 1\n")
    return tmp_path


def state_of(folder: Path, name: str = "main") -> dict[str, object]:
    state: dict[str, object] = json.loads((folder / f"state-{name}.json").read_text())
    return state


def both(folder: Path, *arguments: str, **options: object) -> list[tuple[object, str, dict[str, object]]]:
    """Run pytest fresh and forked; return exit codes, what was printed without times, and what the run saw."""
    ends = []
    for run in (subprocess.run, warm.run):
        command = [*PYTEST, "-p", "no:cacheprovider", *arguments]
        done = run(command, cwd=folder, capture_output=True, text=True, **options)
        ends.append((done.returncode, done.stdout.partition("=== FAILURES")[0] + done.stderr, state_of(folder)))
    assert [end[2].pop("warm") for end in ends] == [False, True]
    return ends


def test_a_forked_run_sees_and_prints_what_a_fresh_one_does(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "/nowhere", "ONLY_HERE": "ä", "PYTHONIOENCODING": "latin-1"}
    fresh, forked = both(folder, "-v", env=environment)
    assert fresh[:2] == forked[:2]
    assert {key: value for key, value in fresh[2].items() if forked[2][key] != value} == {}
    assert fresh[0] == pytest.ExitCode.TESTS_FAILED
    assert forked[2]["parent"] == os.getpid()


def test_workers_are_forked_too_and_are_children_of_their_controller(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2"]
    assert warm.run(command, cwd=folder, capture_output=True).returncode == pytest.ExitCode.TESTS_FAILED
    states = [state_of(folder, name) for name in ("main", "gw0", "gw1")]
    assert [state["warm"] for state in states] == [True] * 3
    assert states[0]["parent"] == os.getpid()
    assert states[1]["parent"] == states[2]["parent"] != os.getpid()


def test_no_module_of_the_package_imports_an_optional_one() -> None:
    """A forked process has them all. pyarrow starts threads, which are not there after the fork: it would hang."""
    optional = {"litellm", "openai", "pyarrow", "rich", "rouge_score", "sacrebleu"}
    told = "import sys; print('pytest_agentv.cases.tables' in sys.modules, {!r} & set(sys.modules))"
    done = warm.run([sys.executable, "-c", told.format(optional)], capture_output=True, text=True, timeout=30)
    assert done.stdout == "True set()\n"
