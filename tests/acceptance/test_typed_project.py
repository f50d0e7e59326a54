"""The project that type checkers accept does what its types say."""

from pathlib import Path

import typed_project

SOURCES = Path(typed_project.__file__).parent


def test_a_project_with_types_runs(project_in_all_modes):
    project = project_in_all_modes
    project.write("conftest.py", (SOURCES / "own_conftest.py").read_text())
    tests = (SOURCES / "own_tests.py").read_text().replace("typed_project.own_conftest", "conftest")
    project.write("test_own.py", tests)
    project.write("targets.yaml", "targets: [{name: default, provider: parrot}]\n")
    project.write("qa.eval.yaml", "evalcases: [{id: a, criteria: greets, input: Ada}]\n")
    run = project.run()
    assert run.outcomes == {"passed": 4}, run.text
    assert run.exit_code == 0
    assert (run.by_id["a"]["status"], run.by_id["a"]["finish_reason"]) == ("pass", "a")
