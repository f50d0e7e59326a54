"""Runs programs within limits of time and output, and ends all their processes."""

import asyncio
import errno
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.model.base import Record
from pytest_agentv.runtime.files import utf8_fault
from pytest_agentv.runtime.reaper import Program, kill_marked, send_group, watched

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Limit in bytes, for standard output and standard error each."""

_TERM_SECONDS: Final = 5.0
"""Time from SIGTERM to SIGKILL after a time-out, as the specification says."""
_CANCEL_SECONDS: Final = 0.5
"""Time from SIGTERM to SIGKILL when the run stops: Ctrl-C must end the run within two seconds."""
_KILL_SECONDS: Final = 2.0
"""Limit of the wait for killed processes. Those of another user (sudo) cannot be killed."""
_POLL_SECONDS: Final = 0.02

_DRAIN_SECONDS: Final = 0.2
"""Enough time to read the whole output. Only a daemon that keeps the pipes open takes longer."""

_OUTPUT_LIMIT: Final = 64 * 1024
"""Bytes kept of the output of a launcher: enough for an error message."""

_LAUNCHER: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become children of this process
signal.signal(signal.SIGTERM, lambda *_: None)  # it ends when the program has ended
child = os.fork()
if not child:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        os.write(2, f"cannot run {sys.argv[1]!r}: {error.strerror}\\n".encode())
        os._exit(127)
pid = 0
while pid != child:
    pid, status = os.waitpid(-1, 0)
try:
    while left := open(f"/proc/self/task/{os.getpid()}/children").read().split():
        for each in left:
            os.kill(int(each), signal.SIGKILL)
        os.waitpid(-1, 0)
except OSError:
    pass  # all are gone, or belong to another user
if os.WIFSIGNALED(status):
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.waitstatus_to_exitcode(status))
"""
"""Runs a program, and kills what it leaves running, wherever that went and whatever its environment is."""

_MARK: Final = "AGENTV_PROGRAM_ID"

OutputListener: TypeAlias = Callable[[Literal["stdout", "stderr"], bytes], None]
"""Gets the output of a program as it arrives, in chunks that may end anywhere. Called on the event loop."""


class ProcessStartError(AgentvError):
    """A program cannot be started."""


@dataclass(frozen=True, slots=True)
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
    listener: OutputListener | None = None,
    leaves_nothing: bool = False,
) -> ProcessResult:
    """Run a program in its own session. Raises `ProcessStartError`.

    After a time-out its process group, and every descendant, gets SIGTERM, and SIGKILL five seconds later; after a
    cancellation, half a second later. When the program ends by itself, children that are left in its group are killed;
    with `leaves_nothing`, on Linux, all its descendants. A listener gets all output, and the result then holds none.
    """
    value = uuid.uuid4().hex
    mark = f"{_MARK}={value}"
    if leaves_nothing and sys.platform == "linux":
        argv = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *argv]
    started = time.perf_counter()
    with watched(f"MARK {mark}"):
        child = Child(argv, cwd, {**env, _MARK: value}, listener, has_stdin=stdin is not None)
        with watched(f"PROGRAM {child.pid} {mark}"):
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
        if leaves_nothing and child.exit_code == -signal.SIGKILL:
            kill_marked(mark)  # the launcher may have been killed
    return ProcessResult(
        exit_code=child.exit_code,
        stdout=_decoded(child.stdout.data),
        stderr=_decoded(child.stderr.data),
        timed_out=timed_out,
        overflowed=child.overflowed,
        duration_ms=(time.perf_counter() - started) * 1000,
        stdout_fault=utf8_fault(child.stdout.data),
    )


async def _stop(child: "Child", grace_seconds: float, mark: str) -> None:
    """End the program and its descendants. If this is cancelled, kill them at once."""
    program = Program(child.pid, mark)
    try:
        program.send(signal.SIGTERM)
        await _wait_for_end(program, grace_seconds)
    finally:
        program.send(signal.SIGKILL)
        kill_marked(mark)
    await _wait_for_end(program, _KILL_SECONDS)
    await asyncio.wait([child.exited], timeout=_KILL_SECONDS)


async def _wait_for_end(program: Program, seconds: float) -> None:
    deadline = time.monotonic() + seconds  # not a number of rounds, because a round takes longer on a busy machine
    while program.is_running() and time.monotonic() < deadline:  # noqa: ASYNC110 - not all of them are our children
        await asyncio.sleep(_POLL_SECONDS)


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


class Output(asyncio.Protocol):
    """Collects one stream of a program up to a limit, or passes it to a listener."""

    def __init__(self, settled: "Future[None]", listener: Callable[[bytes], None] | None = None) -> None:
        self.overflowed = False
        self.ended: Future[None] = asyncio.get_running_loop().create_future()
        self.data = bytearray()
        self._settled = settled
        self._listener = listener

    def data_received(self, data: bytes) -> None:
        if self._listener is not None:
            self._listener(data)
            return
        self.data += data
        if len(self.data) > OUTPUT_LIMIT:
            del self.data[OUTPUT_LIMIT:]
            self.overflowed = True
            _settle(self._settled)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        _settle(self.ended)


class Child:
    """A running program that leads its own session.

    `asyncio.subprocess` does not fit for two reasons. A cancellation during the start kills only the program and not
    its children. And in several versions of Python it does not report the exit while a daemon keeps the pipes open.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        listener: OutputListener | None,
        *,
        has_stdin: bool,
    ) -> None:
        """Start the program. Raises `ProcessStartError`."""
        stdin = subprocess.PIPE if has_stdin else subprocess.DEVNULL
        self._program = _start(argv, cwd, env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._loop = asyncio.get_running_loop()
        self.pid = self._program.pid
        self.settled: Future[None] = self._loop.create_future()
        """Done when the program exits or exceeds the output limit."""
        self.exited: Future[None] = self._loop.create_future()
        self.stdout = Output(self.settled, listener and partial(listener, "stdout"))
        self.stderr = Output(self.settled, listener and partial(listener, "stderr"))
        self._readers: dict[Output, asyncio.ReadTransport] = {}
        self._writer: asyncio.WriteTransport | None = None
        try:
            threading.Thread(target=self._wait, name="agentv-wait", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            send_group(self.pid, signal.SIGKILL)
            self._program.wait()
            self._close_pipes()
            limit = "a limit of processes and threads, such as `ulimit -u`"
            raise ProcessStartError(f"cannot run {argv[0]!r}: {error} to wait for it ({limit})") from error

    @property
    def exit_code(self) -> int:
        """Return the exit code, or the negative signal number. A program that cannot be killed counts as killed."""
        return -signal.SIGKILL if self._program.returncode is None else self._program.returncode

    @property
    def overflowed(self) -> bool:
        return self.stdout.overflowed or self.stderr.overflowed

    async def connect(self, stdin: bytes | None) -> None:
        """Read the output and write standard input in the background. The program may ignore its input."""
        self._readers[self.stdout], _ = await self._loop.connect_read_pipe(lambda: self.stdout, self._program.stdout)
        self._readers[self.stderr], _ = await self._loop.connect_read_pipe(lambda: self.stderr, self._program.stderr)
        if stdin is not None:
            self._writer, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, self._program.stdin)
            self._writer.write(stdin)
            self._writer.write_eof()

    async def close(self) -> None:
        """Kill the rest of the program's group, read the rest of its output and close the pipes."""
        send_group(self.pid, signal.SIGKILL)
        try:
            if self._readers:
                await asyncio.wait([output.ended for output in self._readers], timeout=_DRAIN_SECONDS)
        finally:
            for reader in self._readers.values():
                reader.close()
            if self._writer is not None and self._writer.get_write_buffer_size():
                self._writer.abort()  # `close` would wait until all data is read
            self._loop.call_soon(self._close_pipes)
        await asyncio.sleep(0)  # lets the loop run these callbacks

    def _close_pipes(self) -> None:
        """Close the pipes that were cancelled while connecting. Transports close the others."""
        for pipe in (self._program.stdin, self._program.stdout, self._program.stderr):
            if pipe is not None:
                pipe.close()

    def _wait(self) -> None:
        self._program.wait()
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            for future in (self.settled, self.exited):
                self._loop.call_soon_threadsafe(_settle, future)


def _settle(future: "Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _start(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], **streams: int | IO[bytes]
) -> "subprocess.Popen[bytes]":
    """Start a program in its own session. Raises `ProcessStartError`."""
    try:
        # S603: the purpose of this module is to run the user's program
        return subprocess.Popen(argv, cwd=cwd, env=env, bufsize=0, start_new_session=True, **streams)  # type: ignore[call-overload,no-any-return] # noqa: S603
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        if not Path(cwd).is_dir():
            reason = f"its working directory {cwd!r} does not exist"
        elif isinstance(error, FileNotFoundError):
            reason = "no such program, neither as a path nor on PATH"
        elif getattr(error, "errno", None) == errno.E2BIG:
            reason = "its arguments are too long: pass long texts in a file or on standard input"
        raise ProcessStartError(f"cannot run {argv[0]!r}: {reason}") from error


# A program that starts another one and returns, such as the command line tool of an editor.


async def launch(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], timeout_seconds: float
) -> tuple[int | None, str]:
    """Run a program to its end, but leave the programs that it started running. Raises `ProcessStartError`.

    Returns its exit code, None if it did not return in time and was killed, and its output. `run_process` would end
    what it started, but the editor is the user's, and may hold other work. The program writes to an unnamed file,
    because an editor that inherits a pipe would fail once this run is over.
    """
    with tempfile.TemporaryFile() as output:
        program = _start(argv, cwd, env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + timeout_seconds
        try:
            while program.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - the end of this process cannot be awaited
                await asyncio.sleep(_POLL_SECONDS)
            exit_code = program.poll()
        finally:
            if program.poll() is None:
                program.kill()
                program.wait()
        output.seek(0)
        return exit_code, _decoded(output.read(_OUTPUT_LIMIT))
