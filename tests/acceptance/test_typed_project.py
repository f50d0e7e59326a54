"""The project that type checkers accept does what its types say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typed_project

from .conftest import WITH_WORKERS_ON_REQUEST

CASES = {"parrot": "", "echo": ", execution: {target: echo}"}
SOURCES = Path(typed_project.__file__).parent


@WITH_WORKERS_ON_REQUEST
def test_a_project_with_types_runs(project_in_all_modes):
    project = project_in_all_modes
    project.write("conftest.py", (SOURCES / "own_conftest.py").read_text())
    tests = (SOURCES / "own_tests.py").read_text().replace("typed_project.own_conftest", "conftest")
    project.write("test_own.py", tests)
    project.write(
        "targets.yaml",
        "targets:\n  - {name: default, provider: parrot}\n  - {name: echo, provider: echo, word: Hello}\n",
    )
    project.write(
        "qa.eval.yaml",
        "evalcases:\n"
        + "".join(f"  - {{id: {name}, criteria: greets, input: Ada{more}}}\n" for name, more in CASES.items()),
    )
    run = project.run()
    assert run.outcomes == {"passed": 6}, run.text
    assert "its test went on, so the run fails: test_own.py::test_what_breaks" in run.text
    assert run.exit_code == 1
    assert (run.by_id["parrot"]["status"], run.by_id["parrot"]["finish_reason"]) == ("pass", "parrot")
    assert run.by_id["echo"]["candidate_answer"] == "Hello from echo: Ada"


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not on PATH")
def test_pyright_accepts_the_project():
    """In its mode `basic`. It does not take a class attribute for the property of a protocol, as `mypy` does."""
    command = ["pyright", "--pythonpath", sys.executable, str(SOURCES)]
    checked = subprocess.run(command, cwd=SOURCES.parent, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
