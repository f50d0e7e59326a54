"""What targets files define once variables are filled in, and the .env files that have these.

Their faults are shown by `tests/corpus/mistakes-values-of-targets` and `target-values-from-variables`.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.errors import AgentvError, FileError, TargetsError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker, Secret
from pytest_agentv.providers.agent_programs import ClaudeCode, Pi
from pytest_agentv.providers.agents import CodingAgent
from pytest_agentv.providers.api.model import Model
from pytest_agentv.providers.cli import Cli, CommandHealthcheck
from pytest_agentv.providers.mock import Mock
from pytest_agentv.providers.table import KINDS
from pytest_agentv.providers.vscode import Vscode, VscodeInsiders
from pytest_agentv.targets.definitions import (
    Environment,
    TargetsFile,
    find_repo_root,
    find_targets_file,
    folders_upward,
    load_environment,
    load_targets_file,
    search_folders,
)
from pytest_agentv.targets.fields import resolve_target

KEY = "sk-0123456789"


class Project:
    """A folder with `sub/evals`, whose targets file defines one target."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.secrets = Masker()

    def load(self, text: str, *own_kinds: str) -> TargetsFile:
        path = self.root / "conf" / "targets.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return load_targets_file(path, KINDS.with_own(dict.fromkeys(own_kinds, print)))

    def __call__(self, body: str, *own_kinds: str, **variables: str) -> Target:
        file = self.load("targets:\n  - name: t\n    provider: " + body, *own_kinds)
        return self.resolve(file, variables)

    def resolve(self, file: TargetsFile, variables: Mapping[str, str]) -> Target:
        evals = self.root / "sub" / "evals"
        return resolve_target(file, file.definitions[0], Environment(variables), evals, self.secrets)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "sub" / "evals").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def model(target: Target) -> Model:
    assert isinstance(target.settings, Model)
    return target.settings


def agent(target: Target) -> CodingAgent:
    assert isinstance(target.settings, CodingAgent)
    return target.settings


def test_a_folder_that_was_named_is_searched_for_a_targets_file(project: Project) -> None:
    nested = project.root / "conf/.agentv/targets.yml"
    nested.parent.mkdir(parents=True)
    nested.touch()
    places = (project.root / "sub/evals", project.root / "sub", project.root)
    for name in ("conf", "conf/.agentv"):
        assert find_targets_file(Path(name), *places) == nested
    with pytest.raises(
        TargetsError, match=r"^sub: no targets file in this folder: tried targets\.yaml, targets\.yml, "
    ):
        find_targets_file(Path("sub"), *places)


def test_kinds_of_a_project_get_their_keys_with_variables_filled_in(project: Project) -> None:
    body = (
        "MyAgent\n    workers: 2\n    judge_target: ${{ HOST }}\n    url: http://${{ HOST }}\n    token: plain-77\n"
        "    settings: {x: 1}\n    left_out: ${{ NONE }}\n    nothing:\n    deep: {list: [1, '${{ HOST }}']}\n"
        "  - {name: h, provider: mock}"
    )
    target = project(body, "MyAgent", HOST="h")
    assert (target.kind, target.workers, target.judge_target) == ("MyAgent", 2, "h")
    assert target.settings.to_plain() == {
        "url": "http://h",
        "token": "plain-77",
        "settings": {"x": 1},
        "nothing": None,
        "deep": {"list": [1, "h"]},
    }
    assert project.secrets.mask("a plain-77") == "a ***"


def test_a_kind_of_the_project_may_fill_in_variables_of_other_tools(project: Project) -> None:
    (warning,) = project.load("targets: [{name: a, provider: own, key: 'a ${MODEL}'}]", "own").warnings
    assert str(warning).startswith("conf/targets.yaml:1: targets[0].key: '${MODEL}' is no variable here")
    (warning,) = project.load("targets: [{name: a, provider: my-agnt}]", "my-agent").warnings
    assert "did you mean 'my-agent'?" in str(warning)


@pytest.mark.parametrize("written", ["", "\n    base_url: ${{ UNSET }}"])
def test_a_variable_stands_in_for_a_base_url_that_is_not_there(project: Project, written: str) -> None:
    variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:8000/v1"}
    request = model(project(f"openai\n    model: gpt{written}", **variables)).api(variables).request([])
    expected = ("http://localhost:8000/v1/chat/completions", {"authorization": f"Bearer {KEY}"})
    assert (request.url, request.headers) == expected


def test_a_server_of_ones_own_does_not_get_the_key_of_openai(project: Project) -> None:
    body = "openai\n    model: llama3\n    base_url: http://localhost:11434/v1"
    assert model(project(body, OPENAI_API_KEY=KEY)).api_key is None


@pytest.mark.parametrize("prefix", ["", "api-version=", "api_version=", "apiversion=", "API-Version="])
def test_an_azure_version_loses_its_prefix(project: Project, prefix: str) -> None:
    body = f"azure\n    endpoint: e\n    api_key: k\n    model: m\n    api_version: '{prefix}2024-06-01'"
    assert model(project(body)).api({}).api_version == "2024-06-01"


def test_secrets_in_headers_and_data_are_masked(project: Project) -> None:
    body = (
        "openai\n    model: m\n    api_key: x\n    headers: {X-Team: shop, X-Pass: '${{ TEAM_TOKEN }}'}\n"
        "    extra_body: {login: ['${{ TEAM_TOKEN }}'], api_key: literal-0123456789}"
    )
    target = project(body, TEAM_TOKEN=KEY)
    assert model(target).headers == {"X-Team": "shop", "X-Pass": Secret(KEY)}
    assert model(target).extra_body == {"login": [Secret(KEY)], "api_key": Secret("literal-0123456789")}
    assert model(target).api({}).headers["X-Pass"] == KEY
    assert KEY not in repr(target)
    assert project.secrets.mask(f"{KEY} literal-0123456789") == "*** ***"


def test_variables_with_telling_names_are_masked_but_no_numbers(project: Project) -> None:
    body = (
        "cli\n    command_template: curl -H ${{ MY_SECRET }} ${{ HOST }}\n    env: {MY_PASSWORD: literal-7, PLAIN: x}"
    )
    settings = project(body, MY_SECRET=KEY, HOST="host-name").settings
    assert isinstance(settings, Cli)
    assert settings.env == {"MY_PASSWORD": Secret("literal-7"), "PLAIN": "x"}
    project("gemini\n    max_output_tokens: ${{ N }}", N="100000", GOOGLE_API_KEY=KEY)
    assert project.secrets.mask(f"{KEY} host-name literal-7 100000") == "*** host-name *** 100000"


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [("", "evals"), ("sub", "evals/sub"), ("''", "evals"), ("'${{ NONE }}'", "evals"), ("/a/b/../c", "/a/c")],
)
def test_cwd_is_relative_to_the_eval_file(project: Project, cwd: str, expected: str) -> None:
    body = f"cli\n    command_template: x\n    healthcheck: {{type: command, command_template: y, cwd: {cwd}}}"
    folder = str(project.root / "sub" / expected)
    healthcheck = CommandHealthcheck(command_template="y", cwd=folder)
    settings = project(f"{body}\n    cwd: {cwd}").settings
    assert settings == Cli(command_template="x", cwd=folder, healthcheck=healthcheck)


def test_paths_and_secrets_of_agents(project: Project) -> None:
    body = (
        "claude-code\n    command: bin/claude --x\n    arguments: [--key, '${{ API_KEY }}', plain]\n"
        "    cwd: work\n    logDirectory: logs"
    )
    found = agent(project(body, API_KEY=KEY))
    assert isinstance(found, ClaudeCode)
    assert (found.cwd, found.args) == (f"{project.root}/work", ("--key", Secret(KEY), "plain"))
    assert (found.executable, found.log_dir) == (f"{project.root}/bin/claude --x", f"{project.root}/logs")
    program = project.root / "my tools" / "codex"
    program.parent.mkdir()
    program.touch()
    assert agent(project("codex\n    executable: ./my tools/codex")).executable == str(program)
    assert agent(project("pi\n    api_key: ${{ NONE }}")) == Pi()
    assert agent(project("pi\n    piProvider: google\n    pi_tools: read")) == Pi(llm_provider="google", tools="read")
    assert agent(project("codex", AGENTV_CODEX_LOG_FORMAT="Json")).log_format == "json"
    assert agent(project("codex\n    logFormat: summary", AGENTV_CODEX_LOG_FORMAT="json")).log_format == "summary"
    body = "vscode-insiders\n    workspaceTemplate: ../a.code-workspace\n    wait: 'false'\n    dryRun: '1'"
    template = str(project.root / "a.code-workspace")
    assert project(body).settings == VscodeInsiders(workspace_template=template, wait=False, dry_run=True)
    assert project("vscode\n    workspace_template: ${{ NONE }}").settings == Vscode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_text_of_a_variable_arrives_unchanged(project: Project, text: str) -> None:
    assert project("mock\n    response: ${{ V }}", V=text).settings == Mock(response=text)


def test_pydantic_is_not_imported_before_a_file_is_loaded() -> None:
    code = "import sys, pytest_agentv.targets.definitions; print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("${{ V }}"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    (
        *("name", "judge_target", "workers", "settings", "env", "healthcheck", "args", "model", "api_key", "trace"),
        *("command_template", "callable", "arguments", "retry_status_codes", "timeout_seconds", "log_format", "wait"),
    )
)
PROVIDERS = st.sampled_from(("azure", "cli", "mock", "python", "codex", "pi", "vscode", "litellm", "other"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROVIDERS, st.dictionaries(KEYS, VALUES, max_size=5))
def test_no_shape_breaks_the_loader(project: Project, provider: str, values: dict[str, object]) -> None:
    try:
        file = project.load(json.dumps({"targets": [{"name": "a", "provider": provider, **values}]}))
    except AgentvError:
        return
    assert file.definitions[0].kind


@pytest.mark.parametrize(
    ("text", "strict", "told"),
    [
        ("targets: [broken\n", False, "targets.yaml:"),
        ("targets: [{name: default, provider: mock, respons: x}]\n", True, "respons"),
    ],
)
def test_a_broken_targets_file_is_read_once(tmp_path: Path, text: str, strict: bool, told: str) -> None:
    """Each case read it again: 150 cases with 150 targets took three times as long."""
    path = tmp_path / "targets.yaml"
    path.write_text(text)
    folders = TargetPool(RunOptions(strict=strict), Places(tmp_path, tmp_path), Masker(), no_kinds)
    frames = set()
    for _ in range(3):
        with pytest.raises(AgentvError, match=told) as caught:
            folders.file(tmp_path)
        frames.add(len(caught.traceback))
        path.write_text("targets: [{name: default, provider: mock}]\n")  # would be found if it were read again
    assert frames == {2}, "what is raised again does not grow"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with `sub/evals`, and a folder `elsewhere` to work in."""
    for folder in (".git", "sub/evals", "../elsewhere"):
        (tmp_path / "repo").mkdir(exist_ok=True)
        (tmp_path / "repo" / folder).mkdir(parents=True)
    return tmp_path / "repo"


def test_files_are_searched_up_to_the_root_of_the_repository_and_in_the_working_directory(repo: Path) -> None:
    elsewhere = repo.parent / "elsewhere"
    assert search_folders(repo / "sub" / "evals", repo, elsewhere) == (
        repo / "sub/evals",
        repo / "sub",
        repo,
        elsewhere,
    )
    assert search_folders(repo / "sub", repo, repo) == (repo / "sub", repo)
    assert folders_upward(elsewhere, repo) == (elsewhere, *elsewhere.parents, repo)
    assert find_repo_root(repo / "sub" / "evals") == repo
    (repo / "sub" / ".git").write_text("gitdir: elsewhere")  # of a worktree
    assert find_repo_root(repo / "sub" / "evals") == repo / "sub"
    (repo / "sub" / ".env").mkdir()
    (elsewhere / ".env").write_text("A=1")
    assert load_environment(repo / "sub" / "evals", repo, elsewhere, {}).dotenv == {"A": "1"}


@pytest.mark.parametrize(
    ("written", "process", "read"),
    [
        ("A=file\nB=file\nC=file\n", {"A": "process", "B": ""}, {"A": "file", "B": "file", "C": "file"}),
        (
            "\ufeffA=${HOME}/${C}x\nB='two words'\nexport C=3 # note\nD\nE=${A}-$C-${F:-none}\n",
            {"HOME": "/home", "F": ""},
            {"A": "/home/x", "B": "two words", "C": "3", "E": "/home/x-$C-"},
        ),
        ("HOST=file\nURL=https://${HOST}/\n", {}, {"HOST": "file", "URL": "https://file/"}),
        ("HOST=file\nURL=https://${HOST}/\n", {"HOST": "p"}, {"HOST": "file", "URL": "https://p/"}),
        ("A=1\n!!nonsense!!='\n", {}, {"A": "1"}),
    ],
)
def test_dotenv_files_are_read_as_python_dotenv_reads_them(
    repo: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    process: dict[str, str],
    read: dict[str, str],
) -> None:
    (repo / ".env").write_text(written, "utf-8")
    for name in ("A", "B", "C", "F", "HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in process.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING):
        environment = load_environment(repo, repo, repo, process)
    assert (environment.dotenv, environment.variables) == (read, {**read, **process})
    assert "file" not in repr(environment)


def test_a_dotenv_file_that_is_no_text_is_an_error_with_its_path(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    (repo / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(FileError, match=r"^\.env: is not UTF-8: byte 0xff$"):
        load_environment(repo, repo, repo, {})
