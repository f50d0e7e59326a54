"""Going on with a run: what is finished is carried over, the rest is run, and the summary is that of one run."""

import json
import os

import pytest
from scripted_agent import figures, numbered, read_calls, write_agent, write_cases

SUITE = {**numbered(6), "case-1": "say nothing", "case-2": "fail out of tokens"}
"""Six cases, of which one fails and one is an error."""


@pytest.fixture
def project(project):
    write_agent(project)
    write_cases(project, SUITE)
    return project


def called(project):
    """Return the ids that were called since they were last asked for."""
    started = read_calls(project.path).started
    (project.path / "calls.jsonl").unlink(missing_ok=True)
    return sorted(started)


def results(project, name="own.jsonl"):
    return [json.loads(line) for line in (project.path / name).read_text().splitlines()]


def run(project, *flags, out="own.jsonl"):
    return project.run(*(() if out is None else (f"--agentv-out={out}",)), *flags)


def cut_to(project, *eval_ids, name="own.jsonl"):
    """Leave only the lines of some cases in a results file, as if the run had been killed after them."""
    path = project.path / name
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["eval_id"] in eval_ids]
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("mode", [(), ("-n2",), ("--agentv-workers=4",)], ids=["plain", "n2", "workers"])
def test_a_resumed_run_calls_the_rest_and_ends_as_if_it_had_not_been_interrupted(project, mode):
    whole = run(project, *mode)
    cut_to(project, "case-0", "case-1", "case-4")
    with (project.path / "own.jsonl").open("a") as file:
        file.write('{"timestamp": "2026-11-2')  # what a killed writer leaves
    called(project)
    resumed = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-2", "case-3", "case-5"]
    assert resumed.outcomes == whole.outcomes == {"passed": 4, "failed": 1, "errors": 1}
    assert [line for line in figures(resumed.lines) if "it was skipped" not in line] == figures(whole.lines)
    assert len({result["run_id"] for result in complete(project)}) == 1


def complete(project):
    """Return the results that are whole."""
    lines = (project.path / "own.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def test_a_run_that_is_resumed_when_it_was_complete_calls_nothing_and_writes_nothing(project):
    whole = run(project)
    written = (project.path / "own.jsonl").read_bytes()
    called(project)
    resumed = run(project, "--agentv-resume=own.jsonl")
    assert called(project) == []
    assert (project.path / "own.jsonl").read_bytes() == written
    assert resumed.outcomes == whole.outcomes
    assert figures(resumed.lines) == figures(whole.lines)
    assert "Score 0.000 is below the threshold" in resumed.text
    assert "out of tokens" in resumed.text


@pytest.mark.parametrize("flag", ["--agentv-resume", "--agentv-resume=.agentv/results"])
def test_without_a_file_the_newest_run_of_the_folder_is_resumed(project, pytester, flag):
    for number in (1, 2):
        pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-k", f"case-{number + 2}")
    old, new = sorted((project.path / ".agentv/results").glob("eval_*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    os.utime(old, ns=(0, 0))
    called(project)
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest", flag)
    assert called(project) == ["case-0", "case-1", "case-2", "case-3", "case-5"]
    finished.assert_outcomes(passed=4, failed=1, errors=1)
    assert len(old.read_text().splitlines()) == 1
    assert len(new.read_text().splitlines()) == 6


def test_the_results_of_a_resumed_run_can_go_to_another_file_which_is_then_complete(project):
    run(project)
    cut_to(project, "case-0", "case-1")
    before = (project.path / "own.jsonl").read_bytes()
    called(project)
    resumed = run(project, "--agentv-resume=own.jsonl", out="other.jsonl")
    assert called(project) == ["case-2", "case-3", "case-4", "case-5"]
    assert (project.path / "own.jsonl").read_bytes() == before
    written = results(project, "other.jsonl")
    assert [result["eval_id"] for result in written] == list(SUITE)
    assert len({result["run_id"] for result in written} | {results(project)[0]["run_id"]}) == 2
    assert "Total eval cases: 6 (4 passed, 1 failed, 1 error)" in resumed.lines


def test_only_the_last_run_of_a_file_is_resumed(project):
    run(project)
    run(project, "-k", "case-3")
    called(project)
    run(project, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-0", "case-1", "case-2", "case-4", "case-5"]


def test_a_yaml_file_is_resumed_as_well(project):
    flags = ("--agentv-output-format=yaml",)
    run(project, *flags, "-k", "case-3 or case-4", out="own.yaml")
    called(project)
    resumed = run(project, *flags, "--agentv-resume=own.yaml", out="own.yaml")
    assert called(project) == ["case-0", "case-1", "case-2", "case-5"]
    assert "Total eval cases: 6 (4 passed, 1 failed, 1 error)" in resumed.lines


def test_a_case_whose_text_or_files_changed_is_another_case(project):
    part = [{"type": "text", "value": "say hello"}, {"type": "file", "value": "notes.md"}]
    attached = {"input": [{"role": "user", "content": part}]}
    project.write("notes.md", "one")
    cases = {"same": "say hello", "edited": "say hello", "attached": "say hello"}
    write_cases(project, cases, "b.eval.yaml", attached=attached)
    run(project, "b.eval.yaml")
    project.write("notes.md", "two")
    write_cases(project, {**cases, "edited": "say hello again"}, "b.eval.yaml", attached=attached)
    called(project)
    resumed = run(project, "b.eval.yaml", "--agentv-resume=own.jsonl")
    assert called(project) == ["attached", "edited"]
    assert sum(resumed.outcomes.values()) == 3
    assert len(results(project)) == 5


def test_another_target_is_called_anew(project):
    write_agent(
        project,
        "targets: [{name: default, provider: python, callable: agent.py:answer},"
        " {name: other, provider: python, callable: agent.py:answer}]\n",
    )
    run(project)
    called(project)
    run(project, "--agentv-resume=own.jsonl", "--agentv-target=other")
    assert called(project) == sorted(SUITE)
    run(project, "--agentv-resume=own.jsonl", "--agentv-target=other")
    assert called(project) == []


def test_another_threshold_judges_the_carried_scores_anew_without_a_call(project):
    run(project)
    called(project)
    resumed = run(project, "--agentv-resume=own.jsonl", "--agentv-threshold=0")
    assert called(project) == []
    assert resumed.outcomes == {"passed": 5, "errors": 1}
    assert "Total eval cases: 6 (5 passed, 0 failed, 1 error)" in resumed.lines
    last = {result["eval_id"]: result for result in results(project)}
    assert (last["case-1"]["status"], last["case-1"]["threshold"]) == ("pass", 0)


@pytest.mark.parametrize("text", ["threshold: 0\n", "execution: {threshold: 0}\n"])
def test_another_threshold_of_the_file_is_no_reason_to_call_again(project, text):
    run(project)
    called(project)
    path = project.path / "a.eval.yaml"
    path.write_text(text + path.read_text())
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 5, "errors": 1}
    assert called(project) == []


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_errors_are_carried_over_unless_they_are_to_be_retried(project, mode):
    write_cases(project, {**SUITE, "case-2": "fail_once mark; say hello"})
    assert run(project).outcomes == {"passed": 4, "failed": 1, "errors": 1}
    cut_to(project, "case-0", "case-1", "case-2")
    called(project)
    carried = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-3", "case-4", "case-5"]
    assert carried.outcomes == {"passed": 4, "failed": 1, "errors": 1}
    retried = run(project, *mode, "--agentv-resume=own.jsonl", "--agentv-retry-errors")
    assert called(project) == ["case-2"]
    assert retried.outcomes == {"passed": 5, "failed": 1}
    assert "Total eval cases: 6 (5 passed, 1 failed, 0 errors)" in retried.lines


@pytest.mark.parametrize("mode", [[], ["-n2"]], ids=["plain", "n2"])
def test_retrying_errors_alone_runs_nothing_else_and_completes_the_summary(project, pytester, mode):
    write_cases(project, {**SUITE, "case-2": "fail_once mark; say hello"})
    project.write("test_python.py", "def test_one(): ...\n")
    pytester.runpytest_inprocess("-p", "no:hypothesispytest").assert_outcomes(passed=5, failed=1, errors=1)
    called(project)
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "--agentv-retry-errors", *mode)
    assert called(project) == ["case-2"]
    outcomes = finished.parseoutcomes()
    assert outcomes["passed"] == 1
    assert mode or outcomes["deselected"] == 6
    assert "Total eval cases: 6 (5 passed, 1 failed, 0 errors)" in finished.outlines


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--agentv-resume=missing.jsonl", "--agentv-resume: missing.jsonl holds no results file to go on from"),
        ("--agentv-resume", "--agentv-resume: .agentv/results holds no results file to go on from"),
        ("--agentv-retry-errors", "--agentv-retry-errors: .agentv/results holds no results file to go on from"),
        (
            "--agentv-resume=foreign.jsonl",
            "--agentv-resume: foreign.jsonl holds no results of a run of pytest-agentv",
        ),
    ],
    ids=["missing", "no folder", "retry", "foreign"],
)
@pytest.mark.parametrize("mode", [[], ["-n2"]], ids=["plain", "n2"])
def test_a_run_that_cannot_be_resumed_is_one_clear_error_and_nothing_is_called(project, flag, message, mode):
    project.write("foreign.jsonl", '{"eval_id": "a", "score": 1}\n')
    broken = run(project, flag, *mode)
    assert broken.exit_code == (pytest.ExitCode.USAGE_ERROR if mode else pytest.ExitCode.INTERRUPTED)
    assert [line.removeprefix("ERROR: ") for line in broken.lines if "holds no results" in line] == [message]
    assert (called(project), broken.internals) == ([], [])
