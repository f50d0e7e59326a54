"""pytest's own ways to choose what runs, with eval cases: names, paths, failures of last time, stopping early."""

import pytest


@pytest.fixture
def project(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    return project


def test_a_run_from_a_folder_below_the_root_finds_the_same_cases(project, suite, monkeypatch):
    project.remembers = True
    project.write("pytest.ini", "[pytest]\n")
    project.write("evals/three.eval.yaml", suite(three="hello", four="nothing"))
    project.write("evals/deep/conftest.py", "")
    monkeypatch.chdir(project.path / "evals" / "deep")
    run = project.run("../three.eval.yaml")
    assert [(result["eval_file"], result["node_id"]) for result in run.results] == [
        ("evals/three.eval.yaml", "evals/three.eval.yaml::three"),
        ("evals/three.eval.yaml", "evals/three.eval.yaml::four"),
    ]
    assert list(project.run("--lf", "..").statuses) == ["four"]


def test_pyargs_takes_eval_files_of_a_package(project, suite, monkeypatch):
    project.write("package/__init__.py", "")
    project.write("package/qa.eval.yaml", suite(inside="hello"))
    monkeypatch.syspath_prepend(project.path)
    assert list(project.run("--pyargs", "package").statuses) == ["inside"]


def test_workers_know_what_the_command_line_names(project, suite):
    """With `agentv_run = asked`, folders ask for the evals in them, unless these have tests of another kind as well."""
    project.write("pytest.ini", "[pytest]\nagentv_run = asked\n")
    project.write("evals/a.yaml", suite(**{"a-1": "hello", "a-2": "hello"}))
    project.write("tests/c.eval.yaml", suite(**{"c-1": "hello", "c-2": "hello"}))
    project.write("tests/test_plain.py", "def test_plain(): pass\n")
    run = project.run("-n2", "evals", "tests")
    assert set(run.by_id) == {"a-1", "a-2"}
    assert run.outcomes == {"passed": 3, "skipped": 2}
