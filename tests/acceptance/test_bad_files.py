"""Faults of eval files: each is told once, with path and line, and no other case pays for it."""

import os

import pytest
from busy import locked

GOOD = """
  - id: good
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
"""


@pytest.fixture
def project(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    return project


def section(run, title):
    """Return the lines below a heading of pytest's `___ title ___`, up to the next heading."""
    start = next(number for number, line in enumerate(run.lines) if line.strip("_ ") == title and "_ " in line)
    body = run.lines[start + 1 :]
    end = next(number for number, line in enumerate(body) if line.startswith(("___", "===")))
    return body[:end]


UNKNOWN_KEYS = """
descripton: Keys with a slip
evalcases:
  - id: good
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    thresold: 0.5
    evaluators: [{name: words, type: heuristic, hits: [hello], mises: [bye]}]
"""
FILE_KEY = "a.eval.yaml:1: descripton: unknown key (did you mean 'description'?)"
CASE_KEYS = [
    "a.eval.yaml:6: evalcases[0].thresold: unknown key (did you mean 'threshold'?)",
    "a.eval.yaml:7: evalcases[0].evaluators[0].mises: unknown key (did you mean 'misses'?)",
]


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "-n2"])
def test_a_broken_file_has_the_same_short_line_with_workers(project, mode):
    """Workers of xdist send the text alone, which began with the path once more and had no room for the fault."""
    project.write("evals/tab.eval.yaml", "evalcases:\n\t- id: a\n")
    project.write("evals/typo.eval.yaml", "evalcase: []\n")
    run = project.run("--continue-on-collection-errors", mode=mode)
    told = [line for line in run.lines if line.startswith("ERROR evals/")]
    assert [line[:70] for line in sorted(told)] == [
        "ERROR evals/tab.eval.yaml - line 2: a tab cannot indent YAML: use spac",
        "ERROR evals/typo.eval.yaml - line 1: instead of 'evalcase', did you me",
    ]
    texts = section(run, "ERROR collecting evals/tab.eval.yaml")
    assert len(texts) == 1, "told once, though each worker found it"
    assert texts[0].startswith("evals/tab.eval.yaml:2: invalid YAML")


@pytest.mark.scenario("Mutex error handling")
def test_results_that_cannot_be_written_end_the_run_with_a_clear_message_before_any_case(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD + GOOD.lstrip("\n").replace("good", "too"))
    project.write("taken", "a file where the folder should be\n")
    for mode in ((), ("-n2",)):
        run = project.run(f"--agentv-out={project.path}/taken/out.jsonl", mode=mode)
        assert (run.exit_code, run.outcomes, run.internals) == (pytest.ExitCode.USAGE_ERROR, {}, [])
        reason = f"taken/out.jsonl: cannot be written: {project.path}/taken is a file, not a folder"
        assert [line for line in run.lines if "cannot be written: " in line] == [
            f"ERROR: no results can be recorded: {reason}"
        ]


def test_a_results_file_whose_lock_is_never_released_does_not_hang_the_run(project, monkeypatch):
    monkeypatch.setattr("pytest_agentv.runtime.files._LOCK_SECONDS", 0.1)
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    with locked(project.path / ".out-1.jsonl.lock"):
        run = project.run()
    assert (run.exit_code, run.outcomes, run.internals) == (pytest.ExitCode.USAGE_ERROR, {}, [])
    reason = "out-1.jsonl: cannot be written: its lock .out-1.jsonl.lock could not be taken within 0.1 s"
    assert [line for line in run.lines if "cannot be written: " in line] == [
        f"ERROR: no results can be recorded: {reason}"
    ]


def test_every_fault_is_told_once_in_every_mode(project_in_all_modes):
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world, respons: x}]\n")
    project.write("a.eval.yaml", UNKNOWN_KEYS + "  - {id: bad, expected_outcome: o, input: 5}\n" + GOOD.lstrip("\n"))
    project.write("b.eval.yaml", "evalcases: 5\n")
    project.write(".agentv.yaml", "guideline_pattern: []\n")
    run = project.run("--continue-on-collection-errors", "--agentv-unknown-keys=warn")
    shown = [line.partition("AgentvWarning: ")[2] for line in run.lines if "AgentvWarning: " in line]
    assert sorted(shown) == sorted(
        [
            FILE_KEY,
            *CASE_KEYS,
            "a.eval.yaml:9: evalcases[2]: the id 'good' is used twice, first in line 3",
            "targets.yaml:1: targets[0].respons: unknown key (did you mean 'response'?)",
            ".agentv.yaml:1: guideline_pattern: unknown key (did you mean 'guideline_patterns'?)",
        ]
    )
    assert run.lines.count("b.eval.yaml:1: evalcases: expected a list of eval cases, got the number 5") == 1
    bad = "a.eval.yaml:8: evalcases[1].input: expected a list of messages, got the number 5 (put it into quotes)"
    assert run.lines.count(bad) == 1
    assert sorted((result["eval_id"], result["status"]) for result in run.results) == [
        ("bad", "error"),
        ("good", "pass"),
        ("good", "pass"),
    ]
    assert (run.exit_code, run.internals) == (1, [])
    assert (run.outcomes["passed"], run.outcomes["errors"]) == (2, 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_folder_of_results_that_is_read_only_costs_the_results_and_not_the_outcomes(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    folder = project.path / "results"
    folder.mkdir(mode=0o500)
    run = project.run(f"--agentv-out={folder}/out.jsonl")
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1}, [])
    message = "Results were lost: results/out.jsonl: cannot be written: Permission denied"
    assert [line for line in run.lines if "lost" in line] == [message]
