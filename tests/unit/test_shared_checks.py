"""What cases owe to others: the probe that they share, also between processes, and the batch that waits for each."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.engine.pool import HealthChecks, TargetPool, check_together
from pytest_agentv.engine.scheduler import Batch, BatchMember
from pytest_agentv.errors import ProviderError, TargetError
from pytest_agentv.model.cases import EvalCase, Target
from pytest_agentv.model.messages import Message, candidate_answer
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.mock import Mock

IDENTITY = CaseIdentity(
    eval_id="a", dataset="d", target="default", eval_file="x.eval.yaml", line=1, node_id="x.eval.yaml::a", run_id="r"
)
CASE = EvalCase("a", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())


class SlowProvider:
    mode = "lm"

    def __init__(self) -> None:
        self.probes = 0
        self.gate = asyncio.Event()

    async def check(self) -> None:
        self.probes += 1
        await self.gate.wait()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse((Message("assistant", request.eval_id),))

    async def close(self) -> None: ...


class BrokenPool:
    """A pool that can get no target ready."""

    masker = Masker()

    async def prepare(self, *_: object) -> None:
        raise TargetError("no such target")


def test_a_cancelled_case_does_not_cancel_the_probe_that_others_wait_for() -> None:
    async def scenario() -> int:
        provider: Any = SlowProvider()
        checks = HealthChecks(None, Path())
        target = Target("default", "cli", Mock(), path="/evals/targets.yaml")
        first, second = (asyncio.create_task(checks.check(target, provider)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        provider.gate.set()
        await second
        await checks.check(target, provider)
        return cast(int, provider.probes)

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == 1


def test_a_batch_does_not_wait_for_a_case_that_breaks_before_its_call() -> None:
    async def scenario() -> tuple[str, object]:
        batch = Batch(2, 2)
        good, broken = BatchMember(batch, 0), BatchMember(batch, 1)
        provider: Any = SlowProvider()
        answer = asyncio.create_task(good.wrap(provider).invoke(ProviderRequest(Prompt("x"), "good")))
        await asyncio.sleep(0)
        pool = cast(TargetPool, BrokenPool())
        result = await run_case(CaseJob(IDENTITY, CASE, RunOptions()), pool, broken)
        response = await asyncio.wait_for(answer, 5)
        assert response.output_messages is not None
        return result.status, response.output_messages[0].content

    assert asyncio.run(scenario()) == ("error", "good")


@pytest.mark.parametrize("is_healthy", [True, False])
def test_a_finding_that_a_killed_process_left_half_written_is_found_again(tmp_path: Path, is_healthy: bool) -> None:
    checks = []

    async def check() -> None:
        checks.append("checked")
        if not is_healthy:
            raise ProviderError("down", "network")

    def together() -> str:
        try:
            asyncio.run(check_together(tmp_path / "shared", "target", check))
        except ProviderError as error:
            return str(error)
        return "healthy"

    first = together()
    (finding,) = (tmp_path / "shared").glob("*.json")
    whole = finding.read_text()
    for torn in ("", whole[:1]):
        finding.write_text(torn)
        assert together() == first == ("healthy" if is_healthy else "down")
        assert finding.read_text() == whole
    assert together() == first
    assert len(checks) == 3


def test_answers_of_a_batch_that_cannot_be_told_apart_are_errors_and_their_cost_is_noted_for_the_cases() -> None:
    class Forgetful(SlowProvider):
        async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
            self.probes += 1
            return [ProviderResponse((Message("assistant", request.eval_id),)) for request in requests[:-1]]

    provider: Any = Forgetful()

    async def run() -> list[ProviderResponse | None]:
        batch = Batch(3, 2)
        wrapped = [BatchMember(batch, place).wrap(provider) for place in range(3)]
        requests = [ProviderRequest(Prompt("q"), f"case {place}") for place in range(3)]
        asked = zip(wrapped, requests, strict=True)
        return [done.response for done in await asyncio.gather(*(invoke_with_retries(*each, 2) for each in asked))]

    found = [each for each in asyncio.run(run()) if each is not None]
    assert [each.error for each in found] == ["3 requests were sent and 2 responses came back"] * 3
    assert [candidate_answer(each.output_messages) for each in found] == ["case 0", "case 1", ""]
    assert provider.probes == 1, "one call for all"
