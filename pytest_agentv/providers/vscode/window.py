"""Opens VS Code's window, wakes it up and starts chats, through its command line program."""

import asyncio
import logging
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.providers.vscode.subagents import Claim
from pytest_agentv.runtime.processes.launcher import Launched, LaunchError, launch

_LOGGER: Final = logging.getLogger(__name__)

_STATUS_SECONDS: Final = 10.0
_LAUNCH_SECONDS: Final = 30.0
"""The limit for the program, which only sends a command to the editor or starts it, without waiting for it."""
_OPEN_SECONDS: Final = 0.1
_READY_SECONDS: Final = 60.0
_READY_POLL_SECONDS: Final = 0.2
_FOCUS_SECONDS: Final = 0.5
"""The pause between two commands, so that the second one reaches the window of the first one."""


def find_program(command: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the program of a command, and its other words; None if it does not exist."""
    path = environment.get("PATH")
    whole = shutil.which(command, path=path)
    if whole is not None:
        return (str(Path(whole).absolute()),)
    try:
        program, *words = shlex.split(command)
    except ValueError:  # no words, or an open quote
        return None
    found = shutil.which(program, path=path)
    return None if found is None else (str(Path(found).absolute()), *words)


class Window:
    """The editor's window on one subagent's folder."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str], claim: Claim) -> None:
        self._program = program
        self._environment = environment
        self._claim = claim

    async def open(self) -> None:
        """Bring the window to the front. Waits for a new window. Raises `ProviderError`."""
        claim = self._claim
        if await self._is_open():
            await self._call(str(claim.workspace_file))
        else:
            alive = claim.folder / ".alive"
            _remove(alive)
            await self._call(str(claim.workspace_file))
            await asyncio.sleep(_OPEN_SECONDS)
            await self._call(
                "-r", "chat", "-m", "wakeup", f"Create an empty file named .alive in the folder {claim.folder}"
            )
            await self._wait_for(alive)
        await asyncio.sleep(_FOCUS_SECONDS)

    async def chat(self, attachments: Sequence[str], text: str) -> None:
        """Start a new chat. Raises `ProviderError`."""
        attached = [word for path in attachments for word in ("-a", path)]
        await self._call("-r", "chat", "-m", secrets.token_hex(4), *attached, text)

    async def _is_open(self) -> bool:
        """Whether a window is open, by its title; `subagent-1` is not `subagent-10`."""
        status = await self._launch(["--status"], _STATUS_SECONDS)
        return re.search(rf"(?<![\w-]){re.escape(self._claim.name)}(?![\w-])", status.stdout) is not None

    async def _wait_for(self, alive: Path) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not _remove(alive):
            if time.monotonic() >= deadline:
                _LOGGER.warning("VS Code did not show within %gs that %s is open", _READY_SECONDS, self._claim.folder)
                return
            await asyncio.sleep(_READY_POLL_SECONDS)

    async def _call(self, *arguments: str) -> None:
        done = await self._launch(arguments, _LAUNCH_SECONDS)
        if done.exit_code == 0:
            return
        said = masked(done.stderr.strip() or done.stdout.strip())[-2000:]
        command = shlex.join((*self._program, *arguments[:4]))
        if done.exit_code is None:
            reason = f"VS Code's command did not return within {_LAUNCH_SECONDS:g}s: {command}"
        else:
            reason = f"VS Code's command failed with exit code {done.exit_code}: {command}"
        raise ProviderError(f"{reason}: {said}" if said else reason, "process")

    async def _launch(self, arguments: Sequence[str], seconds: float) -> Launched:
        try:
            return await launch(
                [*self._program, *arguments],
                cwd=str(self._claim.folder),
                env=self._environment,
                timeout_seconds=seconds,
            )
        except LaunchError as error:
            raise ProviderError(f"VS Code could not be started: {error}", "process") from error


def _remove(path: Path) -> bool:
    """Remove a file; return whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
