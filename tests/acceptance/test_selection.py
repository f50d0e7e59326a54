"""pytest's own ways to choose what runs, with eval cases: names, paths, failures of last time, stopping early."""

import pytest
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST

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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-k", "good"], ["good-1", "good-10", "good-2"]),
        varied(["-k", "bad or good-2"], ["bad-1", "bad-2", "good-2"]),
        (["-k", "two and not bad"], ["good-2"]),
        varied(["-k", "one.eval.yaml and bad"], ["bad-1"]),
        (["--deselect", "two.eval.yaml"], ["good-1", "bad-1", "good-10"]),
        (["--deselect", "one.eval.yaml::bad-1"], ["good-1", "good-10", "bad-2", "good-2"]),
        (["--ignore", "one.eval.yaml"], ["bad-2", "good-2"]),
        varied(["--ignore-glob", "two*"], ["good-1", "bad-1", "good-10"]),
        varied(["-m", "slow"], []),
        (["-m", "not slow"], ["good-1", "bad-1", "good-10", "bad-2", "good-2"]),
    ],
    ids=" ".join,
)
def test_what_is_deselected_is_not_called(project, arguments, expected):
    run = project.run(*arguments)
    assert list(run.statuses) == expected
    assert calls(project) == expected
    assert sum(run.outcomes.values()) - run.outcomes.get("deselected", 0) == len(expected)


def test_a_case_that_does_not_exist_is_a_usage_error_and_nothing_runs(project):
    run = project.run("one.eval.yaml::good-1", "one.eval.yaml::gone")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: not found: " in run.text
    assert "one.eval.yaml::gone" in run.text
    assert calls(project) == []


@WITH_WORKERS_ON_REQUEST
def test_last_failed_runs_exactly_what_failed(project, mode):
    project.remembers = True
    project.run(mode=mode)
    again = project.run("--lf", mode=mode)
    assert set(again.statuses.items()) == {("bad-1", "fail"), ("bad-2", "fail")}
    project.write("targets.yaml", COUNTING_TARGETS.replace("hello world", "hello world nothing"))
    assert project.run("--lf").outcomes["passed"] == 2
    assert len(project.run("--lf").statuses) == 5, "nothing failed last time, so all run"


def test_last_failed_knows_errors_too(project, suite):
    project.remembers = True
    project.write("two.eval.yaml", suite(missing="hello", fine="hello").replace("content: Say", "value: Say", 1))
    assert project.run("two.eval.yaml").statuses == {"missing": "error", "fine": "pass"}
    assert list(project.run("--lf", "two.eval.yaml").statuses) == ["missing"]


def test_failed_first_runs_everything_failures_first(project):
    project.remembers = True
    project.run()
    assert list(project.run("--ff").statuses) == ["bad-1", "bad-2", "good-1", "good-10", "good-2"]


def test_new_first_runs_cases_of_new_files_first(project, suite):
    project.remembers = True
    project.run()
    project.write("zz.eval.yaml", suite(new="hello"))
    assert next(iter(project.run("--nf").statuses)) == "new"


def test_stepwise_stops_at_a_failure_and_goes_on_from_it(project):
    project.remembers = True
    assert list(project.run("--sw").statuses) == ["good-1", "bad-1"]
    assert list(project.run("--sw").statuses) == ["bad-1"]
    assert list(project.run("--sw", "--sw-skip").statuses) == ["bad-1", "good-10", "bad-2"]
    assert calls(project) == ["good-1", "bad-1", "bad-1", "bad-1", "good-10", "bad-2"]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("-x", ["good-1", "bad-1"]), ("--maxfail=2", ["good-1", "bad-1", "good-10", "bad-2"])],
)
def test_a_run_that_stops_early_calls_nothing_more_and_sums_up_what_ran(project, flag, expected):
    run = project.run(flag)
    assert list(run.statuses) == expected
    assert calls(project) == expected
    assert f"Total eval cases: {len(expected)} (" in run.text
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED


def test_a_run_that_stops_early_has_started_no_more_cases_than_fit_in_flight(project, suite):
    keywords = {f"case-{number}": "nothing" if number == 2 else "hello" for number in range(20)}
    project.write("one.eval.yaml", suite(**keywords))
    run = project.run("-x", "--agentv-workers=3", "one.eval.yaml")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert {"case-0", "case-1", "case-2"} <= set(calls(project))
    assert len(calls(project)) <= 3 + 3
    assert len(calls(project)) == len(set(calls(project)))


def test_an_error_stops_a_run_as_a_failure_does(project, suite):
    project.write("one.eval.yaml", suite(broken="hello", fine="hello").replace("content: Say", "value: Say", 1))
    run = project.run("-x")
    assert run.statuses == {"broken": "error"}
    assert calls(project) == []


@pytest.mark.parametrize("flag", ["--setup-only", "--setup-plan", "--collect-only"])
def test_a_run_that_only_looks_calls_nothing_and_writes_nothing(project, flag):
    run = project.run(flag)
    assert (run.exit_code, run.results, calls(project)) == (0, [], [])
    assert "EVALUATION SUMMARY" not in run.text
    assert not (project.path / ".agentv").exists()


def test_setup_show_runs_the_cases(project):
    run = project.run("--setup-show", "one.eval.yaml")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert "one.eval.yaml::bad-1" in run.text


def test_without_the_cache_plugin_everything_runs(project):
    project.remembers = True
    assert project.run("-p", "no:cacheprovider").outcomes == {"passed": 3, "failed": 2}
    assert not (project.path / ".pytest_cache").exists()


@pytest.mark.parametrize("import_mode", ["prepend", varied("append"), "importlib"])
def test_the_import_mode_does_not_matter(project, import_mode):
    project.write("conftest.py", "import pytest\n@pytest.fixture(autouse=True)\ndef nothing(): ...\n")
    assert project.run(f"--import-mode={import_mode}", subprocess=True).outcomes == {"passed": 3, "failed": 2}


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


@pytest.mark.scenario("Test ID filter")
@pytest.mark.parametrize("flag", ["--agentv-eval-id", "--agentv-test-id"])
def test_the_eval_id_flag_runs_only_cases_of_those_ids(project, flag):
    project.write("test_python.py", "def test_other(): assert False\n")
    run = project.run(f"{flag}=good-1", f"{flag}=bad-2")
    assert run.statuses == {"good-1": "pass", "bad-2": "fail"}
    assert run.outcomes == {"passed": 1, "failed": 1, "deselected": 4}
    assert calls(project) == ["good-1", "bad-2"]


def test_strict_markers_and_strict_config_change_nothing(project):
    assert project.run("--strict-markers", "--strict-config").outcomes == {"passed": 3, "failed": 2}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("odd.eval.yaml::b[1]",), ["b[1]"]),
        (("odd.eval.yaml::b(1)", "odd.eval.yaml::c::d"), ["b[1]", "c::d"]),
        (("odd.eval.yaml", "--deselect=odd.eval.yaml::b[1]", "--deselect", "odd.eval.yaml::c::d"), ["a"]),
    ],
)
def test_a_case_is_found_by_its_id_too(project, suite, arguments, expected):
    """pytest's names have no brackets, which the ids of cases may have."""
    project.write("odd.eval.yaml", suite(**{"a": "hello", "b[1]": "hello", "c::d": "hello"}))
    run = project.run(*arguments)
    assert sorted(result["eval_id"] for result in run.results) == expected


def test_a_case_is_deselected_by_its_id_in_the_options_of_a_project_too(project, suite, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "'--deselect=odd.eval.yaml::b[1]'")
    project.write("odd.eval.yaml", suite(**{"a": "hello", "b[1]": "hello"}))
    assert list(project.run("odd.eval.yaml").by_id) == ["a"]


def test_a_file_of_another_plugin_keeps_its_node_ids(project):
    project.write("evals/api.yaml", "test_name: x\n")
    text = project.run("evals/api.yaml::x[1]").text
    assert "evals/api.yaml::x\n" in text
    assert "x(1)" not in text
