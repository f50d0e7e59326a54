"""The kinds of targets by name. The class of a kind is imported when a targets file first uses it."""

from collections.abc import Mapping
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind_table import Factory, KindTable
from pytest_agentv.providers.base import Adapter, TargetEnvironment
from pytest_agentv.targets.definitions import TargetKinds


def _class_of_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.providers.kind import class_of_factory  # noqa: PLC0415 - imports pydantic

    return class_of_factory(word, factory)


KINDS: Final = TargetKinds(
    KindTable(
        {
            "azure": "pytest_agentv.providers.api.openai:Azure",
            "anthropic": "pytest_agentv.providers.api.anthropic:Anthropic",
            "gemini": "pytest_agentv.providers.api.gemini:Gemini",
            "openai": "pytest_agentv.providers.api.openai:OpenAi",
            "litellm": "pytest_agentv.providers.api.model:Litellm",
            "http": "pytest_agentv.providers.http:Http",
            "asgi": "pytest_agentv.providers.http:Asgi",
            "cli": "pytest_agentv.providers.cli:Cli",
            "mock": "pytest_agentv.providers.mock:Mock",
            "python": "pytest_agentv.providers.python:Python",
            "codex": "pytest_agentv.providers.agent_programs:Codex",
            "claude-code": "pytest_agentv.providers.agent_programs:ClaudeCode",
            "pi-coding-agent": "pytest_agentv.providers.agent_programs:Pi",
            "vscode": "pytest_agentv.providers.vscode:Vscode",
            "vscode-insiders": "pytest_agentv.providers.vscode:VscodeInsiders",
        },
        from_factory=_class_of_factory,
    ),
    other_spellings={
        "azure-openai": "azure",
        "google": "gemini",
        "google-gemini": "gemini",
        "codex-cli": "codex",
        "pi": "pi-coding-agent",
        "vscode-copilot": "vscode",
    },
    unsupported={"pi-agent-sdk": "is a JavaScript library, which cannot run here; use provider: pi-coding-agent"},
)


def create_provider(target: Target, variables: Mapping[str, str], timeout_seconds: float | None = None) -> Adapter:
    """Open a target. `timeout_seconds` is the limit for the checks and the end of a user's object; None: no limit."""
    environment = TargetEnvironment(target, variables)
    opened: Adapter = target.settings.open(environment)
    if type(opened).__module__.startswith("pytest_agentv."):
        return opened
    if not callable(getattr(opened, "invoke", None)):
        found = f"open() returned {type(opened).__name__}, expected an object with `invoke`"
        raise ProviderError(f"{environment.where}: {found}", "config")
    from pytest_agentv.providers.python import ForeignAdapter  # noqa: PLC0415 - only for kinds of users

    return ForeignAdapter(opened, environment.where, timeout_seconds)
