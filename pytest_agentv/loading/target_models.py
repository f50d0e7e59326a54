"""What may be written in a target of each provider kind: keys with their spellings, types, which are required.

The first spelling of a key is the canonical one. Importing this costs pydantic: import it inside functions.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.target_fields import (
    AnyText,
    CallableName,
    Count,
    Factor,
    FilesFormat,
    Flag,
    InputTemplate,
    LogFormat,
    Milliseconds,
    Number,
    OptionalText,
    PositiveCount,
    RealFlag,
    RealSeconds,
    Seconds,
    StatusCode,
    Template,
    Text,
    Url,
    Workers,
)


def _keys(*spellings: str, default: Any = None) -> Any:
    return Field(default, validation_alias=AliasChoices(*spellings))


def _required(*spellings: str, description: str) -> Any:
    """`description` ends the message of a target without the key."""
    return Field(validation_alias=AliasChoices(*spellings), description=description)


class TargetModel(BaseModel):
    """What every target has."""

    model_config = ConfigDict(populate_by_name=True)

    name: Text = Field(description="the name that runs and cases choose the target by")
    provider: Text = Field(description="the kind of target: azure, cli, mock, …")
    judge_target: OptionalText = None
    workers: Workers | None = None
    provider_batching: Flag = _keys("provider_batching", "providerBatching", default=False)


class _RetryingModel(TargetModel):
    """A model behind an API, and how failed requests are repeated (agentv-formats 4.7)."""

    api_key: OptionalText = _keys("api_key", "apiKey")
    base_url: OptionalText = _keys("base_url", "baseUrl", "baseURL", "endpoint")
    temperature: Number | None = None
    max_output_tokens: PositiveCount | None = _keys("max_output_tokens", "maxOutputTokens", "maxTokens")
    max_retries: Count | None = _keys("max_retries", "maxRetries")
    retry_initial_delay_ms: Milliseconds | None = _keys("retry_initial_delay_ms", "retryInitialDelayMs")
    retry_max_delay_ms: Milliseconds | None = _keys("retry_max_delay_ms", "retryMaxDelayMs")
    retry_backoff_factor: Factor | None = _keys("retry_backoff_factor", "retryBackoffFactor")
    retry_status_codes: list[StatusCode] | None = _keys("retry_status_codes", "retryStatusCodes")


class _DirectModel(_RetryingModel):
    """A model whose API is asked directly, unless the target says otherwise."""

    client: Literal["direct", "litellm"] = "direct"


class AzureModel(_DirectModel):
    base_url: OptionalText = _keys("endpoint", "resource", "resourceName", "base_url", "baseUrl", "baseURL")
    model: OptionalText = _keys("deployment", "deploymentName", "model")
    api_version: OptionalText = _keys("version", "api_version", "apiVersion")


class AnthropicModel(_DirectModel):
    model: Text = _required("model", "deployment", "variant", description="the name of the model")
    thinking_budget: PositiveCount | None = _keys("thinking_budget", "thinkingBudget")


class GeminiModel(_DirectModel):
    model: OptionalText = _keys("model", "deployment", "variant")


class LitellmModel(_RetryingModel):
    """Any model string of litellm, or of an API that speaks OpenAI's language."""

    model: Text = _required("model", "deployment", "variant", description="the name of the model")
    api_version: OptionalText = _keys("api_version", "apiVersion", "version")


class OpenAiModel(LitellmModel, _DirectModel):
    """A model of OpenAI, or of a server that speaks its language."""


class _AgentModel(TargetModel):
    executable: OptionalText = _keys("executable", "command", "binary")
    args: list[Text] | None = _keys("args", "arguments")
    cwd: OptionalText = None
    timeout_seconds: Seconds | None = _keys("timeout_seconds", "timeoutSeconds")
    log_dir: OptionalText = _keys("log_dir", "logDir", "log_directory", "logDirectory")
    log_format: LogFormat = _keys("log_format", "logFormat", "log_output_format", "logOutputFormat", default="summary")
    system_prompt: OptionalText = _keys("system_prompt", "systemPrompt")
    model: OptionalText = None


class CodexModel(_AgentModel):
    pass


class ClaudeCodeModel(_AgentModel):
    pass


class PiModel(_AgentModel):
    model: OptionalText = _keys("model", "pi_model", "piModel")
    llm_provider: OptionalText = _keys("pi_provider", "piProvider", "llm_provider")
    api_key: OptionalText = _keys("api_key", "apiKey")
    tools: OptionalText = _keys("tools", "pi_tools", "piTools")
    thinking: OptionalText = _keys("thinking", "pi_thinking", "piThinking")


class VscodeModel(TargetModel):
    vscode_cmd: OptionalText = _keys("vscode_cmd", "command")
    workspace_template: OptionalText = _keys("workspace_template", "workspaceTemplate")
    wait: Flag = True
    dry_run: Flag = _keys("dry_run", "dryRun", default=False)
    subagent_root: OptionalText = _keys("subagent_root", "subagentRoot")


class MockModel(TargetModel):
    response: AnyText | None = None
    delay_ms: Milliseconds = _keys("delay_ms", "delayMs", default=0)
    delay_min_ms: Milliseconds = _keys("delay_min_ms", "delayMinMs", default=0)
    delay_max_ms: Milliseconds = _keys("delay_max_ms", "delayMaxMs", default=0)
    trace: list[dict[str, Any]] | None = None
    output_messages: list[dict[str, Any]] | None = _keys("output_messages", "outputMessages")
    finish_reason: OptionalText = _keys("finish_reason", "finishReason")


class PythonModel(TargetModel):
    callable: CallableName = Field(description="package.module:function or path/to/file.py:function")
    arguments: dict[str, Any] | None = None
    timeout_seconds: Seconds | None = _keys("timeout_seconds", "timeoutSeconds")


class HttpHealthcheckModel(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    type: Literal["http"]
    url: Url = Field(description="the URL to GET")
    timeout_seconds: RealSeconds | None = _keys("timeout_seconds", "timeoutSeconds")


class CommandHealthcheckModel(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    type: Literal["command"]
    command_template: Template = _required(
        "command_template", "commandTemplate", description="the command to run, with placeholders such as {PROMPT}"
    )
    cwd: OptionalText = None
    timeout_seconds: RealSeconds | None = _keys("timeout_seconds", "timeoutSeconds")


HEALTHCHECKS: Final[Mapping[str, type[BaseModel]]] = {"http": HttpHealthcheckModel, "command": CommandHealthcheckModel}


def _healthcheck(value: object) -> object:
    if isinstance(value, BaseModel):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping with the key type, got {describe_value(value)}")  # noqa: TRY004
    if value.get("type") not in tuple(HEALTHCHECKS):
        raise ValueError(f"type must be 'http' or 'command', got {describe_value(value.get('type'))}")
    return {key: item for key, item in value.items() if item is not None}


def _variable_name(value: str) -> str:
    if not value.strip() or "=" in value or "\0" in value:
        raise ValueError(f"{value!r} is no name of an environment variable")
    return value


class CliModel(TargetModel):
    """Unknown keys are errors here; numbers and booleans are not accepted as texts (agentv-formats 4.6)."""

    provider_batching: RealFlag = _keys("provider_batching", "providerBatching", default=False)
    command_template: Template = _required(
        "command_template", "commandTemplate", description="the command to run, with placeholders such as {PROMPT}"
    )
    stdin: InputTemplate | None = None
    files_format: FilesFormat = _keys("files_format", "filesFormat", "attachments_format", "attachmentsFormat")
    cwd: OptionalText = None
    timeout_seconds: RealSeconds | None = _keys("timeout_seconds", "timeoutSeconds")
    verbose: RealFlag = _keys("verbose", "cli_verbose", "cliVerbose", default=False)
    keep_temp_files: RealFlag = _keys(
        "keep_temp_files", "keepTempFiles", "keep_output_files", "keepOutputFiles", default=False
    )
    env: dict[Annotated[str, BeforeValidator(_variable_name)], AnyText] | None = None
    healthcheck: (
        Annotated[
            Annotated[HttpHealthcheckModel | CommandHealthcheckModel, Field(discriminator="type")],
            BeforeValidator(_healthcheck),
        ]
        | None
    ) = None


MODELS: Final[Mapping[str, type[TargetModel]]] = {
    "azure": AzureModel,
    "anthropic": AnthropicModel,
    "gemini": GeminiModel,
    "openai": OpenAiModel,
    "litellm": LitellmModel,
    "cli": CliModel,
    "mock": MockModel,
    "python": PythonModel,
    "codex": CodexModel,
    "claude-code": ClaudeCodeModel,
    "pi-coding-agent": PiModel,
    "vscode": VscodeModel,
    "vscode-insiders": VscodeModel,
}
"""By canonical kind."""


@functools.cache
def spellings(model: type[BaseModel]) -> Mapping[str, tuple[str, ...]]:
    """Return the accepted keys of each field, the canonical one first."""
    result: dict[str, tuple[str, ...]] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        result[name] = tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (name,)
    return result
