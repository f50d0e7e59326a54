"""The folders that VS Code works in, and their owners."""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.text import compact_json
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.runtime.locks import FolderLock, hold_folder

LOCK_NAME: Final = "subagent.lock"
_NAME: Final = re.compile(r"subagent-(\d+)")
_PROGRAM: Final = "pytest-agentv"
_TURN_SECONDS: Final = 0.1
_AGENTS: Final = Path(".github", "agents")
_KEPT_AGENTS: Final = frozenset({"wakeup.md", "subagent.md"})
_WAKEUP: Final = """---
description: Tells whoever opened this folder that it is ready
---
Create the file that you are asked for, empty, and do nothing else.
"""


class SubagentTakenError(Exception):
    """Another program has taken our folder: its locking is not atomic."""


@record
class Owner(Record):
    """The owner of a folder, from its lock file."""

    pid: int
    host: str
    started: str
    run: str
    is_waiting: bool
    """False: nobody waits for the answer, and the agent removes the lock."""
    program: str = _PROGRAM


_SOMEBODY_ELSE: Final = Owner(0, "", "", "", is_waiting=False, program="")


class Claim:
    """A folder that we own until it is released.

    The lock file is for other programs. The agent removes it when it is done, perhaps with an earlier request that we
    gave up. Our own runs use the lock on the folder itself: nobody removes that one, and a killed run leaves none.
    """

    def __init__(self, folder: Path, owner: Owner, lock: FolderLock) -> None:
        self.folder = folder
        self.lock_file = folder / LOCK_NAME
        self.messages = folder / "messages"
        self.workspace_file = folder / f"{folder.name}.code-workspace"
        self._text = compact_json(owner.to_plain())
        self._lock = lock
        self._is_handed_over = False

    @property
    def name(self) -> str:
        return self.folder.name

    def keep(self) -> None:
        """Write the lock file again if it is gone. Raises `SubagentTakenError` if the folder is not ours."""
        try:
            with self.lock_file.open("x", encoding="utf-8") as file:
                file.write(self._text)
        except FileExistsError:
            if self._read() not in (None, self._text):  # no owner: the file was removed just now
                raise SubagentTakenError(f"another program took {self.name}") from None
        except FileNotFoundError:
            raise SubagentTakenError(f"{self.folder} was removed") from None

    def prepare(self, workspace: str) -> None:
        """Write the workspace file if it differs, and remove the chat modes of earlier requests."""
        if not self.workspace_file.exists() or self.workspace_file.read_text("utf-8") != workspace:
            write_atomically(self.workspace_file, workspace)
        write_wakeup(self.folder)
        for path in (self.folder / _AGENTS).glob("*.md"):
            if path.name not in _KEPT_AGENTS:
                path.unlink(missing_ok=True)

    def hand_over(self) -> None:
        """Leave the lock file to the agent."""
        self._is_handed_over = True

    def release(self) -> None:
        if not self._is_handed_over and self._read() == self._text:
            self.lock_file.unlink(missing_ok=True)
        self._lock.release()

    def _read(self) -> str | None:
        try:
            return self.lock_file.read_text("utf-8", "replace")
        except OSError:
            return None


class SubagentRoot:
    """The folder with the subagents' folders, shared by all runs of a user."""

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._run = run

    @asynccontextmanager
    async def turn(self, *, is_waiting: bool) -> AsyncIterator[tuple[Claim, FolderLock]]:
        """Wait until no other call of this run is in flight, and claim a folder.

        This also takes the lock on the root, so that no other run claims folders or opens windows. It is released when
        the request is sent, or at the end.
        """
        started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        owner = Owner(os.getpid(), socket.gethostname(), started, self._run, is_waiting)
        while True:
            async with hold_folder(self.path) as root_lock:
                claim = self._claim(owner)
                if claim is not None:
                    try:
                        yield claim, root_lock
                    finally:
                        claim.release()
                    return
            await asyncio.sleep(_TURN_SECONDS)

    def next_name(self) -> str:
        """Return the name of the folder for a request now, without claiming it."""
        folders = list(self._folders())
        free = (folder.name for _, folder in folders if not (folder / LOCK_NAME).exists())
        return next(free, f"subagent-{folders[-1][0] + 1 if folders else 1}")

    def _claim(self, owner: Owner) -> Claim | None:
        """Claim the first free folder, or a new one; None: a call of this run is, or may be, in flight.

        The caller holds the lock on the root. A folder of one of our runs may lack its lock file, or have an empty one:
        a finished agent has removed it, and the run is writing it again.
        """
        folders = list(self._folders())
        free: list[tuple[Path, FolderLock]] = []
        try:
            for _, folder in folders:
                lock = FolderLock(folder)
                is_ours, found = lock.acquire(), _read_owner(folder / LOCK_NAME)
                if not is_ours:
                    if found is None or found is _SOMEBODY_ELSE or found.run == owner.run:
                        return None
                elif _is_free(found, owner.host):
                    free.append((folder, lock))
                else:
                    lock.release()
            folder, lock = free.pop(0) if free else self._provision(folders[-1][0] + 1 if folders else 1)
        finally:
            for _, unused in free:
                unused.release()
        (folder / LOCK_NAME).unlink(missing_ok=True)
        claim = Claim(folder, owner, lock)
        try:
            claim.keep()
        except SubagentTakenError:
            lock.release()
            return None
        return claim

    def _provision(self, number: int) -> tuple[Path, FolderLock]:
        folder = self.path / f"subagent-{number}"
        write_wakeup(folder)
        lock = FolderLock(folder)
        lock.acquire()
        return folder, lock

    def _folders(self) -> Iterator[tuple[int, Path]]:
        """Yield the subagents' folders by number."""
        paths = self.path.iterdir() if self.path.is_dir() else ()
        numbered = ((int(match[1]), path) for path in paths if (match := _NAME.fullmatch(path.name)) and path.is_dir())
        yield from sorted(numbered)


def write_wakeup(folder: Path) -> None:
    """Write the chat mode that answers as soon as VS Code has opened a folder, unless it exists."""
    path = folder / _AGENTS / "wakeup.md"
    if not path.exists():
        write_atomically(path, _WAKEUP)


def _read_owner(lock_file: Path) -> Owner | None:
    """Return the owner from a lock file; None if there is none."""
    try:
        return Owner.from_plain(json.loads(lock_file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):  # the npm package writes empty ones
        return _SOMEBODY_ELSE


def _is_free(owner: Owner | None, host: str) -> bool:
    """Whether a folder that none of our processes holds may be taken.

    A lock of ours is from a killed run. Locks of others are never broken, however old. That costs one more folder, and
    users can run `subagent code unlock`.
    """
    return owner is None or (owner.program == _PROGRAM and owner.is_waiting and owner.host == host)
