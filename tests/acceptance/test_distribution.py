"""Eval cases on pytest-xdist: each runs once, and what comes out is what comes out of one process."""

import re

import pytest
from thorough import varied

COUNTING_TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
  - name: two_at_a_time
    provider: cli
    workers: 2
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
"""
VARYING = {"timestamp", "run_id", "duration_ms"}
"""Keys, at any depth, of what two runs of the same cases do not share."""


@pytest.fixture
def project(project, suite):
    """Three files with 14 cases, of which four fail and one is broken; each call leaves a line in `calls.txt`."""
    project.write("targets.yaml", COUNTING_TARGETS)
    for name in ("one", "two"):
        keywords = {f"{name}-{number}": "nothing" if number % 3 == 2 else "hello" for number in range(6)}
        project.write(f"{name}.eval.yaml", suite(**keywords))
    project.write("three.eval.yaml", suite(broken="hello", last="hello").replace("content: Say", "value: Say", 1))
    return project


def calls(project, folder="."):
    path = project.path / folder / "calls.txt"
    return sorted(path.read_text().split()) if path.exists() else []


def expected_statuses():
    numbered = {
        f"{name}-{number}": "fail" if number % 3 == 2 else "pass" for name in ("one", "two") for number in range(6)
    }
    return numbered | {"broken": "error", "last": "pass"}


def expected_calls():
    return sorted(set(expected_statuses()) - {"broken"})


@pytest.mark.scenario("Error isolation in parallel mode")
@pytest.mark.scenario("Wait for all workers")
@pytest.mark.parametrize(
    ("dist", "workers"),
    [
        varied("load", ()),
        ("load", ("--agentv-workers=6",)),
        varied("loadfile", ("--agentv-workers=6",)),
        varied("loadscope", ("--agentv-workers=6",)),
        pytest.param("loadgroup", ("--agentv-workers=6",), marks=pytest.mark.slow),
        varied("worksteal", ("--agentv-workers=6",)),
        varied("worksteal", ("--agentv-target=two_at_a_time",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value) or "one",
)
def test_each_case_is_called_once_whatever_the_distribution(project, dist, workers):
    run = project.run("-n", "2", "--dist", dist, *workers)
    assert run.statuses == expected_statuses()
    assert calls(project) == expected_calls()
    assert run.outcomes == {"passed": 9, "failed": 4, "errors": 1}
    assert "Total eval cases: 14 (9 passed, 4 failed, 1 error)" in run.text
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_cases_that_one_worker_steals_from_another_are_called_once(project, suite):
    slow_first = COUNTING_TARGETS.replace(
        "echo hello world", "case {EVAL_ID} in slow*) sleep 0.2;; esac; echo hello", 1
    )
    project.write("targets.yaml", slow_first)
    for name in ("slow", "swift"):
        project.write(f"{name}/{name}.eval.yaml", suite(**{f"{name}-{number}": "hello" for number in range(12)}))
    run = project.run("-n", "2", "--dist", "worksteal", "--agentv-workers=4", "slow", "swift")
    assert run.outcomes == {"passed": 24}
    assert len(run.by_id) == 24
    assert [name for folder in ("slow", "swift") for name in calls(project, folder)] == sorted(run.by_id)


@pytest.mark.slow
def test_dist_each_runs_every_case_on_every_worker_and_sums_up_each_case_once(project):
    run = project.run("--dist", "each", "--tx", "2*popen")
    assert calls(project) == sorted(expected_calls() * 2)
    assert len(run.results) == 28
    assert run.outcomes == {"passed": 18, "failed": 8, "errors": 2}
    assert "Total eval cases: 14 (9 passed, 4 failed, 1 error)" in run.text


def comparable(value):
    """A value without what two runs do not share."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items() if key not in VARYING}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.scenario("Statistics match sequential execution")
@pytest.mark.parametrize("mode", [("-p", "no:xdist"), varied(("-n", "0"))], ids=["no_xdist", "n0"])
def test_workers_change_nothing_but_order_and_times(project, mode):
    alone = project.run(mode=mode)
    assert (alone.statuses, calls(project)) == (expected_statuses(), expected_calls())
    assert alone.outcomes == {"passed": 9, "failed": 4, "errors": 1}
    texts, summary = accounts(alone)
    assert sorted(texts) == ["ERROR: the case could not be set up: broken", "one-2", "one-5", "two-2", "two-5"]
    assert texts["one-2"].startswith("Score 0.000 is below the threshold 1.000 (the default)\n")
    assert len(summary) == 5
    together = project.run("-n", "2")
    assert comparable(together.by_id) == comparable(alone.by_id)
    assert len({result["run_id"] for result in together.results}) == 1
    assert figures(together) == figures(alone)
    assert accounts(together) == (texts, summary)


def figures(run):
    """The lines of the summary that hold no times."""
    start = next(index for index, line in enumerate(run.lines) if "EVALUATION SUMMARY" in line)
    end = next(index for index, line in enumerate(run.lines) if line.startswith("Results written"))
    return [line for line in run.lines[start:end] if not line.startswith("Time:")]


def accounts(run):
    """The texts of failures by item, with their times taken out, and the lines of the short summary."""
    text = re.sub(r"\[gw\d\] [^\n]*\n", "", run.text)
    text = re.sub(r"attempt, [\d.]+ m?s", "attempt, # ms", text)
    found = re.findall(r"\n_{5,} ((?:ERROR: [\w ]+: )?[\w-]+) _{5,}\n(.*?)(?=\n_{5,} |\n={5,} )", text, re.DOTALL)
    summary = sorted(line for line in run.lines if line.startswith(("FAILED ", "ERROR ")))
    return dict(found), summary
