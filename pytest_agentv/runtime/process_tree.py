"""Finds a process and all its descendants through /proc, if there is one, and ends them.

Agents run their tools in other sessions, which a signal to the agent's group does not reach. This module uses the
standard library only, because the watcher of `reaper.py` runs it without site-packages.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_POLL_SECONDS: Final = 0.02
_ROUNDS: Final = 5


class ProcessInfo(NamedTuple):
    """One process in /proc. `started` distinguishes it from a later process with the same id."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    state: str


class ProcessTree:
    """The known processes that the leader of a session started."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._members: dict[int, ProcessInfo] = {}

    def look(self) -> None:
        """Note the leader's descendants and all processes of their sessions. Finds orphans only if noted before."""
        living = {info.pid: info for info in read_processes()}
        self._members = {pid: info for pid, info in self._members.items() if _is_same(living.get(pid), info)}
        found = True
        while found:
            sessions = {self.leader} | {info.session for info in self._members.values()}
            new = [
                info
                for info in living.values()
                if info.pid not in self._members
                and (info.pid == self.leader or info.session in sessions or info.parent in self._members)
            ]
            self._members.update((info.pid, info) for info in new)
            found = bool(new)

    def send(self, signal_number: int) -> None:
        """Signal every group of the tree."""
        self.look()
        for group in {self.leader} | {info.group for info in self._members.values() if info.state != "Z"}:
            send_group(group, signal_number)

    def is_running(self) -> bool:
        """Whether a process of the tree still runs. Zombies do not count."""
        if not self._members:
            return has_group(self.leader)
        return any(
            _is_same(now := _read_process(pid), info) and now is not None and now.state != "Z"
            for pid, info in self._members.items()
        )


def end_trees(leaders: Iterable[int], grace_seconds: float) -> None:
    """Terminate the processes of some trees, and kill those that remain. Blocks."""
    trees = [ProcessTree(leader) for leader in leaders]
    for tree in trees:
        tree.send(signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and any(tree.is_running() for tree in trees):
        time.sleep(_POLL_SECONDS)
    for tree in trees:
        tree.send(signal.SIGKILL)


def kill_marked(variable: str) -> None:
    """Kill all processes that have a variable `NAME=value` in their environment.

    This is the only way to find a process that left its session and lost its parent. Without /proc it finds none.
    """
    for _ in range(_ROUNDS):  # a process may start another one before it dies
        marked = [info.pid for info in read_processes() if info.state != "Z" and _has_variable(info.pid, variable)]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            return


def send_group(group: int, signal_number: int) -> None:
    """Signal a process group. Ignores a group that is gone or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def has_group(group: int) -> bool:
    """Whether a process group has members. Without /proc, zombies count too."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def read_processes() -> Iterator[ProcessInfo]:
    """Yield the machine's processes; none without /proc."""
    try:
        names = [path.name for path in Path("/proc").iterdir()]
    except OSError:
        return
    for name in names:
        if name.isdecimal() and (info := _read_process(int(name))):
            yield info


def _has_variable(pid: int, variable: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it is gone, or belongs to another user
        return False
    return os.fsencode(variable) in environment.split(b"\0")


def _read_process(pid: int) -> ProcessInfo | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()  # the name before these fields may hold blanks and parentheses
    state, parent, group, session = fields[:4]
    return ProcessInfo(pid, int(parent), int(group), int(session), int(fields[19]), state.decode())


def _is_same(now: ProcessInfo | None, before: ProcessInfo) -> bool:
    return now is not None and now.started == before.started
