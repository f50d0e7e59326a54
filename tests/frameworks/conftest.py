"""Agents of real packages, with models that are no models: what they return is read, and nothing is downloaded.

Each file needs its package and is skipped without it. `.ci/run` has environments with the newest and with older ones.
"""

import asyncio
import base64
import gc
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLlm

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.model.messages import FilePart, Media
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python import adapt_provider

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

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"

Ask = Callable[..., ProviderResponse]


@pytest.fixture(scope="module", autouse=True)
def _free() -> Iterator[None]:
    """Free the clients and event loops that a framework leaves open, in the module that allows their warnings.

    The garbage collector frees them at a time that nobody knows: their warnings were errors of later tests.
    """
    yield
    gc.collect()


@pytest.fixture
def ask() -> Ask:
    """Ask an agent or a function, as a run asks it: once, or at once as often as is said."""

    def ask_one(value: Any, *, conversation: bool = False) -> ProviderResponse:
        return asyncio.run(adapt_provider(value, "mine").invoke(CONVERSATION if conversation else QUESTION))

    return ask_one


@pytest.fixture
def png() -> bytes:
    """The picture that `show` shows."""
    return PNG


@pytest.fixture
def pdf() -> bytes:
    """The PDF that `show` shows."""
    return PDF


@pytest.fixture(params=["question", "conversation"])
def show(request: pytest.FixtureRequest, tmp_path: Path) -> Ask:
    """Ask an agent with a picture and a PDF: in one question, and at the end of a conversation with another picture."""

    def show_to(value: Any) -> ProviderResponse:
        chart = _part(tmp_path / "chart.png", PNG, "image/png")
        report = _part(tmp_path / "report.pdf", PDF, "application/pdf")
        parts = ("Where is order 7?", chart, report)
        words = 'Where is order 7?\n\n<file: path="chart.png">'
        prompt = Prompt(words, parts=parts)
        if request.param == "conversation":
            before = (ChatMessage("user", "Hello", ("Hello", chart)), ChatMessage("assistant", "Hi!"))
            prompt = Prompt(words, chat_prompt=(*before, ChatMessage("user", words, parts)))
        return asyncio.run(adapt_provider(value, "mine").invoke(ProviderRequest(prompt, "case")))

    return show_to


def _part(path: Path, content: bytes, kind: str) -> FilePart:
    path.write_bytes(content)
    media = Media(kind, hashlib.sha256(content).hexdigest(), len(content))
    return FilePart(path.name, path.name, str(path), "", media=media)


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
