"""From the checked fields of a target to the settings that its provider gets.

Importing this costs pydantic: import it inside functions.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.loading.target_definitions import Folders
from pytest_agentv.loading.target_models import (
    AnthropicModel,
    AzureModel,
    ClaudeCodeModel,
    CliModel,
    CodexModel,
    CommandHealthcheckModel,
    GeminiModel,
    HttpHealthcheckModel,
    LitellmModel,
    MockModel,
    PiModel,
    PythonModel,
    TargetModel,
    VscodeModel,
)
from pytest_agentv.models.secrets import Secret
from pytest_agentv.models.targets import (
    AgentSettings,
    CliSettings,
    CommandHealthcheck,
    HttpHealthcheck,
    LlmSettings,
    MockSettings,
    ProviderSettings,
    PythonSettings,
    RetryPolicy,
    VscodeSettings,
)

DEFAULT_AZURE_VERSION: Final = "2024-10-01-preview"
DEFAULT_GEMINI_MODEL: Final = "gemini-2.5-flash"
_DEFAULT_EXECUTABLES: Final = {"codex": "codex", "claude-code": "claude", "pi-coding-agent": "pi"}
_DEFAULT_VSCODE_COMMANDS: Final = {"vscode": "code", "vscode-insiders": "code-insiders"}
_VERSION_PREFIX: Final = re.compile(r"(?i)^\s*api[-_]?version=")

LlmModel: TypeAlias = AzureModel | AnthropicModel | GeminiModel | LitellmModel
AgentModel: TypeAlias = CodexModel | ClaudeCodeModel | PiModel
Shield: TypeAlias = Callable[[str], str | Secret]
"""Wraps a text that holds a secret."""


def build_settings(kind: str, fields: TargetModel, folders: Folders, shield: Shield) -> ProviderSettings:
    """Return the settings of a target of a built-in kind; what it needs is there."""
    match fields:
        case AzureModel() | AnthropicModel() | GeminiModel() | LitellmModel():
            return _llm_settings(fields)
        case CodexModel() | ClaudeCodeModel() | PiModel():
            return _agent_settings(kind, fields, folders.cwd, shield)
        case CliModel():
            return _cli_settings(fields, folders.eval_dir, shield)
        case MockModel():
            return _mock_settings(fields)
        case PythonModel():
            cwd = str(folders.targets_dir)
            return PythonSettings(fields.callable, cwd, fields.arguments or {}, fields.timeout_seconds)
        case VscodeModel():
            return _vscode_settings(kind, fields, folders.targets_dir)
    raise TypeError(f"no settings for {type(fields).__name__}")


def build_retry_policy(fields: TargetModel) -> RetryPolicy:
    """Return how a model provider repeats failed requests; other kinds have the defaults."""
    if not isinstance(fields, LlmModel):
        return RetryPolicy()
    codes = fields.retry_status_codes
    written = {
        "max_retries": fields.max_retries,
        "initial_delay_ms": fields.retry_initial_delay_ms,
        "max_delay_ms": fields.retry_max_delay_ms,
        "backoff_factor": fields.retry_backoff_factor,
        "status_codes": None if codes is None else tuple(codes),
    }
    return RetryPolicy().replace(**{name: value for name, value in written.items() if value is not None})


def _llm_settings(fields: LlmModel) -> LlmSettings:
    version = fields.api_version if isinstance(fields, AzureModel | LitellmModel) else None
    if isinstance(fields, AzureModel):
        version = _VERSION_PREFIX.sub("", version or DEFAULT_AZURE_VERSION)
    return LlmSettings(
        model=fields.model or DEFAULT_GEMINI_MODEL,
        api_key=Secret(fields.api_key) if fields.api_key else None,
        base_url=fields.base_url,
        api_version=version,
        temperature=fields.temperature,
        max_output_tokens=fields.max_output_tokens,
        thinking_budget=fields.thinking_budget if isinstance(fields, AnthropicModel) else None,
        client=getattr(fields, "client", "litellm"),
    )


def _agent_settings(kind: str, fields: AgentModel, cwd: Path, shield: Shield) -> AgentSettings:
    settings = AgentSettings(
        executable=_executable(fields.executable or _DEFAULT_EXECUTABLES[kind], cwd),
        args=tuple(shield(text) for text in fields.args or ()),
        cwd=_absolute(cwd, fields.cwd),
        timeout_seconds=fields.timeout_seconds,
        log_dir=_absolute(cwd, fields.log_dir),
        log_format=fields.log_format,
        system_prompt=fields.system_prompt,
        model=fields.model,
    )
    if not isinstance(fields, PiModel):
        return settings
    return settings.replace(
        llm_provider=fields.llm_provider,
        api_key=Secret(fields.api_key) if fields.api_key else None,
        tools=fields.tools,
        thinking=fields.thinking,
    )


def _cli_settings(fields: CliModel, eval_dir: Path, shield: Shield) -> CliSettings:
    return CliSettings(
        command_template=fields.command_template,
        cwd=_absolute(eval_dir, fields.cwd) or str(eval_dir),
        stdin=fields.stdin,
        files_format=fields.files_format or "{path}",
        timeout_seconds=fields.timeout_seconds,
        verbose=fields.verbose,
        keep_temp_files=fields.keep_temp_files,
        env={name: shield(value) for name, value in (fields.env or {}).items()},
        healthcheck=_healthcheck(fields.healthcheck, eval_dir),
    )


def _healthcheck(
    fields: HttpHealthcheckModel | CommandHealthcheckModel | None, eval_dir: Path
) -> HttpHealthcheck | CommandHealthcheck | None:
    match fields:
        case HttpHealthcheckModel():
            return HttpHealthcheck(fields.url, fields.timeout_seconds)
        case CommandHealthcheckModel():
            cwd = _absolute(eval_dir, fields.cwd) or str(eval_dir)
            return CommandHealthcheck(fields.command_template, cwd, fields.timeout_seconds)
    return None


def _mock_settings(fields: MockModel) -> MockSettings:
    messages = fields.output_messages
    return MockSettings(
        response=fields.response,
        delay_ms=fields.delay_ms,
        delay_min_ms=fields.delay_min_ms,
        delay_max_ms=fields.delay_max_ms,
        trace=None if fields.trace is None else tuple(fields.trace),
        output_messages=None if messages is None else tuple(messages),
        finish_reason=fields.finish_reason,
    )


def _vscode_settings(kind: str, fields: VscodeModel, targets_dir: Path) -> VscodeSettings:
    return VscodeSettings(
        vscode_cmd=fields.vscode_cmd or _DEFAULT_VSCODE_COMMANDS[kind],
        workspace_template=_absolute(targets_dir, fields.workspace_template),
        wait=fields.wait,
        dry_run=fields.dry_run,
        subagent_root=_absolute(targets_dir, fields.subagent_root),
    )


def _absolute(folder: Path, path: str | None) -> str | None:
    """Return a path relative to a folder as an absolute one, normalized without following links."""
    return None if path is None else os.path.normpath(folder / path)


def _executable(command: str, cwd: Path) -> str:
    """Return a program's name as it is, and its path as an absolute one: agents run in folders of their own.

    Words may follow the program, unless the whole is the path of a file (agentv-formats 5.4).
    """
    if "/" not in command:
        return command
    if (cwd / command).is_file():
        return os.path.normpath(cwd / command)
    program, *words = command.split(maxsplit=1)
    return " ".join((os.path.normpath(cwd / program) if "/" in program else program, *words))
