"""Targets: what is evaluated, with every variable of its definition resolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.secrets import Secret

DEFAULT_RETRY_STATUS_CODES: Final = (500, 408, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class RetryPolicy(Record):
    """How a model provider repeats failed requests; delay k is `initial * factor**k`, capped, with jitter."""

    max_retries: int = 3
    initial_delay_ms: float = 1000
    max_delay_ms: float = 60_000
    backoff_factor: float = 2
    status_codes: tuple[int, ...] = DEFAULT_RETRY_STATUS_CODES


@dataclass(frozen=True, slots=True)
class HttpHealthcheck(Record):
    """GET a URL; 2xx is healthy."""

    url: str
    timeout_seconds: float | None = None
    type: Literal["http"] = "http"


@dataclass(frozen=True, slots=True)
class CommandHealthcheck(Record):
    """Run a command; exit code 0 is healthy."""

    command_template: str
    cwd: str
    """Absolute."""
    timeout_seconds: float | None = None
    type: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class CliSettings(Record):
    """A command line, rendered once per case (agentv-formats 4.6)."""

    command_template: str
    cwd: str
    """Absolute."""
    stdin: str | None = None
    """What the command reads, with placeholders; None: nothing."""
    files_format: str = "{path}"
    timeout_seconds: float | None = None
    verbose: bool = False
    keep_temp_files: bool = False
    env: Mapping[str, "str | Secret"] = field(default_factory=dict)
    healthcheck: HttpHealthcheck | CommandHealthcheck | None = None


@dataclass(frozen=True, slots=True)
class MockSettings(Record):
    """A canned answer after an optional delay."""

    response: str | None = None
    delay_ms: float = 0
    delay_min_ms: float = 0
    delay_max_ms: float = 0
    trace: tuple[JsonObject, ...] | None = None
    output_messages: tuple[JsonObject, ...] | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class PythonSettings(Record):
    """A Python function: `package.module:function` or `path/to/file.py:function`."""

    callable: str
    cwd: str
    """Absolute folder that a `file.py` is relative to: that of the targets file."""
    arguments: JsonObject = field(default_factory=dict)
    """Extra keyword arguments of every call."""
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LlmSettings(Record):
    """A model behind an API (agentv-formats 4.5)."""

    model: str
    """The model, or the deployment."""
    api_key: Secret | None = None
    base_url: str | None = None
    api_version: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    thinking_budget: int | None = None
    client: Literal["direct", "litellm"] = "direct"
    """Whether the API is asked directly or through litellm; the kind `litellm` always goes through it."""


@dataclass(frozen=True, slots=True)
class AgentSettings(Record):
    """A coding agent's program (agentv-formats 4.5: codex, claude-code, pi-coding-agent)."""

    executable: str
    args: tuple["str | Secret", ...] = ()
    cwd: str | None = None
    """Absolute; None: a temporary workspace per call."""
    timeout_seconds: float | None = None
    log_dir: str | None = None
    log_format: Literal["summary", "json"] = "summary"
    system_prompt: str | None = None
    model: str | None = None
    llm_provider: str | None = None
    api_key: Secret | None = None
    tools: str | None = None
    thinking: str | None = None


@dataclass(frozen=True, slots=True)
class VscodeSettings(Record):
    """VS Code through the subagent protocol (agentv-formats 5.7)."""

    vscode_cmd: str
    workspace_template: str | None = None
    wait: bool = True
    dry_run: bool = False
    subagent_root: str | None = None


ProviderSettings: TypeAlias = (
    CliSettings | MockSettings | PythonSettings | LlmSettings | AgentSettings | VscodeSettings | JsonObject
)
"""A kind added by a plugin gets its keys as written, variables resolved."""


@dataclass(frozen=True, slots=True)
class Target(Record):
    """One target, ready to be called."""

    name: str
    """As cases and options choose it."""
    kind: str
    """Canonical provider kind: `azure`, `cli`, `mock`, …"""
    settings: ProviderSettings
    judge_target: str | None = None
    """The target that judges; None: none is named."""
    workers: int | None = None
    """Cases in flight, 1 to 50; None: not written."""
    provider_batching: bool = False
    """Whether one call answers many cases."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    path: str | None = None
    """The targets file it was read from, absolute."""
    line: int | None = None
    """The line in the targets file, 1-based."""
