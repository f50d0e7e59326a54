"""Agents of real packages, with models that are no models: what they return is read, and nothing is downloaded.

Each file needs its package and is skipped without it. `.ci/run` has environments with the newest and with older ones.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_llm import FakeLlm

from pytest_agentv.prompts.prompt import ChatMessage, Prompt
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python.foreign import adapt_provider

QUESTION = ProviderRequest(Prompt("Where is order 7?"), "case")
CONVERSATION = ProviderRequest(
    Prompt(
        "@[User]:\nHello\n\n@[Assistant]:\nHi!\n\n@[User]:\nWhere is order 7?",
        chat_prompt=(
            ChatMessage("system", "Be brief."),
            ChatMessage("user", "Hello"),
            ChatMessage("assistant", "Hi!"),
            ChatMessage("user", "Where is order 7?"),
        ),
    ),
    "case",
)

Ask = Callable[..., ProviderResponse]


@pytest.fixture
def ask() -> Ask:
    """Ask an agent or a function, as a run asks it: once, or at once as often as is said."""

    def ask_one(value: Any, *, conversation: bool = False) -> ProviderResponse:
        return asyncio.run(adapt_provider(value, "mine").invoke(CONVERSATION if conversation else QUESTION))

    return ask_one


@pytest.fixture
def ask_many() -> Callable[[Any, list[str]], list[ProviderResponse]]:
    """Ask an agent many questions at once."""

    async def ask_all(value: Any, questions: list[str]) -> list[ProviderResponse]:
        provider = adapt_provider(value, "mine")
        requests = [ProviderRequest(Prompt(question), f"case-{index}") for index, question in enumerate(questions)]
        return await asyncio.gather(*map(provider.invoke, requests))

    return lambda value, questions: asyncio.run(ask_all(value, questions))


@pytest.fixture
def fake_llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server
