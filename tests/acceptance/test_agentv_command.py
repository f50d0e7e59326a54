"""The `agentv` command as users call it: from a first project to the comparison of two runs."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import warm
from thorough import variation

from .conftest import WITH_WORKERS_ON_REQUEST

AGENTV = (str(Path(sysconfig.get_path("scripts"), "agentv")),)
TARGETS = """\
targets:
  - {name: default, provider: mock, response: hello world}
  - {name: other, provider: mock, response: goodbye}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


@pytest.fixture
def run(tmp_path):
    """Run a command line in the project, and return its exit code with what it printed."""

    def call(*command: str, cwd: Path = tmp_path, fresh: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {**warm.environment_of_a_user(), "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio"}
        start = subprocess.run if fresh else warm.run
        return start(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    return call


def records(path: Path) -> list[dict[str, object]]:
    """Return the lines of a results file without what differs from run to run."""
    lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    changing = ("timestamp", "run_id", "duration_ms", "trace_summary", "execution_metrics")
    return [_without(line, changing) for line in lines]


def _without(value: Any, keys: Collection[str]) -> Any:
    """Return plain data without some keys, at any depth."""
    if isinstance(value, dict):
        return {key: _without(item, keys) for key, item in value.items() if key not in keys}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def write_evals(folder: Path, suite) -> None:
    (folder / "evals").mkdir()
    (folder / "evals/a.yaml").write_text(suite(one="hello", two="goodbye", three="nothing"))
    (folder / "b.eval.yaml").write_text(suite(four="hello"))


@WITH_WORKERS_ON_REQUEST
def test_agentv_eval_gives_the_results_of_the_pytest_call_it_stands_for(folder, run, suite, mode):
    write_evals(folder, suite)
    flags = ("--target", "other", "--threshold=0.5", "--eval-id", "two", "--eval-id=three")
    prefixed = [flag.replace("--", "--agentv-") for flag in flags]
    ours = run(*AGENTV, "eval", "evals", "b.eval.yaml", *flags, "--out=ours.jsonl", *mode)
    pytests = run(
        *(sys.executable, "-m", "pytest", "b.eval.yaml", "evals/a.yaml"),
        *(*prefixed, "--agentv-out=pytests.jsonl", *mode),
    )
    assert (ours.returncode, pytests.returncode) == (1, 1), ours.stdout + pytests.stdout
    ordered = [sorted(records(folder / name), key=str) for name in ("ours.jsonl", "pytests.jsonl")]
    assert ordered[0] == ordered[1]
    assert [record["status"] for record in records(folder / "ours.jsonl")].count("pass") == 1
    assert len(ordered[0]) == 2


def test_only_evals_are_run_and_flags_of_pytest_work(folder, run, suite):
    write_evals(folder, suite)
    (folder / "evals/test_code.py").write_text("def test_code(): assert False\n")
    result = run(*AGENTV, "eval", ".", "-k", "one or four", "-q", "--tb=no", "--junitxml", "out.xml")
    assert result.returncode == 0, result.stdout
    assert "2 passed, 2 deselected" in result.stdout
    assert (folder / "out.xml").is_file()


@WITH_WORKERS_ON_REQUEST
def test_a_named_file_is_an_eval_whatever_it_is_called_and_looks_like(folder, run, suite, mode):
    (folder / "my odd name.yaml").write_text("evalcase: []\n")
    (folder / "good.yaml").write_text(suite(one="hello"))
    result = run(*AGENTV, "eval", "my odd name.yaml", "good.yaml", "--tb=short", *mode)
    assert "has no list of cases: evalcases is missing" in result.stdout
    assert "instead of 'evalcase', did you mean 'evalcases'?" in result.stdout
    assert "pytest_agentv/" not in result.stdout


@variation
def test_nothing_is_warned_of_because_agentv_was_imported_before_pytest(folder, run, suite):
    write_evals(folder, suite)
    result = run(*AGENTV, "eval", "b.eval.yaml", "-W", "error", fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "warning" not in result.stdout


def test_a_misspelt_flag_is_told_after_pytest_has_refused_it(folder, run, suite):
    write_evals(folder, suite)
    result = run(*AGENTV, "eval", "b.eval.yaml", "--treshold=0.5")
    assert result.returncode == 4
    assert "unrecognized arguments: --treshold=0.5" in result.stderr
    assert result.stderr.endswith("agentv eval: --treshold is not an option of agentv; did you mean '--threshold'?\n")


def test_a_project_of_init_is_valid_runs_at_once_and_can_be_compared(tmp_path, run):
    assert run(*AGENTV, "init").returncode == 0
    assert run(*AGENTV, "validate", "--strict", ".").stdout == "2 files checked: nothing wrong\n"
    for name in ("a.jsonl", "b.yaml"):
        result = run(*AGENTV, "eval", "evals", f"--out={name}", f"--output-format={name.partition('.')[2]}")
        assert result.returncode == 0, result.stdout
        assert "2 passed" in result.stdout
    assert "2 passed" in run(sys.executable, "-m", "pytest", "evals").stdout
    compared = run(*AGENTV, "compare", "a.jsonl", "b.yaml")
    assert (compared.returncode, compared.stderr) == (0, "")
    assert json.loads(compared.stdout)["summary"] == {
        "total": 2,
        "matched": 2,
        "wins": 0,
        "losses": 0,
        "ties": 2,
        "meanDelta": 0,
        "errors": 0,
    }
    assert run(*AGENTV, "convert", "b.yaml").stdout == "Converted 2 records to b.jsonl\n"
    assert [json.loads(line)["score"] for line in (tmp_path / "b.jsonl").read_text().splitlines()] == [1, 1]


def test_validate_finds_what_a_run_finds_and_needs_no_credentials(folder, run, suite):
    (folder / "targets.yaml").write_text(
        'targets: [{name: default, provider: anthropic, model: m, api_key: "${{ NOT_SET_ANYWHERE }}"}]\n'
    )
    (folder / "a.eval.yaml").write_text(suite(one="hello") + "  - id: broken\n")
    validated = run(*AGENTV, "validate", ".")
    assert validated.returncode == 1
    assert validated.stdout == (
        "a.eval.yaml:6: error: evalcases[1].input_messages: is missing: expected a list of messages\n"
        "a.eval.yaml:6: error: evalcases[1].expected_outcome: is missing: expected a non-empty text\n"
        "2 files checked: 2 errors, 0 warnings\n"
    )
    ran = run(*AGENTV, "eval", "a.eval.yaml").stdout
    for line in validated.stdout.splitlines()[:2]:
        assert line.replace(" error:", "") in ran
