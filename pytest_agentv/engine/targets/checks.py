"""Runs each target's health check once per run, even with several processes (decisions 32)."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Adapter
from pytest_agentv.runtime.outcomes import Outcome, capture
from pytest_agentv.runtime.processes.reaper import remove_at_end

Together: TypeAlias = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Runs the check of the target with this name, unless another process has done so. Then it raises that finding."""


class HealthChecks:
    """Checks targets and judges before their first case, and keeps the findings. Used on the event loop."""

    def __init__(self, together: Together | None, root: Path) -> None:
        """`together` is how the processes of a run share their findings; None: there is only one.

        `root` is the project folder. Its path may differ between processes.
        """
        self._together = together
        self._root = root
        self._probes: dict[tuple[str | None, str], asyncio.Task[Outcome[None]]] = {}

    async def check(self, target: Target, provider: Adapter) -> None:
        """Return if the target is healthy. Raises `ProviderError` if it is not. Objects of users are not checked."""
        if target.path is None:
            return
        key = (target.path, target.name)
        if key not in self._probes:
            is_probed = target.settings.is_probed
            together = self._together if is_probed else None
            probe = provider.check if together is None else lambda: together(self._name(target), provider.check)
            self._probes[key] = asyncio.ensure_future(capture(probe))
        probed = self._probes[key]
        if not probed.done():
            await asyncio.shield(probed)  # a cancelled case must not cancel the probe that others wait for
        probed.result().get()

    def _name(self, target: Target) -> str:
        """Return the name of a target, the same in all processes."""
        path = Path(target.path or "")
        return repr((str(path.relative_to(self._root) if path.is_relative_to(self._root) else path), target.name))


def sharing(folder: Path | None) -> Together | None:
    """Return a function that shares findings through a folder. The first process that ends removes the folder."""
    return None if folder is None else lambda key, check: check_together(folder, key, check)


async def check_together(folder: Path, key: str, check: Callable[[], Awaitable[None]]) -> None:
    """Check under a lock, unless another process has done so. Then use its finding."""
    from filelock import AsyncFileLock  # noqa: PLC0415 - 60 ms that only runs with shared probes pay

    path = _file_of(folder, key)
    # `poll_interval` is an argument of the class only in later releases.
    async with await AsyncFileLock(path.with_suffix(".lock")).acquire(poll_interval=0.02):
        found = _found(path)
        if found is None:
            found = await finding(check)
            path.write_text(json.dumps(found), "utf-8")
    raise_finding(found)


def raise_finding(found: Mapping[str, Any]) -> None:
    """Raise the error that a health check has found, if any."""
    if found:
        raise ProviderError(found["error"], found["kind"])


def _found(path: Path) -> dict[str, str] | None:
    """Return what was found; None: nobody has checked, or a process was killed while it wrote."""
    try:
        found: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _file_of(folder: Path, key: str) -> Path:
    remove_at_end(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


async def finding(check: Callable[[], Awaitable[None]]) -> dict[str, str]:
    """Return the error of a health check; empty for a healthy target."""
    try:
        await check()
    except ProviderError as error:
        return {"error": masked(str(error)), "kind": error.kind}
    return {}
