"""The probe of a target that cases share, also between processes."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.mock import Mock


def pool_of(shared_folder: Path | None, root: Path) -> TargetPool:
    return TargetPool(RunOptions(), Places(root, root, shared_folder), Masker(), no_kinds)


class SlowProvider:
    def __init__(self) -> None:
        self.probes = 0
        self.gate = asyncio.Event()

    async def check(self) -> None:
        self.probes += 1
        await self.gate.wait()


def test_a_cancelled_case_does_not_cancel_the_probe_that_others_wait_for() -> None:
    async def scenario() -> int:
        provider: Any = SlowProvider()
        checks = pool_of(None, Path())
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


@pytest.mark.parametrize("is_healthy", [True, False])
def test_a_finding_that_a_killed_process_left_half_written_is_found_again(tmp_path: Path, is_healthy: bool) -> None:
    checks = []

    class Checked:
        async def check(self) -> None:
            checks.append("checked")
            if not is_healthy:
                raise ProviderError("down", "network")

    def together() -> str:
        provider: Any = Checked()
        target = Target("default", "openai", SimpleNamespace(is_probed=True), path="/evals/targets.yaml")
        try:
            asyncio.run(pool_of(tmp_path / "shared", Path("/")).check(target, provider))
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
