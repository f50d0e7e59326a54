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


@variation
def test_nothing_is_warned_of_because_agentv_was_imported_before_pytest(folder, run, suite):
    write_evals(folder, suite)
    result = run(*AGENTV, "eval", "b.eval.yaml", "-W", "error", fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "warning" not in result.stdout
