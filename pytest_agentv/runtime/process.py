"""Run a program to its end, within limits of time and output, and leave nothing of it running."""

import asyncio
import errno
import signal
import subprocess
import threading
import time
from asyncio import Future
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import Record
from pytest_agentv.runtime.process_tree import ProcessTree, send_group
from pytest_agentv.runtime.reaper import start_watcher, watched_group

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
    start_watcher()
    child = _Child(_start(argv, cwd, env, stdin is not None), output_limit)
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
    return child.result(timed_out=timed_out)


class _Output(asyncio.Protocol):
    """Collects one stream of a program, up to a limit."""

    def __init__(self, limit: int, settled: "Future[None]") -> None:
        self.data = bytearray()
        self.overflowed = False
        self.ended: Future[None] = asyncio.get_running_loop().create_future()
        self._limit = limit
        self._settled = settled

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > self._limit:
            del self.data[self._limit :]
            self.overflowed = True
            _settle(self._settled)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        _settle(self.ended)


class _Child:
    """A running program and its pipes.

    Not `asyncio.subprocess`: there a cancellation while the program starts kills it alone, without its children, and
    in several versions of Python its end is not told while a daemon holds its pipes open.
    """

    def __init__(self, popen: "subprocess.Popen[bytes]", output_limit: int) -> None:
        self.pid = popen.pid
        self._started = time.perf_counter()
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self.settled: Future[None] = self._loop.create_future()
        """It exited, or wrote too much."""
        self.exited: Future[None] = self._loop.create_future()
        self._stdout = _Output(output_limit, self.settled)
        self._stderr = _Output(output_limit, self.settled)
        self._readers: list[asyncio.ReadTransport] = []
        self._writer: asyncio.WriteTransport | None = None
        threading.Thread(target=self._wait, name="agentv-wait", daemon=True).start()

    @property
    def overflowed(self) -> bool:
        return self._stdout.overflowed or self._stderr.overflowed

    async def connect(self, stdin: bytes | None) -> None:
        """Read the output and write standard input in the background; not reading it is the program's own affair."""
        for output, pipe in ((self._stdout, self._popen.stdout), (self._stderr, self._popen.stderr)):
            reader, _ = await self._loop.connect_read_pipe(partial(_same, output), pipe)
            self._readers.append(reader)
        if stdin is not None:
            self._writer, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, self._popen.stdin)
            self._writer.write(stdin)
            self._writer.write_eof()

    async def close(self) -> None:
        """Kill what the program left in its group, read the rest of its output and close the pipes."""
        send_group(self.pid, signal.SIGKILL)
        ends = [output.ended for output, _ in zip((self._stdout, self._stderr), self._readers, strict=False)]
        try:
            if ends:
                await asyncio.wait(ends, timeout=_DRAIN_SECONDS)
        finally:
            for reader in self._readers:
                reader.close()
            if self._writer is not None and self._writer.get_write_buffer_size():
                self._writer.abort()  # closing it would wait for somebody to read the rest
        await asyncio.sleep(0)  # transports close their pipes in the next round of the loop
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()  # those that were not connected

    def result(self, *, timed_out: bool) -> ProcessResult:
        code = self._popen.returncode
        return ProcessResult(
            exit_code=-signal.SIGKILL if code is None else code,
            stdout=_decode(self._stdout.data),
            stderr=_decode(self._stderr.data),
            timed_out=timed_out,
            overflowed=self.overflowed,
            duration_ms=(time.perf_counter() - self._started) * 1000,
        )

    def _wait(self) -> None:
        self._popen.wait()
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        _settle(self.settled)
        _settle(self.exited)


def _start(argv: Sequence[str], cwd: str, env: Mapping[str, str], has_stdin: bool) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - running what the user configured is what this is for
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProcessStartError(_explain(error, argv, cwd)) from error


async def _stop(child: _Child, grace_seconds: float) -> None:
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
    for _ in range(round(seconds / _POLL_SECONDS)):
        if not tree.is_running():
            return
        await asyncio.sleep(_POLL_SECONDS)


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
