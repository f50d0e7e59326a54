"""The workflows of `agentv init --ci`, and those in the docs."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pytest_agentv.cli.init import WORKFLOWS, workflow

ROOT = Path(__file__).parents[2]
PROGRAMS = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
ACTIONLINT = shutil.which("actionlint", path=PROGRAMS)
SERVICES = pytest.mark.parametrize("service", list(WORKFLOWS))


@SERVICES
def test_a_workflow_is_short_and_ends_in_time(service: str) -> None:
    text = workflow(service)
    assert text.count("\n") <= 40
    job = yaml.safe_load(text)["jobs"]["evals"] if service == "github" else yaml.safe_load(text)["evals"]
    assert {"timeout", "timeout-minutes"} & job.keys()


def test_actions_are_pinned_to_commits() -> None:
    used = re.findall(r"uses: (\S+)(.*)", workflow("github"))
    assert len(used) == 3
    for action, comment in used:
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), comment


@SERVICES
def test_the_schema_of_a_service_knows_its_workflow(tmp_path: Path, service: str) -> None:
    checker, testing = pytest.importorskip("check_jsonschema"), pytest.importorskip("click.testing")
    file = tmp_path / "workflow.yml"
    file.write_text(workflow(service))
    schema = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}[service]
    finished = testing.CliRunner().invoke(checker.main, ["--builtin-schema", schema, str(file)])
    assert finished.exit_code == 0, finished.output


def tagged(text: str) -> str:
    """Return a workflow with versions in the place of commits: of these actionlint knows inputs and runtimes."""
    return re.sub(r"@[0-9a-f]{40}  # (v\d+)[.\d]*", r"@\1", text)


def workflows_of_docs() -> Iterator[str]:
    for page in sorted((ROOT / "docs").glob("*.md")):
        yield from re.findall(r"```yaml\n# \.github/workflows/\S+\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


@pytest.mark.skipif(ACTIONLINT is None, reason="needs actionlint: pip install -e '.[manifests]'")
@pytest.mark.parametrize(
    "text",
    [workflow("github"), tagged(workflow("github")), *workflows_of_docs()],
    ids=lambda text: text.partition("\n")[0][:20],
)
def test_actionlint_finds_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "evals.yml"
    file.write_text(text, "utf-8")
    command = [str(ACTIONLINT), "-no-color", str(file)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": PROGRAMS})
    assert finished.returncode == 0, finished.stdout + finished.stderr
