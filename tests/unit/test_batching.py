import asyncio
from collections.abc import Sequence

import pytest

from pytest_agentv.cases.prompts import Prompt, PromptMode
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.scheduler import Batch, BatchMember
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import Message, candidate_answer
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse


class SingleProvider:
    """Answers one request at a time."""

    mode: PromptMode = "agent"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.running = 0
        self.most = 0

    async def check(self) -> None: ...

    async def close(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.calls.append([request.eval_id])
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if request.eval_id == "bad":
            raise ProviderError("no answer", "process")
        return answer(request)


class ManyProvider(SingleProvider):
    """Answers all requests in one call, unless it is broken."""

    def __init__(self, error: Exception | None = None, *, forget_last: bool = False) -> None:
        super().__init__()
        self._error = error
        self._forget_last = forget_last

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        self.calls.append([request.eval_id for request in requests])
        if self._error is not None:
            raise self._error
        responses = [answer(request) for request in requests]
        return responses[:-1] if self._forget_last else responses


def answer(request: ProviderRequest) -> ProviderResponse:
    return ProviderResponse(output_messages=(Message("assistant", f"to {request.eval_id}"),))


async def send(provider: SingleProvider, *eval_ids: str, limit: int = 2) -> list[str]:
    batch = Batch(len(eval_ids), limit)
    members = [BatchMember(batch, place) for place in range(len(eval_ids))]

    async def case(member: BatchMember, eval_id: str) -> str:
        try:
            if eval_id.startswith("broken"):
                return "never asked"
            request = ProviderRequest(Prompt("q"), eval_id=eval_id)
            return candidate_answer((await member.wrap(provider).invoke(request)).output_messages)
        except ProviderError as error:
            return str(error)
        finally:
            member.leave()

    # The last comes first: what counts is the order of the cases.
    tasks = [case(member, eval_id) for member, eval_id in zip(members, eval_ids, strict=True)]
    return list(reversed(await asyncio.gather(*reversed(tasks))))


@pytest.mark.scenario("Enabled for batching-capable provider")
def test_all_cases_go_out_in_one_call_and_get_their_own_answers() -> None:
    provider = ManyProvider()
    assert asyncio.run(send(provider, "a", "b", "c")) == ["to a", "to b", "to c"]
    assert provider.calls == [["a", "b", "c"]]


def test_a_case_that_breaks_before_its_call_does_not_keep_the_others_waiting() -> None:
    provider = ManyProvider()
    assert asyncio.run(send(provider, "a", "broken", "c")) == ["to a", "never asked", "to c"]
    assert provider.calls == [["a", "c"]]


def test_a_batch_of_broken_cases_only_calls_nothing() -> None:
    provider = ManyProvider()
    assert asyncio.run(send(provider, "broken-1", "broken-2")) == ["never asked", "never asked"]
    assert provider.calls == []


@pytest.mark.scenario("Fallback when provider cannot batch")
def test_without_batching_each_case_is_sent_by_itself_within_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    provider = SingleProvider()
    assert asyncio.run(send(provider, "a", "bad", "c", "d")) == ["to a", "no answer", "to c", "to d"]
    assert sorted(provider.calls) == [["a"], ["bad"], ["c"], ["d"]]
    assert provider.most == 2
    assert caplog.messages == [
        "batching was asked for and did not work, each case is sent by itself: this kind of provider cannot batch"
    ]


def test_when_the_batch_fails_each_case_is_sent_by_itself() -> None:
    provider = ManyProvider(ValueError("garbage"))
    assert asyncio.run(send(provider, "a", "b")) == ["to a", "to b"]
    assert provider.calls == [["a", "b"], ["a"], ["b"]]


def test_answers_that_cannot_be_told_apart_are_errors_and_their_cost_is_noted_for_the_cases() -> None:
    provider = ManyProvider(forget_last=True)

    async def response(batch: Batch, place: int) -> ProviderResponse | None:
        wrapped = BatchMember(batch, place).wrap(provider)
        done = await invoke_with_retries(wrapped, ProviderRequest(Prompt("q"), eval_id=f"case {place}"), 2)
        return done.response

    async def run() -> list[ProviderResponse | None]:
        batch = Batch(3, 2)
        return await asyncio.gather(*(response(batch, place) for place in range(3)))

    found = [each for each in asyncio.run(run()) if each is not None]
    assert [each.error for each in found] == ["3 requests were sent and 2 responses came back"] * 3
    assert [candidate_answer(each.output_messages) for each in found] == ["to case 0", "to case 1", ""]
    assert len(provider.calls) == 1
