"""The targets that judge scripts may call: their names, the default one, and how they are asked."""

import asyncio

import pytest

from pytest_agentv.engine.embedding import CallableTargets
from pytest_agentv.errors import ProviderError
from pytest_agentv.evaluators.context import ProxiedQuestion
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import KINDS

ASKED = ProxiedQuestion("q", "be strict", "case", 1, 7.5)


class RecordingProvider:
    mode = "lm"

    def __init__(self, response: ProviderResponse | Exception) -> None:
        self.requests: list[ProviderRequest] = []
        self._response = response

    async def check(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        if isinstance(self._response, Exception):
            raise self._response
        return self._response

    async def close(self) -> None: ...


def ask(provider: RecordingProvider, kind: str = "mock", asked: ProxiedQuestion = ASKED) -> ProviderResponse:
    settings = KINDS.table[kind]
    targets = CallableTargets("main", ("main", "other"), "other", lambda name: (Target(name, kind, settings), provider))
    return asyncio.run(targets.resolve("main")(asked))


def test_the_target_under_test_is_named_first_and_each_name_once():
    opened = []
    targets = CallableTargets("b", ("a", "b", "c", "a"), "c", opened.append)
    assert (targets.names, targets.default_name) == (("b", "a", "c"), "c")
    assert opened == ["c"], "the default target is resolved before anything is paid for"


@pytest.mark.parametrize(
    ("kind", "question", "system_prompt"),
    [("mock", "q", "be strict"), ("azure", "q", "be strict"), ("cli", "be strict\n\nq", None)],
)
def test_a_system_prompt_goes_before_the_question_where_the_kind_has_none(kind, question, system_prompt):
    provider = RecordingProvider(ProviderResponse((Message("assistant", "a"),)))
    response = ask(provider, kind)
    [request] = provider.requests
    assert (request.prompt.question, request.system_prompt) == (question, system_prompt)
    assert (request.eval_id, request.attempt, request.timeout_seconds) == ("case", 1, 7.5)
    assert response.output_messages == (Message("assistant", "a"),)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (ProviderError("no answer", "timeout"), "no answer"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_a_call_is_made_once_and_its_failure_is_an_error(response, message):
    provider = RecordingProvider(response)
    with pytest.raises(ProviderError) as caught:
        ask(provider, asked=ASKED.replace(attempt=0))
    assert str(caught.value) == message
    assert len(provider.requests) == 1
