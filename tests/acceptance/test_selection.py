"""pytest's own ways to choose what runs, with eval cases: names, paths, failures of last time, stopping early."""

import pytest
from thorough import varied

COUNTING_TARGETS = """
targets:
  - name: default
    provider: python
    callable: agent.py:answer
    arguments: {said: hello world}
"""
COUNTING_AGENT = """
def answer(prompt, request, said):
    with open("calls.txt", "a") as file:
        print(request.eval_id, file=file)
    return said
"""

FILES_GIVEN_TWICE_RUN_ONCE = pytest.mark.skipif(
    pytest.version_tuple < (8, 4), reason="before pytest 8.4, tests of a file that is given twice run twice"
)


@pytest.fixture
def project(project, suite):
    """Two files of which each has a case that passes and one that fails; each call leaves a line in `calls.txt`."""
    project.write("targets.yaml", COUNTING_TARGETS)
    project.write("agent.py", COUNTING_AGENT)
    project.write("one.eval.yaml", suite(**{"good-1": "hello", "bad-1": "nothing", "good-10": "world"}))
    project.write("two.eval.yaml", suite(**{"bad-2": "nothing", "good-2": "hello"}))
    return project


def calls(project):
    path = project.path / "calls.txt"
    return path.read_text().split() if path.exists() else []


def test_all_cases_run_once_in_the_order_of_files_and_lines(project):
    run = project.run()
    assert list(run.statuses.items()) == [
        ("good-1", "pass"),
        ("bad-1", "fail"),
        ("good-10", "pass"),
        ("bad-2", "fail"),
        ("good-2", "pass"),
    ]
    assert calls(project) == list(run.statuses)
    assert run.outcomes == {"passed": 3, "failed": 2}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.scenario("Positional test file argument")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["two.eval.yaml"], ["bad-2", "good-2"]),
        (["two.eval.yaml", "one.eval.yaml"], ["bad-2", "good-2", "good-1", "bad-1", "good-10"]),
        pytest.param(["two.eval.yaml"] * 2, ["bad-2", "good-2"], marks=FILES_GIVEN_TWICE_RUN_ONCE),
        varied(["one.eval.yaml::bad-1"], ["bad-1"]),
        (["one.eval.yaml::good-1"], ["good-1"]),
        (["one.eval.yaml::good-10", "two.eval.yaml::good-2"], ["good-10", "good-2"]),
        (["."], ["good-1", "bad-1", "good-10", "bad-2", "good-2"]),
    ],
    ids=" ".join,
)
def test_paths_and_node_ids_choose_cases(project, arguments, expected):
    run = project.run(*arguments)
    assert list(run.statuses) == expected
    assert calls(project) == expected


def test_stepwise_stops_at_a_failure_and_goes_on_from_it(project):
    project.remembers = True
    assert list(project.run("--sw").statuses) == ["good-1", "bad-1"]
    assert list(project.run("--sw").statuses) == ["bad-1"]
    assert list(project.run("--sw", "--sw-skip").statuses) == ["bad-1", "good-10", "bad-2"]
    assert calls(project) == ["good-1", "bad-1", "bad-1", "bad-1", "good-10", "bad-2"]


def test_a_run_that_stops_early_has_started_no_more_cases_than_fit_in_flight(project, suite):
    keywords = {f"case-{number}": "nothing" if number == 2 else "hello" for number in range(20)}
    project.write("one.eval.yaml", suite(**keywords))
    run = project.run("-x", "--agentv-workers=3", "one.eval.yaml")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert {"case-0", "case-1", "case-2"} <= set(calls(project))
    assert len(calls(project)) <= 3 + 3
    assert len(calls(project)) == len(set(calls(project)))


@pytest.mark.parametrize("flag", ["--setup-only", "--setup-plan", "--collect-only"])
def test_a_run_that_only_looks_calls_nothing_and_writes_nothing(project, flag):
    run = project.run(flag)
    assert (run.exit_code, run.results, calls(project)) == (0, [], [])
    assert "EVALUATION SUMMARY" not in run.text
    assert not (project.path / ".agentv").exists()


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


def test_keep_duplicates_runs_a_file_as_often_as_it_is_named(project):
    run = project.run("--keep-duplicates", "two.eval.yaml", "two.eval.yaml")
    assert [result["eval_id"] for result in run.results] == ["bad-2", "good-2", "bad-2", "good-2"]


def test_a_case_is_found_by_the_name_of_its_item(project, suite):
    """pytest's names have no brackets, which the ids of cases may have."""
    project.write("odd.eval.yaml", suite(**{"a": "hello", "b[1]": "hello", "c::d": "hello"}))
    run = project.run("odd.eval.yaml::b(1)", "odd.eval.yaml::c:d")
    assert sorted(result["eval_id"] for result in run.results) == ["b[1]", "c::d"]
