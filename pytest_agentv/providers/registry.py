"""The table of provider kinds. What a kind needs is imported when a target of it is created."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.targets import CliSettings, LlmSettings, MockSettings, PythonSettings, Target
from pytest_agentv.providers.base import Provider, ProviderFactory


def create_provider(
    target: Target, environment: Mapping[str, str], extra: Mapping[str, ProviderFactory] | None = None
) -> Provider:
    """Create the provider of a target.

    Args:
        target: The target, its variables resolved.
        environment: Variables of the processes it starts: this process's and those of `.env`.
        extra: Kinds added by plugins and conftest files; they come before those of the table.

    Raises `TargetError` for a kind that is not known.
    """
    kinds = {**_FACTORIES, **(extra or {})}
    factory = kinds.get(target.kind)
    if factory is None:
        raise TargetError(_explain_unknown(target, sorted(kinds)))
    return factory(target, environment)


def _create_cli(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.cli import CliProvider  # noqa: PLC0415 - pydantic and asyncio, for those who use them

    assert isinstance(target.settings, CliSettings)
    return CliProvider(target.name, target.settings, environment)


def _create_llm(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.llm import LlmProvider  # noqa: PLC0415 - as above

    assert isinstance(target.settings, LlmSettings)
    return LlmProvider(target, environment)


def _create_mock(target: Target, _environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.mock import MockProvider  # noqa: PLC0415 - as above

    assert isinstance(target.settings, MockSettings)
    return MockProvider(target.name, target.settings)


def _create_python(target: Target, _environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.python import PythonProvider  # noqa: PLC0415 - as above

    assert isinstance(target.settings, PythonSettings)
    return PythonProvider(target.name, target.settings)


_FACTORIES: Final[Mapping[str, ProviderFactory]] = {
    "anthropic": _create_llm,
    "azure": _create_llm,
    "cli": _create_cli,
    "gemini": _create_llm,
    "litellm": _create_llm,
    "mock": _create_mock,
    "openai": _create_llm,
    "python": _create_python,
}

_LATER: Final = frozenset({"codex", "claude-code", "pi-coding-agent", "vscode", "vscode-insiders"})
"""Kinds of AgentV, and of our plans, that are not in the table."""


def _explain_unknown(target: Target, kinds: list[str]) -> str:
    where = f"{locate(Path(target.path), target.line)}: " if target.path else ""
    head = f"{where}target '{target.name}': "
    if target.kind in _LATER:
        reason = f"provider '{target.kind}' is not part of this version of pytest-agentv"
        return f"{head}{reason}; it has {', '.join(kinds)}"
    hint = did_you_mean(target.kind, kinds)
    return f"{head}unknown provider '{target.kind}'{f', {hint}' if hint else ';'} known are {', '.join(kinds)}"
