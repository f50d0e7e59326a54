"""Findings of health checks that the processes of a run share."""

import asyncio
from pathlib import Path

import pytest

from pytest_agentv.engine.pool import check_together
from pytest_agentv.errors import ProviderError


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
