"""A process and what it started, found in /proc where there is one, and how to end them all.

Agents run their tools in sessions of their own, which the signal to the agent's group does not reach. Standard library
only: the watcher of `reaper.py` uses this without any site-packages.
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
    """One line of /proc; `started` tells a process from a later one that was given the same id."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    state: str


class ProcessTree:
    """The processes that a leader of a session started, as far as they were seen."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._members: dict[int, ProcessInfo] = {}

    def look(self) -> None:
        """Note the leader's descendants and all that share a session with one; orphans were seen before, or never."""
        living = {info.pid: info for info in read_processes()}
        self._members = {pid: info for pid, info in self._members.items() if _is_same(living.get(pid), info)}
        found = True
        while found:
            sessions = {self.leader} | {info.session for info in self._members.values()}
            new = [info for info in living.values() if info.pid not in self._members and self._owns(info, sessions)]
            self._members.update((info.pid, info) for info in new)
            found = bool(new)

    def send(self, signal_number: int) -> None:
        """Signal every group of the tree."""
        self.look()
        for group in {self.leader} | {info.group for info in self._members.values() if info.state != "Z"}:
            send_group(group, signal_number)

    def is_running(self) -> bool:
        """Whether a process of the tree still runs; a zombie does not."""
        if not self._members:
            return has_group(self.leader)
        return any(
            _is_same(now := _read_process(pid), info) and now is not None and now.state != "Z"
            for pid, info in self._members.items()
        )

    def _owns(self, info: ProcessInfo, sessions: set[int]) -> bool:
        return info.pid == self.leader or info.session in sessions or info.parent in self._members


def end_trees(leaders: Iterable[int], grace_seconds: float) -> None:
    """Ask the processes of some trees to end, and kill those that do not. Blocks."""
    trees = [ProcessTree(leader) for leader in leaders]
    for tree in trees:
        tree.send(signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and any(tree.is_running() for tree in trees):
        time.sleep(_POLL_SECONDS)
    for tree in trees:
        tree.send(signal.SIGKILL)


def kill_marked(variable: str) -> None:
    """Kill the processes that have a variable, `NAME=value`, in their environment, wherever they have moved to.

    A process that leaves its session and whose parent is gone is found in no other way. Without /proc none is found.
    """
    for _ in range(_ROUNDS):  # one may start another one meanwhile
        marked = [info.pid for info in read_processes() if info.state != "Z" and _has_variable(info.pid, variable)]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            return


def send_group(group: int, signal_number: int) -> None:
    """Signal a process group; one that is gone, or is another user's, is passed over."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def has_group(group: int) -> bool:
    """Whether a process group has members; without /proc, zombies count."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def read_processes() -> Iterator[ProcessInfo]:
    """Yield the machine's processes; nothing where there is no /proc."""
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
    except OSError:  # it is gone, or another user's
        return False
    return os.fsencode(variable) in environment.split(b"\0")


def _read_process(pid: int) -> ProcessInfo | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()  # the name before it may hold blanks and parentheses
    state, parent, group, session = fields[:4]
    return ProcessInfo(pid, int(parent), int(group), int(session), int(fields[19]), state.decode())


def _is_same(now: ProcessInfo | None, before: ProcessInfo) -> bool:
    return now is not None and now.started == before.started
