"""Where evals cannot be run (Windows, gevent): the plugin costs others nothing, and one sentence says so."""

import pytest

from .conftest import SLOW_WITH_WORKERS, WITH_WORKERS_ON_REQUEST

NEEDS_UNIX = "pytest-agentv runs evals on Linux and macOS only; here, leave them out (--ignore, -p no:agentv)"
PATCHED_BY_GEVENT = "gevent has patched this process (monkey.patch_all), and evals need threads and an event loop"
WITHOUT_LOCKS = """
import os, sys

sys.modules["fcntl"] = None
del os.register_at_fork
"""
PLUGIN = ("-p", "without_locks")


@pytest.fixture
def project(project, suite, monkeypatch):
    project.write("without_locks.py", WITHOUT_LOCKS)
    project.write("test_python.py", "def test_one(): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(project.path))
    return project


@WITH_WORKERS_ON_REQUEST
def test_python_tests_run(project, mode):
    run = project.run(*PLUGIN, *mode, subprocess=True)
    assert run.outcomes == {"passed": 1}
    assert run.internals == []


@SLOW_WITH_WORKERS
def test_eval_files_are_one_error_that_says_why(project, suite, mode):
    for name in ("evals/a.yaml", "evals/b.yaml"):
        project.write(name, suite(a="hello"))
    run = project.run(*PLUGIN, *mode, subprocess=True)
    assert run.exit_code != 0
    assert NEEDS_UNIX in run.text
    assert run.outcomes["errors"] == 1
    assert run.results == []
    assert run.internals == []
    assert project.run(*PLUGIN, *mode, "--ignore=evals", subprocess=True).outcomes == {"passed": 1}


def test_a_test_that_evaluates_is_an_error_that_says_why(project):
    project.write("test_evals.py", "def test_two(agentv): ...\n")
    run = project.run(*PLUGIN, subprocess=True)
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert NEEDS_UNIX in run.text
    assert run.internals == []


@WITH_WORKERS_ON_REQUEST
def test_evals_in_a_process_that_gevent_has_patched_are_one_error_that_says_why(project, suite, mode):
    """A stand-in says what gevent says after `monkey.patch_all()`."""
    project.write("gevent/__init__.py", "")
    project.write("gevent/monkey.py", "def is_module_patched(name):\n    return name == 'threading'\n")
    project.write("conftest.py", "from gevent import monkey\n")
    project.write("evals/a.yaml", suite(a="hello"))
    run = project.run(*mode, subprocess=True)
    assert run.exit_code != 0
    assert PATCHED_BY_GEVENT in run.text.replace("\n", " ")
    assert run.results == []
    assert project.run(*mode, "--ignore=evals", subprocess=True).outcomes == {"passed": 1}
