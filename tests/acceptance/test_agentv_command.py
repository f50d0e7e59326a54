"""The `agentv` command as users call it: from a first project to the comparison of two runs."""

import subprocess
import sysconfig
from pathlib import Path

import pytest
import warm
from thorough import variation

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


def write_evals(folder: Path, suite) -> None:
    (folder / "evals").mkdir()
    (folder / "evals/a.yaml").write_text(suite(one="hello", two="goodbye", three="nothing"))
    (folder / "b.eval.yaml").write_text(suite(four="hello"))


@variation
def test_nothing_is_warned_of_because_agentv_was_imported_before_pytest(folder, run, suite):
    write_evals(folder, suite)
    result = run(*AGENTV, "eval", "b.eval.yaml", "-W", "error", fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "warning" not in result.stdout
