"""What becomes of a target once its variables are filled in."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentv.errors import TargetError, TargetsError
from pytest_agentv.model.cases import RetryPolicy, Target
from pytest_agentv.model.secrets import Masker, Secret
from pytest_agentv.providers.agents.agent import CodingAgent
from pytest_agentv.providers.agents.claude_code import ClaudeCode
from pytest_agentv.providers.agents.codex import Codex
from pytest_agentv.providers.agents.pi import Pi
from pytest_agentv.providers.api.base import ModelSettings
from pytest_agentv.providers.api.model import Model
from pytest_agentv.providers.cli import Cli, CommandHealthcheck, HttpHealthcheck
from pytest_agentv.providers.mock import Mock
from pytest_agentv.providers.python import Python
from pytest_agentv.providers.table import KINDS
from pytest_agentv.providers.vscode import Vscode, VscodeInsiders
from pytest_agentv.targets.definitions import Environment
from pytest_agentv.targets.files import load_targets_file, resolve_target

KEY = "sk-0123456789"


class Resolver:
    """Resolves the one target of a file below `project/conf`, for an eval file in `project/evals`."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.secrets = Masker()
        self.extra_kinds: tuple[str, ...] = ()

    def __call__(self, body: str, **variables: str) -> Target:
        return self.resolve("targets:\n  - name: t\n    provider: " + body, variables)

    def error(self, body: str, **variables: str) -> str:
        with pytest.raises(TargetError) as caught:
            self(body, **variables)
        return str(caught.value)

    def resolve(self, text: str, variables: Mapping[str, str]) -> Target:
        path = self.project / "conf" / "targets.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        file = load_targets_file(path, KINDS.with_own(dict.fromkeys(self.extra_kinds, print)))
        return resolve_target(file, file.definitions[0], Environment(variables), self.project / "evals", self.secrets)


@pytest.fixture
def resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolver:
    monkeypatch.chdir(tmp_path)
    return Resolver(tmp_path)


def model(target: Target) -> Model:
    assert isinstance(target.settings, Model)
    return target.settings


def llm(target: Target) -> ModelSettings:
    return model(target).api_settings


def agent(target: Target) -> CodingAgent:
    assert isinstance(target.settings, CodingAgent)
    return target.settings


def cli(target: Target) -> Cli:
    assert isinstance(target.settings, Cli)
    return target.settings


class TestModels:
    @pytest.mark.scenario("Azure OpenAI provider")
    def test_azure_takes_its_values_from_the_target(self, resolve: Resolver) -> None:
        target = resolve(
            "azure\n    endpoint: ${{ V }}\n    api_key: ${{ K }}\n    model: ${{ V }}\n"
            "    version: api-version=2024-06-01\n    max_retries: '5'\n    temperature: '0.5'\n    maxTokens: 100",
            V="v",
            K=KEY,
        )
        assert llm(target) == ModelSettings("v", KEY, "v", "2024-06-01", 0.5, 100)
        assert model(target).retry == RetryPolicy(max_retries=5)
        assert (target.name, target.kind, target.line) == ("t", "azure", 2)
        assert target.path == str(resolve.project / "conf" / "targets.yaml")

    @pytest.mark.scenario("Azure OpenAI provider")
    def test_azure_takes_what_is_left_out_from_the_environment(self, resolve: Resolver) -> None:
        target = resolve(
            "azure-openai", AZURE_OPENAI_ENDPOINT="https://e", AZURE_OPENAI_API_KEY=KEY, AZURE_DEPLOYMENT_NAME="d"
        )
        assert llm(target) == ModelSettings("d", KEY, "https://e", "2024-10-01-preview")

    @pytest.mark.scenario("Azure OpenAI provider")
    def test_azure_has_the_spellings_of_the_specification(self, resolve: Resolver) -> None:
        target = resolve("azure\n    resourceName: host\n    deploymentName: d\n    apiKey: ${{ K }}", K=KEY)
        assert llm(target) == ModelSettings("d", KEY, "host", "2024-10-01-preview")

    @pytest.mark.parametrize("prefix", ["", "api-version=", "api_version=", "apiversion=", "API-Version="])
    def test_an_azure_version_loses_its_prefix(self, resolve: Resolver, prefix: str) -> None:
        body = f"azure\n    endpoint: e\n    api_key: k\n    model: m\n    api_version: '{prefix}2024-06-01'"
        assert llm(resolve(body)).api_version == "2024-06-01"

    def test_literal_values_are_fine(self, resolve: Resolver) -> None:
        settings = llm(resolve("azure\n    endpoint: e\n    api_key: literal-key-3f9c\n    model: m"))
        assert settings.api_key == "literal-key-3f9c"
        assert resolve.secrets.mask("literal-key-3f9c") == "***"

    @pytest.mark.scenario("Anthropic provider")
    def test_anthropic(self, resolve: Resolver) -> None:
        body = "anthropic\n    variant: ${{ M }}\n    thinkingBudget: 1000\n    max_output_tokens: 5\n    base_url: http://u"
        settings = llm(resolve(body, M="claude", ANTHROPIC_API_KEY=KEY))
        assert settings == ModelSettings("claude", KEY, "http://u", None, None, 5, 1000)

    @pytest.mark.scenario("Google Gemini provider")
    @pytest.mark.parametrize(
        ("body", "model"),
        [
            ("gemini", "gemini-2.5-flash"),
            ("google\n    model: literal", "literal"),
            ("google-gemini\n    model: ${{ UNSET }}", "gemini-2.5-flash"),
        ],
    )
    def test_gemini(self, resolve: Resolver, body: str, model: str) -> None:
        assert llm(resolve(body, GOOGLE_API_KEY=KEY)) == ModelSettings(model, KEY)

    @pytest.mark.scenario("Google Gemini provider")
    def test_the_gemini_model_may_come_from_the_environment(self, resolve: Resolver) -> None:
        assert llm(resolve("gemini", GOOGLE_API_KEY=KEY, GOOGLE_GEMINI_MODEL="pro")).model == "pro"

    @pytest.mark.parametrize("written", ["", "\n    base_url: ${{ UNSET }}"])
    def test_a_variable_stands_in_for_a_base_url_that_is_not_there(self, resolve: Resolver, written: str) -> None:
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:8000/v1"}
        resolved = resolve(f"openai\n    model: gpt{written}", **variables)
        request = model(resolved).api(variables).request([])
        assert llm(resolved).base_url == "http://localhost:8000/v1"
        assert (request.url, request.headers) == (
            "http://localhost:8000/v1/chat/completions",
            {"authorization": f"Bearer {KEY}"},
        )

    def test_openai_and_litellm(self, resolve: Resolver) -> None:
        body = "openai\n    model: gpt\n    baseUrl: http://localhost:8000/v1"
        assert llm(resolve(body, OPENAI_API_KEY=KEY)) == ModelSettings("gpt", None, "http://localhost:8000/v1")
        assert llm(resolve("litellm\n    model: ollama/llama3")) == ModelSettings("ollama/llama3")


class TestRetries:
    @pytest.mark.scenario("Default exponential backoff")
    def test_have_defaults(self, resolve: Resolver) -> None:
        policy = model(resolve("gemini", GOOGLE_API_KEY=KEY)).retry
        assert policy == RetryPolicy(3, 1000, 60_000, 2, (500, 408, 409, 429, 502, 503, 504, 520, 522, 524, 529))

    @pytest.mark.scenario("Configure retry in targets.yaml")
    @pytest.mark.scenario("Both snake_case and camelCase field names")
    @pytest.mark.parametrize(
        "keys",
        [
            "max_retries retry_initial_delay_ms retry_max_delay_ms retry_backoff_factor retry_status_codes",
            "maxRetries retryInitialDelayMs retryMaxDelayMs retryBackoffFactor retryStatusCodes",
        ],
    )
    def test_are_read_in_both_spellings(self, resolve: Resolver, keys: str) -> None:
        values = ("5", "'2000'", "120000", "1.5", "[429, 503]")
        body = "gemini" + "".join(f"\n    {key}: {value}" for key, value in zip(keys.split(), values, strict=True))
        assert model(resolve(body, GOOGLE_API_KEY=KEY)).retry == RetryPolicy(5, 2000, 120_000, 1.5, (429, 503))

    @pytest.mark.scenario("Disable retries")
    def test_can_be_switched_off(self, resolve: Resolver) -> None:
        assert model(resolve("gemini\n    max_retries: 0", GOOGLE_API_KEY=KEY)).retry.max_retries == 0

    def test_of_no_status_at_all_stay_none(self, resolve: Resolver) -> None:
        assert model(resolve("gemini\n    retry_status_codes: []", GOOGLE_API_KEY=KEY)).retry.status_codes == ()


class TestMissingVariables:
    @pytest.mark.scenario("Missing provider credentials")
    @pytest.mark.scenario("Environment variable validation")
    def test_are_all_named_at_once(self, resolve: Resolver) -> None:
        assert resolve.error("azure\n    api_key: ${{ MY_KEY }}\n    deployment: d-${{ REGION }}-${{ MY_KEY }}") == (
            "target 't' (conf/targets.yaml:2) needs environment variables that are not set: "
            "REGION (deployment), MY_KEY (deployment, api_key), AZURE_OPENAI_ENDPOINT (endpoint); "
            "set them or put them into a .env file"
        )

    def test_one_of_them_reads_well_too(self, resolve: Resolver) -> None:
        assert resolve.error("gemini") == (
            "target 't' (conf/targets.yaml:2) needs an environment variable that is not set: "
            "GOOGLE_API_KEY (api_key); set it or put it into a .env file"
        )

    def test_blank_ones_are_missing(self, resolve: Resolver) -> None:
        assert resolve.error("google\n    api_key: ${{ G }}", G=" ", GOOGLE_API_KEY=KEY) == (
            "target 't' (conf/targets.yaml:2) needs an environment variable that is not set: "
            "G (api_key; set, but blank); set it or put it into a .env file"
        )

    def test_a_blank_field_counts_as_left_out(self, resolve: Resolver) -> None:
        assert llm(resolve("gemini\n    api_key: ''", GOOGLE_API_KEY=KEY)).api_key == KEY

    @pytest.mark.parametrize(
        ("body", "keys"),
        [
            ("codex\n    args: [-a, '${{ N }}']", "args[1]"),
            ("cli\n    command_template: x\n    env: {A: '${{ N }}'}", "env.A"),
            ("cli\n    command_template: x ${{ N }}", "command_template"),
            ("cli\n    command_template: x\n    healthcheck: {type: http, url: '${{ N }}'}", "healthcheck.url"),
            ("python\n    callable: a:b\n    arguments: {x: [{y: '${{ N }}'}]}", "arguments.x[0].y"),
            ("anthropic\n    api_key: k\n    model: ${{ N }}", "model"),
        ],
    )
    def test_of_required_texts_are_errors(self, resolve: Resolver, body: str, keys: str) -> None:
        assert resolve.error(body) == (
            "target 't' (conf/targets.yaml:2) needs an environment variable that is not set: "
            f"N ({keys}); set it or put it into a .env file"
        )

    def test_of_optional_fields_make_them_absent(self, resolve: Resolver) -> None:
        body = (
            "cli\n    command_template: x\n    cwd: a/${{ N }}\n    timeout_seconds: ${{ N }}\n    workers: ${{ N }}\n"
            "    healthcheck: {type: command, command_template: y, cwd: '${{ N }}', timeout_seconds: '${{ N }}'}"
        )
        evals = str(resolve.project / "evals")
        expected = Cli(command_template="x", cwd=evals, healthcheck=CommandHealthcheck(command_template="y", cwd=evals))
        target = resolve(body)
        assert (target.settings, target.workers) == (expected, None)

    def test_of_other_targets_do_not_matter(self, resolve: Resolver) -> None:
        text = "targets: [{name: a, provider: mock}, {name: b, provider: azure, api_key: '${{ NONE }}'}]"
        assert resolve.resolve(text, {}).name == "a"


class TestFilledInValues:
    def test_are_checked_again_and_secrets_in_them_are_masked(self, resolve: Resolver) -> None:
        body = "mock\n    workers: ${{ W }}\n    delay_ms: ${{ MY_TOKEN }}"
        assert resolve.error(body, W="many", MY_TOKEN="secret-value-41") == (
            "target 't' (conf/targets.yaml:2): workers: expected a whole number of workers, 1 or more, without quotes, "
            "got the text 'many' (from W); delay_ms: expected a number of milliseconds, 0 or more, got the text '***' "
            "(from MY_TOKEN)"
        )

    def test_may_be_numbers_and_booleans_as_texts(self, resolve: Resolver) -> None:
        body = (
            "cli\n    command_template: x\n    timeout_seconds: ${{ T }}\n    verbose: ${{ B }}\n"
            "    provider_batching: ${{ B }}\n    workers: ${{ W }}"
        )
        target = resolve(body, T="1.5", B="TRUE", W="4")
        assert (cli(target).timeout_seconds, cli(target).verbose) == (1.5, True)
        assert (target.provider_batching, target.workers) == (True, 4)

    def test_hold_their_white_space(self, resolve: Resolver) -> None:
        settings = resolve("mock\n    response: '<${{ V }}>'", V=" a\n").settings
        assert settings == Mock(response="< a\n>")

    def test_name_and_provider_are_used_as_they_are(self, resolve: Resolver) -> None:
        assert resolve.resolve("targets: [{name: '${{ V }}', provider: mock}]", {"V": "v"}).name == "${{ V }}"

    def test_judge_target_may_be_a_variable(self, resolve: Resolver) -> None:
        assert resolve("mock\n    judge_target: ${{ J }}", J="judge").judge_target == "judge"


class TestProviders:
    def test_an_unknown_one_is_an_error(self, resolve: Resolver) -> None:
        assert resolve.error("azur") == (
            "target 't' (conf/targets.yaml:2): unknown provider 'azur'; did you mean 'azure'? known: azure, "
            "anthropic, gemini, openai, litellm, http, asgi, cli, mock, python, codex, claude-code, "
            "pi-coding-agent, vscode, "
            "vscode-insiders"
        )

    def test_a_name_with_white_space_is_unknown(self, resolve: Resolver) -> None:
        assert "unknown provider ' mock'" in resolve.error("' mock'")

    def test_the_javascript_library_is_an_error(self, resolve: Resolver) -> None:
        assert resolve.error("pi-agent-sdk") == (
            "target 't' (conf/targets.yaml:2): provider 'pi-agent-sdk' is a JavaScript library, which cannot run here; "
            "use provider: pi-coding-agent"
        )

    def test_a_kind_of_a_plugin_gets_its_keys_with_variables_filled_in(self, resolve: Resolver) -> None:
        resolve.extra_kinds = ("MyAgent",)
        body = (
            "myAgent\n    workers: 2\n    judge_target: j\n    url: http://${{ HOST }}\n    token: plain-token-77\n"
            "    left_out: ${{ NONE }}\n    nothing:\n    deep: {list: [1, '${{ HOST }}']}"
        )
        target = resolve(body, HOST="h")
        assert (target.kind, target.workers, target.judge_target) == ("myagent", 2, "j")
        assert target.settings.to_plain() == {
            "url": "http://h",
            "token": "plain-token-77",
            "nothing": None,
            "deep": {"list": [1, "h"]},
        }
        assert resolve.secrets.mask("a plain-token-77") == "a ***"


class TestCli:
    @pytest.mark.scenario("Required template fields")
    def test_all_fields(self, resolve: Resolver) -> None:
        body = """cli
    command_template: ./run.sh {PROMPT} --out {OUTPUT_FILE} ${{ FLAG }}
    attachmentsFormat: --file {path}
    cwd: ../work
    timeoutSeconds: 1.2345
    cliVerbose: true
    keep_output_files: true
    provider_batching: true
    env: {PLAIN: x, EMPTY: '', FILLED: 'a ${{ AGENT_TOKEN }}', MY_PASSWORD: literal-7}
    healthcheck: {type: http, url: 'http://localhost:${{ PORT }}/', timeoutSeconds: 2}"""
        target = resolve(body, FLAG="-v", AGENT_TOKEN=KEY, PORT="80")
        assert target.settings == Cli(
            command_template="./run.sh {PROMPT} --out {OUTPUT_FILE} -v",
            cwd=str(resolve.project / "work"),
            files_format="--file {path}",
            timeout_seconds=1.2345,
            verbose=True,
            keep_temp_files=True,
            env={
                "PLAIN": "x",
                "EMPTY": "",
                "FILLED": Secret(f"a {KEY}"),
                "MY_PASSWORD": Secret("literal-7"),
            },
            healthcheck=HttpHealthcheck(url="http://localhost:80/", timeout_seconds=2),
        )
        assert math.floor((cli(target).timeout_seconds or 0) * 1000) == 1234
        assert target.provider_batching
        assert resolve.secrets.mask(f"{KEY} literal-7") == "*** ***"

    @pytest.mark.parametrize(
        ("cwd", "expected"),
        [("", "evals"), ("cwd: sub", "evals/sub"), ("cwd: ''", "evals"), ("cwd: ${{ NONE }}", "evals")],
    )
    def test_cwd_is_relative_to_the_eval_file(self, resolve: Resolver, cwd: str, expected: str) -> None:
        assert cli(resolve(f"cli\n    command_template: x\n    {cwd}")).cwd == str(resolve.project / expected)

    def test_an_absolute_cwd_stays(self, resolve: Resolver) -> None:
        assert cli(resolve("cli\n    command_template: x\n    cwd: /a/b/../c")).cwd == "/a/c"

    def test_the_cwd_of_a_health_check_follows_the_same_rule(self, resolve: Resolver) -> None:
        body = "cli\n    command_template: x\n    cwd: a\n    healthcheck: {type: command, commandTemplate: y, cwd: b}"
        expected = CommandHealthcheck(command_template="y", cwd=str(resolve.project / "evals" / "b"))
        assert cli(resolve(body)).healthcheck == expected

    def test_variables_are_filled_in_before_placeholders_are_checked(self, resolve: Resolver) -> None:
        message = resolve.error("cli\n    command_template: ${{ CMD }}", CMD="run {NOPE}")
        assert message.startswith(
            "target 't' (conf/targets.yaml:2): command_template: unknown placeholder {NOPE}; valid are {PROMPT}, "
        )


class TestAgents:
    def test_codex_has_defaults(self, resolve: Resolver) -> None:
        settings = agent(resolve("codex\n    args: []\n    executable: ${{ NONE }}\n    log_format: JSON"))
        assert settings == Codex(log_format="json")

    def test_all_fields(self, resolve: Resolver) -> None:
        body = (
            "claude-code\n    command: bin/claude --x\n    arguments: [--key, '${{ API_KEY }}', plain]\n"
            "    cwd: work\n    timeoutSeconds: '5'\n    logDirectory: logs\n    systemPrompt: be ${{ HOW }}\n"
            "    model: opus"
        )
        root = resolve.project
        assert agent(resolve(body, API_KEY=KEY, HOW="kind")) == ClaudeCode(
            executable=f"{root}/bin/claude --x",
            args=("--key", Secret(KEY), "plain"),
            cwd=f"{root}/work",
            timeout_seconds=5,
            log_dir=f"{root}/logs",
            system_prompt="be kind",
            model="opus",
        )

    def test_pi(self, resolve: Resolver) -> None:
        body = (
            "pi\n    piProvider: google\n    pi_model: m\n    apiKey: ${{ K }}\n    pi_tools: read,bash\n"
            "    piThinking: low"
        )
        expected = Pi(model="m", llm_provider="google", api_key=Secret(KEY), tools="read,bash", thinking="low")
        assert agent(resolve(body, K=KEY)) == expected

    def test_a_server_without_a_key_needs_none_and_does_not_get_that_of_openai(self, resolve: Resolver) -> None:
        body = "openai\n    model: llama3\n    base_url: http://localhost:11434/v1"
        for variables in ({}, {"OPENAI_API_KEY": KEY}):
            settings = resolve(body, **variables).settings
            assert isinstance(settings, Model)
            assert settings.api_key is None
        assert "OPENAI_API_KEY" in resolve.error("openai\n    model: gpt-4o")

    def test_secrets_in_headers_and_data_are_masked(self, resolve: Resolver) -> None:
        body = (
            "openai\n    model: m\n    api_key: x\n    headers: {X-Team: shop, X-Pass: '${{ TEAM_TOKEN }}'}\n"
            "    extra_body: {login: ['${{ TEAM_TOKEN }}'], api_key: literal-0123456789}"
        )
        settings = resolve(body, TEAM_TOKEN=KEY).settings
        assert isinstance(settings, Model)
        assert settings.headers == {"X-Team": "shop", "X-Pass": Secret(KEY)}
        assert settings.extra_body == {"login": [Secret(KEY)], "api_key": Secret("literal-0123456789")}
        assert settings.api_settings.headers["X-Pass"] == KEY
        assert resolve.secrets.mask(f"{KEY} literal-0123456789") == "*** ***"

    @pytest.mark.parametrize(
        ("keys", "fault"),
        [
            ("headers: {a b: c}", "is no name of a header"),
            ("headers: {a: [1]}", "headers.a: expected a text"),
            ("top_p: 1.5", "top_p: expected a number from 0 to 1"),
            ("seed: x", "seed: expected a whole number"),
            ("stop: [1]", "stop: expected a text"),
            ("tools: [price_of]", "tools[0]: expected a mapping with name"),
            ("extra_body: [1]", "extra_body: expected a mapping"),
        ],
    )
    def test_faults_of_the_keys_of_models(self, resolve: Resolver, keys: str, fault: str) -> None:
        with pytest.raises(TargetsError, match=re.escape(fault)):
            resolve(f"openai\n    model: m\n    api_key: k-0123\n    {keys}")

    def test_anthropic_takes_a_format_with_a_schema_only(self, resolve: Resolver) -> None:
        body = "anthropic\n    model: m\n    api_key: k-0123\n    response_format: {type: json_object}"
        with pytest.raises(TargetsError, match="response_format: the API takes"):
            resolve(body)

    def test_pi_needs_no_key(self, resolve: Resolver) -> None:
        assert agent(resolve("pi\n    api_key: ${{ NONE }}")) == Pi()

    def test_an_executable_whose_path_has_a_blank_stays_whole(self, resolve: Resolver) -> None:
        program = resolve.project / "my tools" / "codex"
        program.parent.mkdir()
        program.touch()
        assert agent(resolve("codex\n    executable: ./my tools/codex")).executable == str(program)

    @pytest.mark.parametrize(
        ("kind", "variable"),
        [("codex", "AGENTV_CODEX_LOG_FORMAT"), ("claude-code", "AGENTV_CLAUDE_CODE_LOG_FORMAT")],
    )
    def test_the_log_format_may_come_from_the_environment(self, resolve: Resolver, kind: str, variable: str) -> None:
        assert agent(resolve(kind, **{variable: "Json"})).log_format == "json"
        assert agent(resolve(f"{kind}\n    logFormat: summary", **{variable: "json"})).log_format == "summary"
        assert resolve.error(kind, **{variable: "xml"}) == (
            "target 't' (conf/targets.yaml:2): log_format: expected summary or json, got the text 'xml' (from "
            f"{variable})"
        )


class TestOthers:
    def test_vscode(self, resolve: Resolver) -> None:
        body = "vscode-insiders\n    workspaceTemplate: ../a.code-workspace\n    wait: 'false'\n    dryRun: '1'"
        template = str(resolve.project / "a.code-workspace")
        assert resolve(body).settings == VscodeInsiders(workspace_template=template, wait=False, dry_run=True)
        body = "vscode\n    command: /usr/bin/code\n    subagent_root: ${{ R }}\n    workspace_template: ${{ NONE }}"
        assert resolve(body, R="/agents/x").settings == Vscode(vscode_cmd="/usr/bin/code", subagent_root="/agents/x")
        assert resolve("vscode").settings == Vscode()

    @pytest.mark.scenario("Mock provider for dry-run")
    def test_mock(self, resolve: Resolver) -> None:
        body = (
            "mock\n    response: x\n    delayMs: '5'\n    delay_min_ms: 1\n    delayMaxMs: 2\n"
            "    provider_batching: '1'\n    trace: [{type: message}]\n"
            "    output_messages: [{role: assistant, content: hi}]"
        )
        target = resolve(body)
        assert target.settings == Mock(
            response="x",
            delay_ms=5,
            delay_min_ms=1,
            delay_max_ms=2,
            trace=({"type": "message"},),
            output_messages=({"role": "assistant", "content": "hi"},),
        )
        assert target.provider_batching
        assert resolve("mock").settings == Mock()

    def test_python(self, resolve: Resolver) -> None:
        body = (
            "python\n    callable: agents/mine.py:run\n    arguments: {n: 1, who: '${{ W }}'}\n    timeout_seconds: 3"
        )
        expected = Python(callable="agents/mine.py:run", arguments={"n": 1, "who": "w"}, timeout_seconds=3)
        assert resolve(body, W="w").settings == expected


class TestSecrets:
    def test_api_keys_never_show(self, resolve: Resolver) -> None:
        target = resolve("openai\n    model: m\n    api_key: ${{ K }}", K=KEY)
        assert KEY not in repr(target)

    def test_variables_with_telling_names_are_masked_wherever_they_are_used(self, resolve: Resolver) -> None:
        resolve("cli\n    command_template: curl -H ${{ MY_SECRET }} ${{ HOST }}", MY_SECRET=KEY, HOST="host-name")
        assert resolve.secrets.mask(f"curl -H {KEY} host-name") == "curl -H *** host-name"

    def test_a_number_under_a_key_that_sounds_like_a_secret_is_none(self, resolve: Resolver) -> None:
        resolve("gemini\n    max_output_tokens: ${{ N }}", N="100000", GOOGLE_API_KEY=KEY)
        assert resolve.secrets.mask("100000") == "100000"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_text_of_a_variable_arrives_unchanged(resolve: Resolver, text: str) -> None:
    assert resolve("mock\n    response: ${{ V }}", V=text).settings == Mock(response=text)


@pytest.mark.parametrize(
    "body", ["mock\n    workers: 0", "cli\n    command_template: x\n    provider_batching: 'true'"]
)
def test_what_no_variable_could_mend_is_found_while_loading(resolve: Resolver, body: str) -> None:
    with pytest.raises(TargetsError):
        resolve(body)
