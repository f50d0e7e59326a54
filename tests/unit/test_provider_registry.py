import pickle
import subprocess
import sys

import pytest

from pytest_agentv.cli.schema import schema_of
from pytest_agentv.model.cases import Target
from pytest_agentv.providers.api.anthropic import Anthropic
from pytest_agentv.providers.api.azure import Azure
from pytest_agentv.providers.api.gemini import Gemini
from pytest_agentv.providers.api.model import Litellm
from pytest_agentv.providers.api.openai import OpenAi
from pytest_agentv.providers.api.provider import LlmProvider
from pytest_agentv.providers.base import BatchProvider
from pytest_agentv.providers.cli import Cli, CliProvider
from pytest_agentv.providers.kind import Provider
from pytest_agentv.providers.mock import Mock, MockProvider
from pytest_agentv.providers.python import Python, PythonProvider
from pytest_agentv.providers.table import KINDS, create_provider


@pytest.mark.parametrize(
    ("settings", "expected", "mode"),
    [
        (Cli(command_template="echo"), CliProvider, "agent"),
        (Mock(), MockProvider, "lm"),
        (Python(callable="m:f"), PythonProvider, "lm"),
        *[(kind(model="m"), LlmProvider, "lm") for kind in (Anthropic, Gemini, OpenAi, Litellm)],
        (Azure(model="m", base_url="r"), LlmProvider, "lm"),
    ],
)
def test_each_kind_opens_its_adapter(settings: Provider, expected: type, mode: str) -> None:
    provider = create_provider(Target("t", settings.kind, settings), {})

    assert type(provider) is expected
    assert provider.mode == mode
    assert isinstance(provider, BatchProvider) == (settings.kind == "cli")


def test_each_word_of_the_table_finds_its_class() -> None:
    assert {word: KINDS.table[word].kind for word in KINDS.table} == {word: word for word in KINDS.table}


@pytest.mark.parametrize("word", KINDS.table)
def test_each_kind_describes_its_keys_and_can_be_pickled(word: str) -> None:
    kind = KINDS.table[word]
    needed = {"command_template": "run", "callable": "m:f", "model": "m", "url": "http://x", "app": "m:app"}
    settings = kind(**{key: value for key, value in needed.items() if key in kind.model_fields})

    assert pickle.loads(pickle.dumps(settings)) == settings
    assert {name for name, field in kind.model_fields.items() if not field.description} == set()
    assert kind.__doc__


def test_the_schema_knows_the_kinds_of_the_table() -> None:
    target = schema_of("targets")["definitions"]["target"]
    words = target["properties"]["provider"]["anyOf"][0]["enum"]
    shapes = {case["if"]["properties"]["provider"]["const"]: case["then"]["$ref"] for case in target["allOf"]}

    assert set(words) == {*KINDS.table, *KINDS.unsupported}
    assert shapes == {word: f"#/definitions/{KINDS.table[word].__name__}" for word in KINDS.table}


def test_a_kind_of_a_plugin_is_opened_by_its_factory_and_comes_before_ours() -> None:
    mine = MockProvider("mine", Mock())
    kinds = KINDS.with_own({"Mine": lambda target, environment: mine, "cli": lambda target, environment: mine})

    for word in ("mine", "cli"):
        assert create_provider(Target("t", word, kinds.table[word](anything=1)), {}) is mine


def test_the_table_imports_no_provider() -> None:
    program = (
        "import sys, pytest_agentv.providers.table\n"
        "print([name for name in ('pydantic', 'asyncio', 'litellm') if name in sys.modules])\n"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout == "[]\n"
