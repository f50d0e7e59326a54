"""Where the targets file is found, what it defines, and what is said of its faults."""

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import AgentvError, SourceError, TargetError, TargetsError
from pytest_agentv.providers.table import KINDS
from pytest_agentv.targets.definitions import TargetsFile
from pytest_agentv.targets.files import TARGETS_FILES, find_targets_file
from pytest_agentv.targets.files import load_targets_file as load_with_kinds


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sub" / "evals").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load_targets_file(path: Path, extra_kinds: Sequence[str] = ()) -> TargetsFile:
    return load_with_kinds(path, KINDS.with_own(dict.fromkeys(extra_kinds, print)))


def write(path: Path, text: str = "targets: []\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def errors(repo: Path, text: str) -> str:
    with pytest.raises(TargetsError) as caught:
        load_targets_file(write(repo / "targets.yaml", text))
    return str(caught.value)


def warnings(repo: Path, text: str, extra_kinds: tuple[str, ...] = ()) -> list[str]:
    file = load_targets_file(write(repo / "targets.yaml", text), extra_kinds)
    assert all(warning.level == "warning" for warning in file.warnings)
    return [str(warning) for warning in file.warnings]


def target_errors(repo: Path, body: str) -> str:
    """The errors of one target; its keys stand on line 4 and below."""
    return errors(repo, "targets:\n  - name: t\n    provider: " + body)


class TestFindTargetsFile:
    def find(self, repo: Path, explicit: str | None = None) -> Path:
        path = Path(explicit) if explicit else None
        return find_targets_file(path, repo / "sub" / "evals", repo / "sub", repo)

    @pytest.mark.parametrize("name", TARGETS_FILES)
    def test_has_four_names_in_a_folder(self, repo: Path, name: str) -> None:
        expected = write(repo / "sub" / name)
        assert self.find(repo) == expected

    def test_prefers_the_names_in_their_order(self, repo: Path) -> None:
        paths = [write(repo / "sub" / name) for name in TARGETS_FILES]
        for path in paths:
            assert self.find(repo) == path
            path.unlink()

    @pytest.mark.scenario("Targets file loading")
    @pytest.mark.scenario("Targets file discovery and selection")
    def test_goes_from_the_eval_folder_up_to_the_root_and_then_to_the_working_directory(self, repo: Path) -> None:
        explicit = write(repo / "mine.yaml")
        paths = [write(folder / "targets.yaml") for folder in (repo / "sub/evals", repo / "sub", repo)]
        assert self.find(repo, "mine.yaml") == explicit
        for path in paths:
            assert self.find(repo) == path
            path.unlink()

    def test_looks_into_a_folder_that_was_named(self, repo: Path) -> None:
        nested = write(repo / "conf/.agentv/targets.yml")
        assert self.find(repo, "conf") == nested
        assert self.find(repo, "conf/.agentv") == nested

    def test_says_where_it_looked(self, repo: Path) -> None:
        with pytest.raises(TargetsError) as caught:
            self.find(repo)
        assert str(caught.value) == (
            "sub/evals/targets.yaml: no targets file found: tried targets.yaml, targets.yml, .agentv/targets.yaml, "
            ".agentv/targets.yml in sub/evals, sub, .; name one with --agentv-targets"
        )

    def test_says_that_a_named_file_is_not_there(self, repo: Path) -> None:
        with pytest.raises(TargetsError) as caught:
            self.find(repo, "nowhere.yaml")
        assert str(caught.value) == "nowhere.yaml: there is no such targets file or folder"

    def test_says_that_a_named_folder_has_none(self, repo: Path) -> None:
        with pytest.raises(TargetsError) as caught:
            self.find(repo, "sub")
        assert str(caught.value) == (
            "sub: no targets file in this folder: tried targets.yaml, targets.yml, .agentv/targets.yaml, "
            ".agentv/targets.yml"
        )


class TestDefinitions:
    def test_hold_what_a_run_must_know_before_it_resolves_them(self, repo: Path) -> None:
        text = """\
$schema: agentv-targets-v2.2
targets:
  - name: default
    provider: Azure-OpenAI
    judge_target: judge
    workers: 3
    providerBatching: "1"
    api_key: ${{ KEY }}
  - {name: judge, provider: mock}
"""
        file = load_targets_file(write(repo / "targets.yaml", text))
        default, judge = file.definitions
        assert (default.name, default.provider, default.kind, default.line) == ("default", "Azure-OpenAI", "azure", 3)
        assert (default.judge_target, default.workers, default.provider_batching) == ("judge", 3, True)
        assert default.values["api_key"] == "${{ KEY }}"
        assert (judge.judge_target, judge.workers, judge.provider_batching) == (None, None, False)
        assert file.warnings == ()
        assert pickle.loads(pickle.dumps(file)) == file

    @pytest.mark.parametrize(
        ("provider", "kind"),
        [
            ("azure", "azure"),
            ("google", "gemini"),
            ("google-gemini", "gemini"),
            ("MOCK", "mock"),
            ("codex-cli", "codex"),
            ("pi", "pi-coding-agent"),
            ("vscode-insiders", "vscode-insiders"),
            ("vscode-copilot", "vscode"),
        ],
    )
    def test_have_a_canonical_kind(self, repo: Path, provider: str, kind: str) -> None:
        file = load_targets_file(write(repo / "targets.yaml", f"targets: [{{name: a, provider: {provider}}}]"))
        assert file.definitions[0].kind == kind
        assert file.warnings == ()

    def test_of_kinds_that_plugins_add_are_taken_as_they_are(self, repo: Path) -> None:
        text = "targets: [{name: a, provider: MyAgent, settings: {x: 1}, anything: 2}]"
        file = load_targets_file(write(repo / "targets.yaml", text), ["myagent"])
        assert file.definitions[0].kind == "myagent"
        assert file.definitions[0].values["settings"] == {"x": 1}
        assert file.warnings == ()

    def test_workers_and_batching_in_variables_are_not_known_yet(self, repo: Path) -> None:
        text = "targets: [{name: a, provider: mock, workers: '${{ W }}', provider_batching: '${{ B }}'}]"
        definition = load_targets_file(write(repo / "targets.yaml", text)).definitions[0]
        assert (definition.workers, definition.provider_batching) == (None, False)

    def test_are_found_by_name_and_the_first_one_wins(self, repo: Path) -> None:
        text = "targets: [{name: a, provider: mock}, {name: b, provider: mock}, {name: a, provider: cli, command: x}]"
        text = text.replace("command: x", "command_template: x")
        assert load_targets_file(write(repo / "targets.yaml", text)).find("a").kind == "mock"

    def test_an_unknown_name_is_an_error_with_the_names_there_are(self, repo: Path) -> None:
        text = "targets: [{name: zeta, provider: mock}, {name: azure, provider: mock}]"
        file = load_targets_file(write(repo / "targets.yaml", text))
        with pytest.raises(TargetError) as caught:
            file.find("azur")
        assert str(caught.value) == "targets.yaml: no target 'azur'; did you mean 'azure'? available: zeta, azure"

    def test_an_unknown_name_in_an_empty_file_is_an_error(self, repo: Path) -> None:
        with pytest.raises(TargetError) as caught:
            load_targets_file(write(repo / "targets.yaml")).find("default")
        assert str(caught.value) == "targets.yaml: no target 'default'; available: none"


class TestErrors:
    @pytest.mark.scenario("Schema validation for targets")
    def test_of_a_file_are_all_named_at_once_with_their_lines(self, repo: Path) -> None:
        text = """\
targets:
  - provider: mock
  - name: a
    provider: 5
    workers: 0
  - b
  - name: c
    provider: cli
    command_template: run {PROMT}
"""
        assert errors(repo, text) == (
            "targets.yaml:2: targets[0].name: is missing (expected the name that runs and cases choose the target by)\n"
            "targets.yaml:4: targets[1].provider: expected a text, got the number 5; put it into quotes\n"
            "targets.yaml:5: targets[1].workers: expected a whole number of workers, 1 or more, without quotes, "
            "got the number 0\n"
            "targets.yaml:6: targets[2]: expected a mapping with name and provider, got the text 'b'\n"
            "targets.yaml:9: targets[3].command_template: unknown placeholder {PROMT}; did you mean '{PROMPT}'? "
            "valid are {PROMPT}, {PROMPT_FILE}, {PROMPT_JSON}, {GUIDELINES}, {EVAL_ID}, {ATTEMPT}, {FILES}, "
            "{ATTACHMENTS}, {OUTPUT_FILE}"
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "targets.yaml:1: expected a mapping with the key targets, got null"),
            ("- a", "targets.yaml:1: expected a mapping with the key targets, got a list"),
            ("x: 1", "targets.yaml:1: the key targets is missing (expected a list of targets)"),
            ("target: []", "targets.yaml:1: the key targets is missing (is 'target' a misspelling of it?)"),
            (
                "targets: [{name: a, provdier: openai, model: x}]",
                "targets.yaml:1: targets[0].provider: is missing (is 'provdier' a misspelling of it?)",
            ),
            (
                "targets: [{name: a, provider: openai, modle: x}]",
                "targets.yaml:1: targets[0].model: is missing (is 'modle' a misspelling of it?)",
            ),
            ("x: 1\ntargets: {a: 1}", "targets.yaml:2: targets: expected a list of targets, got a mapping"),
            ("targets:", "targets.yaml:1: targets: expected a list of targets, got null"),
            (
                "targets: [{name: '', provider: mock}]",
                "targets.yaml:1: targets[0].name: must not be empty",
            ),
            (
                "targets: [{name: a}]",
                "targets.yaml:1: targets[0].provider: is missing (expected the kind of target: azure, cli, mock, …)",
            ),
        ],
    )
    def test_of_the_shape_name_the_place_and_what_was_expected(self, repo: Path, text: str, message: str) -> None:
        assert errors(repo, text) == message

    def test_of_the_syntax_have_a_line(self, repo: Path) -> None:
        with pytest.raises(SourceError) as caught:
            load_targets_file(write(repo / "targets.yaml", "targets: []\ntargets: []\n"))
        assert str(caught.value) == "targets.yaml:2: duplicate key 'targets', first on line 1"

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("mock\n    judge_target:", "judge_target: expected the name of a target, got null (leave the key out)"),
            (
                "mock\n    judge_target: 5",
                "judge_target: expected a text, got the number 5; put it into quotes",
            ),
            (
                "mock\n    workers: '3'",
                "workers: expected a whole number of workers, 1 or more, without quotes, got the text '3'",
            ),
            ("mock\n    provider_batching: 1", "provider_batching: expected true or false, got the number 1"),
            ("mock\n    response: {a: 1}", "response: expected a text, got a mapping"),
            ("mock\n    trace: {a: 1}", "trace: expected a list, got a mapping"),
            ("mock\n    trace: [5]", "trace[0]: expected a mapping, got the number 5"),
            ("mock\n    delay_ms: -1", "delay_ms: expected a number of milliseconds, 0 or more, got the number -1"),
            ("mock\n    delayMs: soon", "delayMs: expected a number of milliseconds, 0 or more, got the text 'soon'"),
            ("mock\n    delay_ms: .inf", "delay_ms: expected a number of milliseconds, 0 or more, got the number inf"),
            (
                "python\n    callable: agent",
                "callable: expected package.module:function or path/to/file.py:function, got the text 'agent'",
            ),
            ("python\n    callable: a:b\n    arguments: [1]", "arguments: expected a mapping, got a list"),
            ("codex\n    args: -v -v", "args: expected a list, got the text '-v -v'"),
            (
                "codex\n    args: [-n, 5]",
                "args[1]: expected a text, got the number 5; put it into quotes",
            ),
            ("codex\n    args: ['']", "args[0]: must not be empty"),
            ("codex\n    log_format: xml", "log_format: expected summary or json, got the text 'xml'"),
            (
                "codex\n    timeout_seconds: 0",
                "timeout_seconds: expected a number of seconds above 0, got the number 0",
            ),
            ("anthropic\n    model: m\n    temperature: true", "temperature: expected a number, got true"),
            (
                "anthropic\n    variant: m\n    max_retries: 1.5",
                "max_retries: expected a whole number, 0 or more, got the number 1.5",
            ),
            (
                "azure\n    retry_status_codes: ['500']",
                "retry_status_codes[0]: expected an HTTP status code without quotes, got the text '500'",
            ),
            ("vscode\n    wait: maybe", "wait: expected true or false, got the text 'maybe'"),
            ("mock\n    settings: 5", "settings: expected a mapping, got the number 5"),
        ],
    )
    def test_of_a_field_say_what_was_expected(self, repo: Path, body: str, message: str) -> None:
        line = 3 + body.count("\n")
        assert target_errors(repo, body) == f"targets.yaml:{line}: targets[0].{message}"

    @pytest.mark.parametrize("body", ["anthropic", "openai", "litellm"])
    def test_a_model_is_required_where_no_variable_stands_in(self, repo: Path, body: str) -> None:
        message = "targets.yaml:2: targets[0].model: is missing (expected the name of the model)"
        assert target_errors(repo, body) == message


class TestCliErrors:
    @pytest.mark.scenario("Required template fields")
    def test_the_command_is_required(self, repo: Path) -> None:
        assert target_errors(repo, "cli") == (
            "targets.yaml:2: targets[0].command_template: is missing "
            "(expected the command to run, with placeholders such as {PROMPT})"
        )

    def test_a_blank_command_hides_its_other_spelling(self, repo: Path) -> None:
        message = target_errors(repo, "cli\n    command_template: ''\n    commandTemplate: y")
        assert message == "targets.yaml:4: targets[0].command_template: must not be empty"

    def test_a_null_command_does_not_hide_its_other_spelling(self, repo: Path) -> None:
        text = "targets: [{name: a, provider: cli, command_template: null, commandTemplate: y}]"
        assert warnings(repo, text) == []

    @pytest.mark.scenario("Required template fields")
    @pytest.mark.parametrize(
        ("key", "hint"),
        [
            ("command_templte: x", "did you mean 'command_template'?"),
            (
                "zzz: 1",
                "known keys: name, provider, judge_target, workers, provider_batching, command_template, "
                "stdin, files_format, cwd, timeout_seconds, verbose, keep_temp_files, env, healthcheck",
            ),
        ],
    )
    def test_unknown_keys_are_errors(self, repo: Path, key: str, hint: str) -> None:
        message = target_errors(repo, f"cli\n    {key}\n    command_template: x")
        assert message == f"targets.yaml:4: targets[0].{key.split(':', maxsplit=1)[0]}: unknown key ({hint})"

    @pytest.mark.parametrize(
        ("field", "message"),
        [
            (
                'timeout_seconds: "5"',
                "timeout_seconds: expected a number of seconds above 0, without quotes, got the text '5'",
            ),
            (
                'provider_batching: "true"',
                "provider_batching: expected true or false without quotes, got the text 'true'",
            ),
            ("verbose: 'yes'", "verbose: expected true or false without quotes, got the text 'yes'"),
            ("env: [a]", "env: expected a mapping, got a list"),
            (
                "env: {PORT: 8080}",
                "env.PORT: expected a text, got the number 8080; put it into quotes",
            ),
            ("env: {'A=B': x}", "env.A=B: 'A=B' is no name of an environment variable"),
            ("command_template: [x]", "command_template: expected a text, got a list"),
        ],
    )
    def test_of_a_field_say_what_was_expected(self, repo: Path, field: str, message: str) -> None:
        body = f"cli\n    {field}" + ("" if field.startswith("command") else "\n    command_template: x")
        assert target_errors(repo, body) == f"targets.yaml:4: targets[0].{message}"

    @pytest.mark.scenario("Placeholder substitution rules")
    @pytest.mark.parametrize(
        ("template", "message"),
        [
            (
                "x {EVAL_FILE}",
                "unknown placeholder {EVAL_FILE}; did you mean '{EVAL_ID}'? valid are {PROMPT}, {PROMPT_FILE}, "
                "{PROMPT_JSON}, {GUIDELINES}, {EVAL_ID}, {ATTEMPT}, {FILES}, {ATTACHMENTS}, {OUTPUT_FILE}",
            ),
            (
                "${{ CMD }} {ZZZ}",
                "unknown placeholder {ZZZ}; valid are {PROMPT}, {PROMPT_FILE}, {PROMPT_JSON}, {GUIDELINES}, {EVAL_ID}, "
                "{ATTEMPT}, {FILES}, {ATTACHMENTS}, {OUTPUT_FILE}",
            ),
            ("x ${PROMPT}", "write {PROMPT} without the $: it is a placeholder, not a variable of the shell"),
            (
                "x {prompt_file} {PROMPT}",
                "{prompt_file} is no placeholder, and would be passed on as it is; write {PROMPT_FILE}, or "
                "{ prompt_file } for braces of the command",
            ),
            ("x {{ prompt }}", "{{ prompt }} is filled in for services, not in commands; write {PROMPT}"),
            ("x {PROMPT} {{EVAL_ID}}", "{{EVAL_ID}} is filled in for services, not in commands; write {EVAL_ID}"),
            (
                "x {Prompt} {EVAL_ID}",
                "{Prompt} is no placeholder, and would be passed on as it is; write {PROMPT}, or { Prompt } for "
                "braces of the command",
            ),
        ],
    )
    def test_unknown_placeholders_are_errors(self, repo: Path, template: str, message: str) -> None:
        text = target_errors(repo, f"cli\n    command_template: '{template}'")
        assert text == f"targets.yaml:4: targets[0].command_template: {message}"

    @pytest.mark.scenario("Placeholder substitution rules")
    @pytest.mark.parametrize(
        "template",
        [
            *(
                "jq {prompt} {PROMPT}",
                "jq { prompt }",
                "x ${prompt}",
                "f {{prompt}} {PROMPT}",
                "jq {prompt} {PROMPT_FILE}",
            ),
            "python -c \"import os; prompt = os.environ[''AGENTV_PROMPT'']; print(f''{prompt}'')\"",
        ],
    )
    def test_braces_of_the_command_are_left_to_it(self, repo: Path, template: str) -> None:
        text = f"targets: [{{name: a, provider: cli, command_template: '{template}'}}]"
        assert warnings(repo, text) == []

    @pytest.mark.scenario("Placeholder substitution rules")
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("--file {pth}", "unknown placeholder {pth}; did you mean '{path}'? valid are {path}, {basename}"),
            ("{path} {name}", "unknown placeholder {name}; did you mean '{basename}'? valid are {path}, {basename}"),
        ],
    )
    def test_unknown_placeholders_of_files_are_errors(self, repo: Path, text: str, message: str) -> None:
        found = target_errors(repo, f"cli\n    files_format: '{text}'\n    command_template: x {{FILES}}")
        assert found == f"targets.yaml:4: targets[0].files_format: {message}"

    def test_shell_variables_and_other_braces_are_no_placeholders(self, repo: Path) -> None:
        template = "${HOME}/run {PROMPT} {ATTACHMENTS} {lower} {A1} ${{ VAR }} ${{VAR}} $(x) {} {{ x"
        text = f"targets: [{{name: a, provider: cli, command_template: '{template}'}}]"
        assert warnings(repo, text) == []

    @pytest.mark.scenario("Health check schema")
    @pytest.mark.parametrize(
        "healthcheck",
        [
            "{type: http, url: 'http://localhost:8000/health'}",
            "{type: http, url: '${{ URL }}', timeoutSeconds: 2.5}",
            "{type: command, commandTemplate: 'true'}",
            "{type: command, command_template: 'ls {EVAL_ID}', cwd: sub, timeout_seconds: 3}",
        ],
    )
    def test_health_checks_are_accepted(self, repo: Path, healthcheck: str) -> None:
        text = f"targets: [{{name: a, provider: cli, command_template: x, healthcheck: {healthcheck}}}]"
        assert warnings(repo, text) == []

    @pytest.mark.scenario("Health check schema")
    @pytest.mark.parametrize(
        ("healthcheck", "message"),
        [
            ("yes", "healthcheck: expected a mapping with the key type, got the text 'yes'"),
            ("{}", "healthcheck: type must be 'http' or 'command', got null"),
            ("{type: tcp}", "healthcheck: type must be 'http' or 'command', got the text 'tcp'"),
            ("{type: [http]}", "healthcheck: type must be 'http' or 'command', got a list"),
            ("{type: http}", "healthcheck.url: is missing (expected the URL to GET)"),
            (
                "{type: http, url: localhost}",
                "healthcheck.url: expected a URL that starts with http:// or https://, got the text 'localhost'",
            ),
            (
                "{type: http, url: 'http://a', timeout: 1}",
                "healthcheck.timeout: unknown key (did you mean 'timeout_seconds'?)",
            ),
            (
                "{type: command}",
                "healthcheck.command_template: is missing "
                "(expected the command to run, with placeholders such as {PROMPT})",
            ),
            (
                "{type: command, command_template: x, timeout_seconds: '1'}",
                "healthcheck.timeout_seconds: expected a number of seconds above 0, without quotes, got the text '1'",
            ),
            (
                "{type: command, command_template: x, cwd: 5}",
                "healthcheck.cwd: expected a text, got the number 5; put it into quotes",
            ),
        ],
    )
    def test_health_checks_of_other_shapes_are_errors(self, repo: Path, healthcheck: str, message: str) -> None:
        text = target_errors(repo, f"cli\n    healthcheck: {healthcheck}\n    command_template: x")
        assert text == f"targets.yaml:4: targets[0].{message}"


class TestWarnings:
    @pytest.mark.scenario("Targets validation with warnings")
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "targets: []\ntarget: 1",
                "targets.yaml:2: target: unknown key (did you mean 'targets'?)",
            ),
            (
                "targets: [{name: a, provider: mock, respnse: x}]",
                "targets.yaml:1: targets[0].respnse: unknown key (did you mean 'response'?)",
            ),
            (
                "targets: [{name: a, provider: mock, judgeTarget: a}]",
                "targets.yaml:1: targets[0].judgeTarget: unknown key (did you mean 'judge_target'?)",
            ),
            (
                "targets: [{name: a, provider: vscode, zzz: x}]",
                "targets.yaml:1: targets[0].zzz: unknown key (known keys: name, provider, judge_target, workers, "
                "provider_batching, vscode_cmd, workspace_template, wait, dry_run, subagent_root)",
            ),
            (
                "targets: [{name: a, provider: azur}]",
                "targets.yaml:1: targets[0].provider: unknown provider 'azur'; did you mean 'azure'? known: azure, "
                "anthropic, gemini, openai, litellm, http, asgi, cli, mock, python, codex, claude-code, "
                "pi-coding-agent, vscode, "
                "vscode-insiders",
            ),
            (
                "targets: [{name: a, provider: ' mock'}]",
                "targets.yaml:1: targets[0].provider: unknown provider ' mock'; did you mean 'mock'? known: azure, "
                "anthropic, gemini, openai, litellm, http, asgi, cli, mock, python, codex, claude-code, "
                "pi-coding-agent, vscode, "
                "vscode-insiders",
            ),
            (
                "targets: [{name: a, provider: pi-agent-sdk}]",
                "targets.yaml:1: targets[0].provider: provider 'pi-agent-sdk' is a JavaScript library, which cannot "
                "run here; use provider: pi-coding-agent",
            ),
            (
                "targets:\n  - {name: a, provider: mock}\n  - {name: b, provider: mock}\n  - {name: a, provider: mock}",
                "targets.yaml:4: targets[2].name: 'a' is the name of the target on line 2 already, and that one counts",
            ),
            (
                "targets: [{name: judge, provider: mock, judge_target: jugde}]",
                "targets.yaml:1: targets[0].judge_target: there is no target 'jugde' (did you mean 'judge'?)",
            ),
            (
                "targets: [{name: a, provider: mock, judge_target: zzz}]",
                "targets.yaml:1: targets[0].judge_target: there is no target 'zzz' (available: a)",
            ),
            (
                "targets: [{name: a, provider: codex, args: ['${{ secrets.KEY }}']}]",
                "targets.yaml:1: targets[0].args[0]: holds '${{', but no variable "
                "(write ${{ NAME }}: letters, digits and _)",
            ),
            (
                "targets: [{name: a, provider: cli, command_template: x, timeout_seconds: 5, timeoutSeconds: 1}]",
                "targets.yaml:1: targets[0].timeoutSeconds: is not read, because 'timeout_seconds' is there as well",
            ),
            (
                "targets: [{name: a, provider: mock, providerBatching: true, provider_batching: false}]",
                "targets.yaml:1: targets[0].providerBatching: is not read, because 'provider_batching' is there as "
                "well",
            ),
        ],
    )
    def test_say_what_looks_wrong_but_runs(self, repo: Path, text: str, message: str) -> None:
        assert warnings(repo, text) == [message]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("provider: codex, args: [$MODEL]", "args[0]: '$MODEL' is no variable here and stays as it is"),
            ("provider: codex, args: ['a:${MODEL}/']", "args[0]: '${MODEL}' is no variable here and stays as it is"),
            (
                "provider: openai, model: '{{env.MODEL}}'",
                "model: '{{env.MODEL}}' is no variable here and stays as it is",
            ),
            (
                "provider: cli, command_template: x, cwd: '${MODEL}'",
                "cwd: '${MODEL}' is no variable here and stays as it is",
            ),
        ],
    )
    def test_variables_of_other_tools_are_errors(self, repo: Path, text: str, message: str) -> None:
        path = write(repo / "targets.yaml", f"targets: [{{name: a, {text}}}]")
        with pytest.raises(TargetsError) as caught:
            load_targets_file(path)
        assert str(caught.value) == f"targets.yaml:1: targets[0].{message} (write ${{{{ MODEL }}}})"

    def test_a_kind_of_the_project_may_fill_in_variables_of_other_tools(self, repo: Path) -> None:
        [said] = warnings(repo, "targets: [{name: a, provider: own, key: 'a ${MODEL}'}]", ["own"])
        assert said.startswith("targets.yaml:1: targets[0].key: '${MODEL}' is no variable here")

    @pytest.mark.parametrize(
        "text",
        [
            "provider: mock, response: $AAPL",
            "provider: mock, output_messages: [{role: assistant, content: $AAPL}]",
            "provider: cli, commandTemplate: $AGENT",
            "provider: cli, command_template: $AGENT",
            "provider: cli, command_template: 'sh ${DIR}/x', stdin: 'echo ${HOME}'",
            "provider: openai, model: m, system_prompt: Say $HOME or $5",
        ],
    )
    def test_a_dollar_sign_may_be_meant(self, repo: Path, text: str) -> None:
        assert not [each for each in warnings(repo, f"targets: [{{name: a, {text}}}]") if "stays as it is" in each]

    def test_the_older_settings_mapping_is_merged_with_a_warning(self, repo: Path) -> None:
        text = """\
targets:
  - name: a
    provider: codex
    cwd: flat
    settings:
      provider_batching: true
      cwd: nested
      executable: mine
      executible: x
"""
        file = load_targets_file(write(repo / "targets.yaml", text))
        definition = file.definitions[0]
        assert definition.provider_batching
        assert (definition.values["cwd"], definition.values["executable"]) == ("flat", "mine")
        assert [str(warning) for warning in file.warnings] == [
            "targets.yaml:5: targets[0].settings: is an older form (write its keys directly in the target)",
            "targets.yaml:7: targets[0].settings.cwd: is not read, because 'cwd' is there as well",
            "targets.yaml:9: targets[0].settings.executible: unknown key (did you mean 'executable'?)",
        ]

    def test_two_spellings_that_say_the_same_are_silent(self, repo: Path) -> None:
        text = "targets: [{name: a, provider: mock, delay_ms: 5, delayMs: 5, response: null}]"
        assert warnings(repo, text) == []

    def test_extra_kinds_are_suggested_too(self, repo: Path) -> None:
        (message,) = warnings(repo, "targets: [{name: a, provider: my-agnt}]", ("my-agent",))
        assert "did you mean 'my-agent'?" in message
        assert message.endswith("vscode-insiders, my-agent")

    @pytest.mark.parametrize("key", ["workers", "provider_batching", "delay_ms", "response", "judge_target"])
    def test_a_variable_may_stand_in_every_field(self, repo: Path, key: str) -> None:
        assert warnings(repo, f"targets: [{{name: a, provider: mock, {key}: '${{{{ V }}}}'}}]") == []


def test_pydantic_is_not_imported_before_a_file_is_loaded() -> None:
    modules = "pytest_agentv.targets.files, pytest_agentv.cases.references"
    code = f"import sys, {modules}; print('pydantic' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


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


@given(PROVIDERS, st.dictionaries(KEYS, VALUES, max_size=5))
def test_no_shape_breaks_the_loader(
    tmp_path_factory: pytest.TempPathFactory, provider: str, values: dict[str, object]
) -> None:
    entry = {"name": "a", "provider": provider, **values}
    path = write(tmp_path_factory.getbasetemp() / "any.yaml", json.dumps({"targets": [entry]}))
    try:
        file = load_targets_file(path)
    except AgentvError:
        return
    assert file.definitions[0].kind
