"""Run a program to its end, within limits of time and output, and leave nothing of it running."""

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.runtime.child import Child, OutputListener, ProcessStartError, start_child
from pytest_agentv.runtime.process_tree import ProcessTree
from pytest_agentv.runtime.reaper import start_watcher, watched_group

__all__ = ["OUTPUT_LIMIT", "ProcessResult", "ProcessStartError", "run_process"]

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of standard output, and of standard error."""

_TERM_SECONDS: Final = 5.0
"""What a program gets to end by itself after a time-out, as the specification has it."""
_CANCEL_SECONDS: Final = 0.5
"""The same when the run is being stopped: Ctrl-C must end it within two seconds."""
_KILL_SECONDS: Final = 2.0
"""Processes of another user (sudo) cannot be killed; waiting for them has an end."""
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class ProcessResult(Record):
    """How a program ended, and what it wrote: decoded as UTF-8 with replacement characters, CRLF turned into LF."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    stdout: str
    stderr: str
    timed_out: bool
    overflowed: bool
    """It wrote more than the limit and was killed; what is here was cut."""
    duration_ms: float


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
    """Run a program in a session of its own.

    After a time-out its process group, and every descendant that moved to another one, gets SIGTERM and five seconds
    later SIGKILL; when the caller is cancelled, half a second later. A program that ends and leaves children in its
    group has them killed. Without `stdin` the program reads from /dev/null. What it writes goes to the listener, if
    there is one, without a limit, and is not kept.

    Raises `ProcessStartError`.
    """
    start_watcher()
    started = time.perf_counter()
    child = start_child(
        argv, cwd=cwd, env=env, has_stdin=stdin is not None, output_limit=output_limit, listener=listener
    )
    with watched_group(child.pid):
        try:
            await child.connect(stdin)
            await asyncio.wait([child.settled], timeout=timeout_seconds)
            timed_out = not child.settled.done()
            if not child.exited.done():
                await _stop(child, 0 if child.overflowed else _TERM_SECONDS)
        except asyncio.CancelledError:
            await _stop(child, _CANCEL_SECONDS)
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
    )


async def _stop(child: Child, grace_seconds: float) -> None:
    """End the program and its descendants. Cancelled meanwhile, it kills them at once."""
    tree = ProcessTree(child.pid)
    try:
        tree.send(signal.SIGTERM)
        await _wait_for_end(tree, grace_seconds)
    finally:
        tree.send(signal.SIGKILL)
    await _wait_for_end(tree, _KILL_SECONDS)
    await asyncio.wait([child.exited], timeout=_KILL_SECONDS)


async def _wait_for_end(tree: ProcessTree, seconds: float) -> None:
    deadline = time.monotonic() + seconds  # not so many rounds: on a busy machine each takes its time
    while tree.is_running() and time.monotonic() < deadline:  # noqa: ASYNC110 - not all of them are our children
        await asyncio.sleep(_POLL_SECONDS)
