"""Generators, conversations, sizes, and values that are no answers."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from unittest.mock import MagicMock

import pytest

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.providers import python_calls
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.kind import plain
from pytest_agentv.providers.python import FunctionProvider, adapt_provider

REQUEST = ProviderRequest(Prompt("the question"), "case")


def ask(value, request=REQUEST, **settings):
    provider = FunctionProvider("mine", value, {}, **settings) if settings else adapt_provider(value, "mine")
    return asyncio.run(provider.invoke(request))


def test_a_generator_that_never_ends_is_stopped_by_its_time_limit_or_its_size(monkeypatch):
    async def waits(prompt):
        yield "a"
        await asyncio.sleep(1000)

    with pytest.raises(ProviderError, match=r"timed out after 0.1s") as caught:
        ask(waits, timeout_seconds=0.1)
    assert caught.value.kind == "timeout"

    monkeypatch.setattr(python_calls, "SIZE_LIMIT", 1000)
    with pytest.raises(ProviderError, match=r"mine raised ValueError: it has more than 64 million"):
        ask(lambda prompt: iter(lambda: "more", None))


CONVERSATION = REQUEST.replace(
    prompt=Prompt("@[User]: …", chat_prompt=(ChatMessage("system", "Rules"), ChatMessage("user", "Hi")))
)


def test_messages_hand_the_conversation_over_as_a_list():
    seen = []

    def function(messages):
        seen.append(messages)
        return "ok"

    for request in (CONVERSATION, REQUEST, REQUEST.replace(prompt=Prompt("q", "guide"), system_prompt="judge")):
        ask(function, request, as_messages=True)

    assert seen == [
        [{"role": "system", "content": "Rules"}, {"role": "user", "content": "Hi"}],
        [{"role": "user", "content": "the question"}],
        [
            {"role": "system", "content": "judge\n\n[[ ## Guidelines ## ]]\n\nguide"},
            {"role": "user", "content": "q"},
        ],
    ]


def test_keys_of_a_mapping_that_nobody_reads_are_warned_of():
    response = ask(lambda prompt: {"text": "x", "cost": 1, "tokenUsages": {}})

    assert any("'tokenUsages'" in warning and "token_usage" in warning for warning in response.warnings)
    assert any("'cost'" in warning for warning in response.warnings)


def test_a_mock_is_no_answer():
    with pytest.raises(ProviderError, match="mine returned a generator that cannot be read: it yields nothing"):
        ask(lambda prompt: MagicMock())  # has all methods, those of a generator too


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: object


def test_whatever_tools_return_becomes_plain_data():
    assert plain({"a": (1, {2}), 3: Colour.RED}) == {"a": [1, [2]], "3": "red"}
    assert plain(Point(1, b"ab")) == {"x": 1, "y": "YWI="}
    assert plain([float("nan")]) == ["NaN"]
