"""Runs a program within limits of time and output, and ends all its processes."""

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.runtime.processes.child import Child, OutputListener, ProcessStartError, start_child
from pytest_agentv.runtime.processes.process_tree import ProcessTree, kill_marked
from pytest_agentv.runtime.processes.reaper import program_mark, start_watcher, watched_group, watched_mark
from pytest_agentv.runtime.reading import utf8_fault

__all__ = ["OUTPUT_LIMIT", "ProcessResult", "ProcessStartError", "run_child", "run_process", "timed_out_at_start"]

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Limit in bytes, for standard output and standard error each."""

_TERM_SECONDS: Final = 5.0
"""Time from SIGTERM to SIGKILL after a time-out, as the specification says."""
_CANCEL_SECONDS: Final = 0.5
"""Time from SIGTERM to SIGKILL when the run stops: Ctrl-C must end the run within two seconds."""
_KILL_SECONDS: Final = 2.0
"""Limit of the wait for killed processes. Those of another user (sudo) cannot be killed."""
_POLL_SECONDS: Final = 0.02


@record
class ProcessResult(Record):
    """How a program ended, and its output: decoded as UTF-8 with replacement characters, with CRLF as LF."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    stdout: str
    stderr: str
    timed_out: bool
    overflowed: bool
    """It exceeded the output limit and was killed. The output is cut."""
    duration_ms: float
    stdout_fault: str | None = None
    """Which byte of standard output is not UTF-8; None: all are."""


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout_seconds: float | None,
    output_limit: int = OUTPUT_LIMIT,
    listener: OutputListener | None = None,
) -> ProcessResult:
    """Run a program in its own session.

    After a time-out its process group, and every descendant that moved to another group, gets SIGTERM, and SIGKILL
    five seconds later. After a cancellation of the caller, SIGKILL follows half a second later. Descendants that left
    the group and lost their parent, which only their environment tells, are killed then too. When the program ends by
    itself, children that are left in its group are killed. Without `stdin` the program reads from /dev/null. A listener
    gets all output without a limit, and the result then holds none.

    Raises `ProcessStartError`.
    """
    start_watcher()
    name, value = program_mark()
    child = start_child(
        argv,
        cwd=cwd,
        env={**env, name: value},
        has_stdin=stdin is not None,
        output_limit=output_limit,
        listener=listener,
    )
    with watched_mark(mark := f"{name}={value}"):
        return await run_child(child, stdin, timeout_seconds, mark)


async def run_child(
    child: Child, stdin: bytes | None, timeout_seconds: float | None, mark: str | None = None
) -> ProcessResult:
    """Give a started program its input and wait for its end, as `run_process` says.

    `mark` is the variable that all its descendants inherit; None: there is none.
    """
    started = time.perf_counter()
    with watched_group(child.pid):
        try:
            await child.connect(stdin)
            await asyncio.wait([child.settled], timeout=timeout_seconds)
            timed_out = not child.settled.done()
            if not child.exited.done():
                await _stop(child, 0 if child.overflowed else _TERM_SECONDS, mark)
        except asyncio.CancelledError:
            await _stop(child, _CANCEL_SECONDS, mark)
            raise
        finally:
            await child.close()
    return ProcessResult(
        exit_code=child.exit_code,
        stdout=child.stdout.text,
        stderr=child.stderr.text,
        timed_out=timed_out,
        overflowed=child.overflowed,
        duration_ms=(time.perf_counter() - started) * 1000,
        stdout_fault=utf8_fault(child.stdout.data),
    )


def timed_out_at_start(seconds: float) -> ProcessResult:
    """Return the result of a program that took too long to start."""
    return ProcessResult(-signal.SIGKILL, "", "", timed_out=True, overflowed=False, duration_ms=seconds * 1000)


async def _stop(child: Child, grace_seconds: float, mark: str | None) -> None:
    """End the program and its descendants. If this is cancelled, kill them at once."""
    tree = ProcessTree(child.pid)
    try:
        tree.send(signal.SIGTERM)
        await _wait_for_end(tree, grace_seconds)
    finally:
        tree.send(signal.SIGKILL)
        if mark is not None:
            kill_marked(mark)
    await _wait_for_end(tree, _KILL_SECONDS)
    await asyncio.wait([child.exited], timeout=_KILL_SECONDS)


async def _wait_for_end(tree: ProcessTree, seconds: float) -> None:
    deadline = time.monotonic() + seconds  # not a number of rounds, because a round takes longer on a busy machine
    while tree.is_running() and time.monotonic() < deadline:  # noqa: ASYNC110 - not all of them are our children
        await asyncio.sleep(_POLL_SECONDS)
