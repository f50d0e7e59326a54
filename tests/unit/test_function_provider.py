"""Objects of the user's own as providers: what they may be, and what is said of what they may not."""

import asyncio
import functools
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import Message, candidate_answer
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python import adapt_provider

REQUEST = ProviderRequest(Prompt("the question", "the rules"), "case", system_prompt="the contract")


def answer(value: object) -> str:
    return candidate_answer(asyncio.run(adapt_provider(value, "mine").invoke(REQUEST)).output_messages)


def respond(text: object) -> ProviderResponse:
    return ProviderResponse(output_messages=(Message("assistant", text),))


class Agent:
    """An agent of no particular shape."""

    def ask(self, prompt: str) -> str:
        return f"asked {len(prompt)}"

    async def ask_async(self, prompt: str) -> dict[str, object]:
        return {"text": f"asked {len(prompt)}"}


class Provider:
    mode = "agent"

    async def invoke(self, request: ProviderRequest) -> Any:
        return respond(request.eval_id)


class SyncRunnable:
    def invoke(self, prompt: str) -> str:
        return prompt


class Both(SyncRunnable):
    """As chains of some libraries: to be called, and with an `invoke` that is not async."""

    def __call__(self, prompt: str) -> str:
        return "called"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda prompt: prompt, "the contract\n\nthe rules\n\nthe question"),
        (Agent().ask, "asked 37"),
        (Agent().ask_async, "asked 37"),
        (functools.partial(lambda word, prompt: word, "partial"), "partial"),
        (lambda prompt, request: request.eval_id, "case"),
        (lambda prompt: respond("a response"), "a response"),
        (Provider(), "case"),
        (Both(), "called"),
        (SyncRunnable().invoke, "the contract\n\nthe rules\n\nthe question"),
    ],
)
def test_functions_methods_and_providers_are_asked(value: object, expected: str) -> None:
    assert answer(value) == expected


class Markup(str):
    """As that of template engines, which escapes what is added to it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "escaped"

    def __add__(self, other: str) -> str:
        return Markup(f"{str.__str__(self)}(escaped)")


@pytest.mark.parametrize("value", [Markup("yes"), respond(Markup("yes"))], ids=["text", "response"])
def test_an_answer_is_a_plain_text_as_the_cache_returns_it(value: object) -> None:
    found = answer(lambda prompt: value)

    assert type(found) is str
    assert found == "yes"


def test_the_mode_of_a_provider_is_kept_and_a_model_is_assumed_where_it_says_nothing() -> None:
    assert adapt_provider(Provider(), "mine").mode == "agent"
    assert adapt_provider(len, "mine").mode == "lm"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (
            5,
            "mine is a value of type int: expected a function that takes the prompt, or an object with an "
            "async `invoke`",
        ),
        (
            Agent,
            "mine is the class Agent: expected a function that takes the prompt, or an object with an async `invoke`",
        ),
        (
            SyncRunnable(),
            "mine is a value of type SyncRunnable: expected a function that takes the prompt, or an object with an "
            "async `invoke`; its `invoke` is not async: hand over `object.invoke` itself",
        ),
    ],
)
def test_anything_else_is_refused_with_what_was_expected(value: object, found: str) -> None:
    with pytest.raises(ProviderError) as caught:
        adapt_provider(value, "mine")
    assert (str(caught.value), caught.value.kind) == (found, "config")


@pytest.mark.parametrize(
    ("value", "message", "kind"),
    [
        (lambda: "", "mine cannot be called as function(prompt): too many positional arguments", "config"),
        (lambda prompt: None, "mine returned None: expected a str, a mapping with", "crash"),
        (lambda prompt: {"txt": "x"}, "mine returned a mapping with 'txt': expected 'text' or", "crash"),
    ],
)
def test_what_goes_wrong_in_a_call_is_told_under_the_objects_name(value: object, message: str, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        answer(value)
    assert str(caught.value).startswith(message)
    assert caught.value.kind == kind


def test_an_invoke_that_returns_no_answer_says_so() -> None:
    class Careless:
        async def invoke(self, request: ProviderRequest) -> int:
            return 5

    with pytest.raises(ProviderError, match=r"mine: invoke\(\) returned a value of type int: expected a str"):
        answer(Careless())
