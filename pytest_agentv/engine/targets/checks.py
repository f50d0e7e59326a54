"""Runs each target's health check once per run, even with several processes (decisions 32)."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Adapter
from pytest_agentv.runtime.outcomes import Outcome, capture
from pytest_agentv.runtime.processes.reaper import remove_at_end


class HealthChecks:
    """Checks targets before their first case, and keeps the findings.

    Used on the event loop. With a folder, the processes of a run share their findings there. The folder is removed
    when the first of them ends.
    """

    def __init__(self, folder: Path | None, root: Path) -> None:
        """`root` is the folder that the processes may have in different places."""
        self._folder = folder
        self._root = root
        self._probes: dict[tuple[str | None, str], asyncio.Task[Outcome[None]]] = {}

    async def check(self, target: Target, provider: Adapter) -> None:
        """Return if the target is healthy, else raise `ProviderError`."""
        key = (target.path, target.name)
        if key not in self._probes:
            is_probed = target.settings.is_probed
            folder = self._folder if is_probed else None
            probe = (
                provider.check
                if folder is None
                else lambda: _check_together(folder, self._name(target), provider.check)
            )
            self._probes[key] = asyncio.ensure_future(capture(probe))
        # A cancelled case must not cancel the probe that others wait for.
        (await asyncio.shield(self._probes[key])).get()

    def _name(self, target: Target) -> str:
        """Return what a target is called in all processes."""
        path = Path(target.path or "")
        return repr((str(path.relative_to(self._root) if path.is_relative_to(self._root) else path), target.name))


async def _check_together(folder: Path, key: str, check: Callable[[], Awaitable[None]]) -> None:
    """Check under a lock, unless another process has done so. Then use its finding."""
    from filelock import AsyncFileLock  # noqa: PLC0415 - 60 ms that only runs with shared probes pay

    path = _file_of(folder, key)
    async with AsyncFileLock(path.with_suffix(".lock"), poll_interval=0.02):
        if path.exists():
            found = json.loads(path.read_text("utf-8"))
        else:
            found = await _finding(check)
            path.write_text(json.dumps(found), "utf-8")
    if found:
        raise ProviderError(found["error"], found["kind"])


def _file_of(folder: Path, key: str) -> Path:
    remove_at_end(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


async def _finding(check: Callable[[], Awaitable[None]]) -> dict[str, str]:
    """Return the error of a health check; empty for a healthy target."""
    try:
        await check()
    except ProviderError as error:
        return {"error": masked(str(error)), "kind": error.kind}
    return {}
