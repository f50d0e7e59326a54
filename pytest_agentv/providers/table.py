"""The kinds of targets by name. The class of a kind is imported when a targets file first uses it."""

from typing import Any, Final

from pytest_agentv.loading.targets.kinds import TargetKinds
from pytest_agentv.models.kind_table import Factory, KindTable


def _class_of_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.providers.factory_kind import class_of_factory  # noqa: PLC0415 - imports pydantic

    return class_of_factory(word, factory)


KINDS: Final = TargetKinds(
    KindTable(
        {
            "azure": "pytest_agentv.providers.apis.azure:Azure",
            "anthropic": "pytest_agentv.providers.apis.anthropic:Anthropic",
            "gemini": "pytest_agentv.providers.apis.gemini:Gemini",
            "openai": "pytest_agentv.providers.apis.openai:OpenAi",
            "litellm": "pytest_agentv.providers.apis.litellm:Litellm",
            "http": "pytest_agentv.providers.services.http:Http",
            "asgi": "pytest_agentv.providers.services.asgi:Asgi",
            "cli": "pytest_agentv.providers.cli.cli:Cli",
            "mock": "pytest_agentv.providers.mock:Mock",
            "python": "pytest_agentv.providers.python.python:Python",
            "codex": "pytest_agentv.providers.agents.codex:Codex",
            "claude-code": "pytest_agentv.providers.agents.claude_code:ClaudeCode",
            "pi-coding-agent": "pytest_agentv.providers.agents.pi:Pi",
            "vscode": "pytest_agentv.providers.vscode.provider:Vscode",
            "vscode-insiders": "pytest_agentv.providers.vscode.provider:VscodeInsiders",
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
"""The built-in kinds."""
