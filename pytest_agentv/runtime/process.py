"""Run a program to its end, within limits of time and output, and leave nothing of it running."""

import asyncio
import errno
import signal
import time
from asyncio import Future, SubprocessTransport
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import Record
from pytest_agentv.runtime.process_tree import ProcessTree, send_group
from pytest_agentv.runtime.reaper import watched_group

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of standard output, and of standard error."""

_TERM_SECONDS: Final = 5.0
"""What a program gets to end by itself after a time-out, as the specification has it."""
_CANCEL_SECONDS: Final = 1.0
"""The same when the run is being stopped: Ctrl-C must end it within two seconds."""
_DRAIN_SECONDS: Final = 0.2
"""All that the program wrote is read by then; longer waits are for pipes that a daemon of its holds open."""
_KILL_SECONDS: Final = 2.0
"""Processes of another user (sudo) cannot be killed; waiting for them has an end."""
_POLL_SECONDS: Final = 0.02


class ProcessStartError(AgentvError):
    """A program cannot be started."""


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
) -> ProcessResult:
    """Run a program in a session of its own.

    After a time-out its process group, and every descendant that moved to another one, gets SIGTERM and five seconds
    later SIGKILL; when the caller is cancelled, one second later. A program that ends and leaves children in its group
    has them killed. Without `stdin` the program reads from /dev/null.

    Raises `ProcessStartError`.
    """
    started = time.perf_counter()
    transport, child = await _start(argv, cwd, env, stdin, output_limit)
    with watched_group(transport.get_pid()):
        try:
            await asyncio.wait([child.settled], timeout=timeout_seconds)
            timed_out = not child.settled.done()
            if not child.exited.done():
                await _stop(child, transport.get_pid(), 0 if child.overflowed else _TERM_SECONDS)
        except asyncio.CancelledError:
            await _stop(child, transport.get_pid(), _CANCEL_SECONDS)
            raise
        finally:
            await _close(transport, child)
    return ProcessResult(
        exit_code=-signal.SIGKILL if (code := transport.get_returncode()) is None else code,
        stdout=_decode(child.output[1]),
        stderr=_decode(child.output[2]),
        timed_out=timed_out,
        overflowed=child.overflowed,
        duration_ms=(time.perf_counter() - started) * 1000,
    )


class _Child(asyncio.SubprocessProtocol):
    """Collects a program's output. Its exit and the end of its output are told apart: daemons hold pipes open."""

    def __init__(self, output_limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.settled: Future[None] = loop.create_future()
        """It exited, or wrote too much."""
        self.exited: Future[None] = loop.create_future()
        self.drained: Future[None] = loop.create_future()
        self.closed: Future[None] = loop.create_future()
        self.output = {1: bytearray(), 2: bytearray()}
        self.overflowed = False
        self._output_limit = output_limit
        self._open_pipes = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        output = self.output[fd]
        output += data
        if len(output) > self._output_limit:
            del output[self._output_limit :]
            self.overflowed = True
            _settle(self.settled)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            _settle(self.drained)

    def process_exited(self) -> None:
        _settle(self.settled)
        _settle(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        _settle(self.closed)


async def _start(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes | None, output_limit: int
) -> tuple[SubprocessTransport, _Child]:
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _Child(output_limit),
            *argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    )
    try:
        await asyncio.wait([starting])
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_started)
        raise
    try:
        transport, child = starting.result()
    except (OSError, ValueError) as error:
        raise ProcessStartError(_explain(error, argv, cwd)) from error
    if stdin is not None:
        _feed(transport, stdin)
    return transport, child


def _feed(transport: SubprocessTransport, stdin: bytes) -> None:
    """Write standard input in the background; that the program does not read it is its own affair."""
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(stdin)
    pipe.write_eof()


async def _stop(child: _Child, pid: int, grace_seconds: float) -> None:
    """End the program and its descendants. Cancelled meanwhile, it kills them at once."""
    tree = ProcessTree(pid)
    try:
        tree.send(signal.SIGTERM)
        for _ in range(round(grace_seconds / _POLL_SECONDS)):
            if not tree.is_running():
                break
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        tree.send(signal.SIGKILL)
    await asyncio.wait([child.exited], timeout=_KILL_SECONDS)


async def _close(transport: SubprocessTransport, child: _Child) -> None:
    """Kill what the program left in its group, read the rest of its output and close the pipes."""
    send_group(transport.get_pid(), signal.SIGKILL)
    try:
        await asyncio.wait([child.drained], timeout=_DRAIN_SECONDS)
    finally:
        stdin = transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport) and stdin.get_write_buffer_size():
            stdin.abort()  # closing it would wait for somebody to read the rest
        with suppress(PermissionError):
            transport.close()
    await asyncio.wait([child.closed], timeout=_KILL_SECONDS)


def _kill_started(starting: "Future[tuple[SubprocessTransport, _Child]]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        transport, _ = starting.result()
        send_group(transport.get_pid(), signal.SIGKILL)
        transport.close()


def _settle(future: "Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _explain(error: OSError | ValueError, argv: Sequence[str], cwd: str) -> str:
    if isinstance(error, ValueError):
        return f"cannot run {argv[0]!r}: {error}"
    if not Path(cwd).is_dir():
        return f"cannot run {argv[0]!r}: its working directory {cwd!r} does not exist"
    if error.errno == errno.ENOENT:
        return f"cannot run {argv[0]!r}: no such program, neither as a path nor on PATH"
    if error.errno == errno.E2BIG:
        size = sum(len(argument.encode("utf-8", "surrogatepass")) + 1 for argument in argv)
        return (
            f"cannot run {argv[0]!r}: its arguments are too long ({size} bytes); the system takes 128 KiB for each "
            "argument and about 2 MiB for all of them and the environment: hand long texts over in a file or on "
            "standard input"
        )
    return f"cannot run {argv[0]!r}: {error.strerror}"


def _decode(output: bytearray) -> str:
    return output.decode("utf-8", "replace").replace("\r\n", "\n")
