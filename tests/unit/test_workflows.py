"""The workflows of `agentv init --ci`, and those in the docs: checked, and run in part."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from pytest_agentv.cli.init import PATHS, workflow
from pytest_agentv.reports.markdown import MARKER

ROOT = Path(__file__).parents[2]
PROGRAMS = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
ACTIONLINT = shutil.which("actionlint", path=PROGRAMS)
SERVICES = pytest.mark.parametrize("service", list(PATHS))


@SERVICES
@pytest.mark.parametrize("shards", [1, 3])
def test_workflows_are_yaml_without_gaps(service: str, shards: int) -> None:
    text = workflow(service, shards)
    jobs = yaml.safe_load(text)
    assert not re.search("@[A-Z]+@", text)
    assert MARKER in text
    if service == "github":
        assert jobs["jobs"]["evals"]["strategy"]["matrix"]["shard"] == list(range(1, shards + 1))
        assert all("timeout-minutes" in job for job in jobs["jobs"].values())
    else:
        assert jobs["evals"].get("parallel") == (shards if shards > 1 else None)
        assert all("timeout" in jobs[name] for name in ("evals", "report"))


def test_actions_are_pinned_to_commits() -> None:
    used = re.findall(r"uses: (\S+)(.*)", workflow("github", 3))
    assert len(used) == 8
    for action, comment in used:
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), comment


@SERVICES
@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_a_comparison_that_cannot_tell_fails_no_workflow(
    tmp_path: Path, service: str, code: int, expected: int
) -> None:
    (tmp_path / "agentv.baseline.jsonl").touch()
    program = tmp_path / "agentv"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    (script,) = [script for script in scripts_of(service) if "compare" in script]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert (
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=False).returncode == expected
    )


def scripts_of(service: str) -> list[str]:
    report = yaml.safe_load(workflow(service, 1))
    if service == "gitlab":
        return list(report["report"]["script"])
    return [step["run"] for step in report["jobs"]["report"]["steps"] if "run" in step]


def test_answers_of_the_main_branch_are_kept_before_they_are_judged() -> None:
    steps = yaml.safe_load(workflow("github", 1))["jobs"]["report"]["steps"]
    names = [step.get("uses", step.get("run", "")) for step in steps]
    saving = next(number for number, name in enumerate(names) if "cache/save" in name)
    judging = next(number for number, name in enumerate(names) if "agentv compare" in name)
    assert saving < judging


@SERVICES
def test_the_schema_of_a_service_knows_its_workflow(tmp_path: Path, service: str) -> None:
    checker, testing = pytest.importorskip("check_jsonschema"), pytest.importorskip("click.testing")
    file = tmp_path / "workflow.yml"
    file.write_text(workflow(service, 3))
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
    [workflow("github", 1), workflow("github", 3), tagged(workflow("github", 3)), *workflows_of_docs()],
    ids=lambda text: text.partition("\n")[0][:20],
)
def test_actionlint_finds_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "evals.yml"
    file.write_text(text, "utf-8")
    command = [str(ACTIONLINT), "-no-color", str(file)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": PROGRAMS})
    assert finished.returncode == 0, finished.stdout + finished.stderr


class Notes(BaseHTTPRequestHandler):
    """The part of GitLab's API that has the comments of a merge request."""

    notes: dict[int, str]
    asked: list[str]

    def do_GET(self) -> None:
        self._reply([{"id": number, "body": body} for number, body in self.notes.items()])

    def do_POST(self) -> None:
        self.notes[len(self.notes) + 1] = self._body()
        self._reply({})

    def do_PUT(self) -> None:
        self.notes[int(self.path.rpartition("/")[2])] = self._body()
        self._reply({})

    def _body(self) -> str:
        return parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["body"][0]

    def _reply(self, value: Any) -> None:
        self.asked.append(f"{self.command} {self.path} {self.headers['PRIVATE-TOKEN']}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def gitlab() -> Iterator[tuple[type[Notes], str]]:
    handler = type("OwnNotes", (Notes,), {"notes": {1: "a person's"}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}/api/v4"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_comment_on_a_merge_request_is_updated_in_place(gitlab: tuple[type[Notes], str], tmp_path: Path) -> None:
    handler, url = gitlab
    script = next(step for step in yaml.safe_load(workflow("gitlab", 1))["report"]["script"] if "curl" in step)
    variables = {"CI_API_V4_URL": url, "CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "3", "GITLAB_TOKEN": "secret"}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "no_proxy": "127.0.0.1"}

    def comment(text: str, **changes: str) -> str:
        (tmp_path / "report.md").write_text(f"{MARKER}\n{text}", "utf-8")
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        environment = path | variables | changes
        finished = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return finished.stdout + finished.stderr

    assert comment("none", GITLAB_TOKEN="") == comment("none", CI_MERGE_REQUEST_IID="") == ""
    assert handler.asked == []
    assert comment("first & best = 1") == comment("second") == ""
    assert handler.notes == {1: "a person's", 2: f"{MARKER}\nsecond"}
    notes = "/api/v4/projects/7/merge_requests/3/notes"
    assert handler.asked[1:] == [f"POST {notes} secret", f"GET {notes}?per_page=100 secret", f"PUT {notes}/2 secret"]
    assert "got no comment" in comment("third", CI_API_V4_URL="http://127.0.0.1:9")
