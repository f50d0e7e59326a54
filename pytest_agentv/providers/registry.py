"""The table of provider kinds. What a kind needs is imported when a target of it is created."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.targets import CliSettings, LlmSettings, MockSettings, PythonSettings, Target, VscodeSettings
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


def _create_claude_code(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.agent import AgentProvider  # noqa: PLC0415 - as above
    from pytest_agentv.providers.claude_code import ClaudeCode  # noqa: PLC0415 - as above

    return AgentProvider(target, environment, ClaudeCode())


def _create_codex(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.agent import AgentProvider  # noqa: PLC0415 - as above
    from pytest_agentv.providers.codex import Codex  # noqa: PLC0415 - as above

    return AgentProvider(target, environment, Codex())


def _create_pi(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.agent import AgentProvider  # noqa: PLC0415 - as above
    from pytest_agentv.providers.pi import Pi  # noqa: PLC0415 - as above

    return AgentProvider(target, environment, Pi())


def _create_python(target: Target, _environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.python import PythonProvider  # noqa: PLC0415 - as above

    assert isinstance(target.settings, PythonSettings)
    return PythonProvider(target.name, target.settings)


def _create_vscode(target: Target, environment: Mapping[str, str]) -> Provider:
    from pytest_agentv.providers.vscode.provider import VscodeProvider  # noqa: PLC0415 - as above

    assert isinstance(target.settings, VscodeSettings)
    return VscodeProvider(target, target.settings, environment)


_FACTORIES: Final[Mapping[str, ProviderFactory]] = {
    "anthropic": _create_llm,
    "azure": _create_llm,
    "claude-code": _create_claude_code,
    "cli": _create_cli,
    "codex": _create_codex,
    "gemini": _create_llm,
    "litellm": _create_llm,
    "mock": _create_mock,
    "openai": _create_llm,
    "pi-coding-agent": _create_pi,
    "python": _create_python,
    "vscode": _create_vscode,
    "vscode-insiders": _create_vscode,
}


def _explain_unknown(target: Target, kinds: list[str]) -> str:
    where = f"{locate(Path(target.path), target.line)}: " if target.path else ""
    head = f"{where}target '{target.name}': "
    hint = did_you_mean(target.kind, kinds)
    return f"{head}unknown provider '{target.kind}'{f', {hint}' if hint else ';'} known are {', '.join(kinds)}"
