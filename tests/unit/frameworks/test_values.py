"""Generators, conversations, sizes, and values that are no answers."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from unittest.mock import MagicMock

import pytest

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers import python_calls
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.python import FunctionProvider, adapt_provider
from pytest_agentv.providers.wire import plain

REQUEST = ProviderRequest(Prompt("the question"), "case")


def ask(value, request=REQUEST, **settings):
    provider = FunctionProvider("mine", value, {}, **settings) if settings else adapt_provider(value, "mine")
    return asyncio.run(provider.invoke(request))


def answer(value):
    return candidate_answer(ask(value).output_messages)


async def chunks(prompt):
    for word in prompt.split():
        yield word


async def texts_then_result(prompt):
    yield "the "
    yield {"text": "whole", "token_usage": {"input": 1, "output": 2}}


def sync_chunks(prompt):
    yield from ("the", "question")


async def returns_generator(prompt):
    return chunks(prompt)


@pytest.mark.parametrize("function", [chunks, sync_chunks, returns_generator, lambda prompt: map(str, prompt.split())])
def test_generators_of_texts_are_read_to_their_end(function):
    assert answer(function) == "thequestion"
    assert ask(function).is_text_only


def test_a_whole_result_may_follow_its_texts():
    response = ask(texts_then_result)

    assert candidate_answer(response.output_messages) == "whole"
    assert response.token_usage is not None


def test_chunks_of_chat_completions_are_joined(told):
    def chunk(**delta):
        choices = [{"delta": delta, "finish_reason": None}]
        return {"object": "chat.completion.chunk", "choices": choices, "model": "gpt-4o"}

    def function(prompt):
        yield chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"or'}}])
        yield chunk(tool_calls=[{"index": 0, "function": {"arguments": 'der": 7}'}}])
        yield chunk(content="do")
        yield chunk(content="ne")
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        yield {"object": "chat.completion.chunk", "choices": [], "usage": usage, "model": "gpt-4o"}

    response = ask(function)

    assert [tool[:2] for tool in told(response)[0]] == [("lookup", {"order": 7})]
    assert candidate_answer(response.output_messages) == "done"
    assert response.token_usage is not None


def test_a_generator_that_raises_or_yields_anything_is_an_error():
    async def raises(prompt):
        yield "a"
        raise ValueError("no luck")

    with pytest.raises(ProviderError, match="mine raised ValueError: no luck"):
        ask(raises)
    with pytest.raises(ProviderError, match="it yields values of type int, of which no answer can be made"):
        ask(lambda prompt: iter([1, 2]))


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
