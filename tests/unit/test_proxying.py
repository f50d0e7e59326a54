"""The targets that judge scripts may call: their names, the default one, and how they are asked."""

import asyncio

import pytest

from pytest_agentv.engine.embedding import CallableTargets
from pytest_agentv.engine.judging import needs_targets
from pytest_agentv.errors import ProviderError, TargetError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.context import ProxiedQuestion
from pytest_agentv.evaluators.limits import Cost
from pytest_agentv.evaluators.script import CodeJudge, Proxy
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


def test_a_default_target_that_cannot_be_used_is_an_error_at_once():
    def open_target(name):
        raise TargetError(f"{name} is unset")

    with pytest.raises(TargetError, match="judge is unset"):
        CallableTargets("main", ("judge",), "judge", open_target)


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


def test_without_a_system_prompt_only_the_question_is_sent():
    provider = RecordingProvider(ProviderResponse())
    ask(provider, "cli", ASKED.replace(system_prompt=None))
    assert (provider.requests[0].prompt.question, provider.requests[0].system_prompt) == ("q", None)


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


def test_a_response_with_an_error_is_returned_with_what_it_took():
    failed = ProviderResponse(error="out of memory", cost_usd=0.5)
    assert ask(RecordingProvider(failed)) == failed


def test_only_judges_with_target_need_targets():
    plain = CodeJudge(script=("x",))
    calling = CodeJudge(script=("x",), target=Proxy(max_calls=0))
    cost = Cost(budget=1)

    def composite(*members: Evaluator) -> Evaluator:
        return Composite(evaluators=members, aggregator=WeightedAverage())

    assert not needs_targets([plain, cost, composite(plain, cost)])
    assert needs_targets([cost, calling])
    assert needs_targets([plain, composite(cost, composite(plain, calling))])
