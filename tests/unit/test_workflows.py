"""The workflows of `agentv init --ci`, and those in the docs."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
ACTIONLINT = shutil.which("actionlint", path=PROGRAMS)
FILES = {"github": ".github/workflows/evals.yml", "gitlab": ".gitlab-ci.yml"}


@pytest.fixture
def workflow(agentv: Any) -> Callable[[str], Path]:
    def workflow(service: str) -> Path:
        assert agentv("init", f"--ci={service}").exit_code == 0
        return Path(FILES[service])

    return workflow


@pytest.mark.parametrize(("service", "schema"), [("github", "vendor.github-workflows"), ("gitlab", "vendor.gitlab-ci")])
def test_a_workflow_is_short_ends_in_time_and_fits_its_schema(
    workflow: Callable[[str], Path], service: str, schema: str
) -> None:
    text = workflow(service).read_text("utf-8")
    assert text.count("\n") <= 40
    job = yaml.safe_load(text)["jobs"]["evals"] if service == "github" else yaml.safe_load(text)["evals"]
    assert {"timeout", "timeout-minutes"} & job.keys()
    checker, testing = pytest.importorskip("check_jsonschema"), pytest.importorskip("click.testing")
    finished = testing.CliRunner().invoke(checker.main, ["--builtin-schema", schema, FILES[service]])
    assert finished.exit_code == 0, finished.output


def test_actions_are_pinned_to_commits(workflow: Callable[[str], Path]) -> None:
    used = re.findall(r"uses: (\S+)(.*)", workflow("github").read_text("utf-8"))
    assert len(used) == 3
    for action, comment in used:
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), comment


@pytest.mark.skipif(ACTIONLINT is None, reason="needs actionlint: pip install -e '.[manifests]'")
def test_actionlint_finds_nothing(workflow: Callable[[str], Path]) -> None:
    own = workflow("github").read_text("utf-8")
    # With versions in the place of commits: of these actionlint knows inputs and runtimes.
    texts = [own, re.sub(r"@[0-9a-f]{40}  # (v\d+)[.\d]*", r"@\1", own)]
    for page in sorted((ROOT / "docs").glob("*.md")):
        texts += re.findall(r"```yaml\n# \.github/workflows/\S+\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for text in texts:
        Path("evals.yml").write_text(text, "utf-8")
        command = [str(ACTIONLINT), "-no-color", "evals.yml"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": PROGRAMS})
        assert done.returncode == 0, done.stdout + done.stderr
