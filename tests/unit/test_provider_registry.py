import subprocess
import sys

import pytest

from pytest_agentv.errors import TargetError
from pytest_agentv.models.targets import (
    CliSettings,
    LlmSettings,
    MockSettings,
    ProviderSettings,
    PythonSettings,
    Target,
)
from pytest_agentv.providers.base import BatchProvider
from pytest_agentv.providers.cli import CliProvider
from pytest_agentv.providers.llm import LlmProvider
from pytest_agentv.providers.mock import MockProvider
from pytest_agentv.providers.python import PythonProvider
from pytest_agentv.providers.registry import create_provider


@pytest.mark.parametrize(
    ("kind", "settings", "expected", "mode"),
    [
        ("cli", CliSettings("echo", "/"), CliProvider, "agent"),
        ("mock", MockSettings(), MockProvider, "lm"),
        ("python", PythonSettings("m:f", "/"), PythonProvider, "lm"),
        *[(kind, LlmSettings("m"), LlmProvider, "lm") for kind in ("anthropic", "gemini", "openai", "litellm")],
        ("azure", LlmSettings("m", base_url="r"), LlmProvider, "lm"),
    ],
)
def test_each_kind_has_its_provider(kind: str, settings: ProviderSettings, expected: type, mode: str) -> None:
    provider = create_provider(Target("t", kind, settings), {})

    assert type(provider) is expected
    assert provider.mode == mode
    assert isinstance(provider, BatchProvider) == (kind == "cli")


def test_a_kind_of_a_plugin_is_created_by_its_factory_and_comes_before_ours() -> None:
    mine = MockProvider("mine", MockSettings())
    extra = {"mine": lambda target, environment: mine, "cli": lambda target, environment: mine}

    assert create_provider(Target("t", "mine", {}), {}, extra) is mine
    assert create_provider(Target("t", "cli", {}), {}, extra) is mine


def explain(target: Target) -> str:
    with pytest.raises(TargetError) as caught:
        create_provider(target, {}, {"mine": lambda target, environment: MockProvider("", MockSettings())})
    return str(caught.value)


def test_an_unknown_kind_is_an_error_with_its_place_and_the_known_ones() -> None:
    target = Target("t", "pyton", {}, path="/p/targets.yaml", line=3)

    assert explain(target) == (
        "/p/targets.yaml:3: target 't': unknown provider 'pyton', did you mean 'python'? "
        "known are anthropic, azure, claude-code, cli, codex, gemini, litellm, mine, mock, openai, pi-coding-agent, "
        "python, vscode, vscode-insiders"
    )


def test_an_unknown_kind_like_no_other_is_an_error_without_a_guess() -> None:
    assert explain(Target("t", "zzz", {})) == (
        "target 't': unknown provider 'zzz'; "
        "known are anthropic, azure, claude-code, cli, codex, gemini, litellm, mine, mock, openai, pi-coding-agent, "
        "python, vscode, vscode-insiders"
    )


def test_the_table_imports_no_provider() -> None:
    program = (
        "import sys, pytest_agentv.providers.registry\n"
        "print([name for name in ('pydantic', 'asyncio', 'litellm') if name in sys.modules])\n"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout == "[]\n"
