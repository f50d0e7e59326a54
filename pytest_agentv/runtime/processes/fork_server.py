"""Processes forked from a warm one: a Python script is imported once, and each call has a process of its own.

The server is `pytest_agentv.sdk.server`. It ends when its socket closes, so it cannot outlive this process. All
functions run on the event loop of the caller, and each loop has its own servers.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from pytest_agentv.runtime.closing import close_with_loop
from pytest_agentv.runtime.processes.child import Child, ProcessStartError, explain_start_error
from pytest_agentv.runtime.processes.process import OUTPUT_LIMIT, ProcessResult, run_child, timed_out_at_start
from pytest_agentv.runtime.processes.process_tree import send_group
from pytest_agentv.runtime.processes.reaper import start_watcher, watched_group

_SERVER_MODULE: Final = "pytest_agentv.sdk.server"
_STDERR_TAIL: Final = 2000
_END_SECONDS: Final = 2.0


class Program(NamedTuple):
    """A script that a server imports, and where. One server serves equal programs."""

    interpreter: str
    words: tuple[str, ...]
    """The script and its arguments."""
    cwd: str
    environment: tuple[tuple[str, str], ...]


class ForkedProcess:
    """A process that a server forked, in the shape of `subprocess.Popen`. `wait` may be called by any thread."""

    def __init__(self, streams: Sequence[IO[bytes]]) -> None:
        self.stdin, self.stdout, self.stderr = streams
        self.pid = 0
        self.returncode: int | None = None
        self._ended = threading.Event()

    def wait(self) -> None:
        self._ended.wait()

    def note_end(self, exit_code: int) -> None:
        self.returncode = exit_code
        self._ended.set()

    def close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


class _Closed(Exception):
    """The server was closed because its import took too long for another call."""


class ForkServer:
    """A warm process of a program. Used on one event loop."""

    def __init__(self, program: Program) -> None:
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._forking = asyncio.Lock()
        """Held until the new process has told its id: the server reads one request at a time."""
        self._starting: dict[int, asyncio.Future[int]] = {}
        self._running: dict[int, ForkedProcess] = {}
        self._last = 0
        self._unread = b""
        self._last_words: str | None = None
        """Set when the server has ended by itself."""
        self._resources = ExitStack()
        self._stderr = self._resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the server
        start_watcher()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._popen = _start(program, theirs, self._stderr)
        self._resources.enter_context(watched_group(self._popen.pid))
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._read)

    async def fork(self, variables: Mapping[str, str], memory_mb: int) -> ForkedProcess:
        """Start a process. Raises `ProcessStartError` if the server ends before that."""
        async with self._forking:
            if self._last_words is not None:
                raise ProcessStartError(self._last_words)
            if self.is_closed:
                raise _Closed
            self._last += 1
            process, theirs = _piped()
            self._running[self._last] = process
            started = self._starting[self._last] = self._loop.create_future()
            request = {"id": self._last, "variables": dict(variables), "memory_mb": memory_mb}
            try:
                self._send(request, theirs)
                process.pid = await started
            except BaseException:
                process.close()
                raise
            return process

    async def close(self) -> None:
        """End the server and all its processes."""
        if self.is_closed:
            return
        self.is_closed = True
        self._forget_all(_Closed())
        self._control.close()  # which ends the server
        ended = self._loop.run_in_executor(None, self._popen.wait)
        await asyncio.wait([ended], timeout=_END_SECONDS)
        send_group(self._popen.pid, signal.SIGKILL)
        await ended
        self._resources.close()

    def _send(self, request: Mapping[str, Any], streams: Sequence[int]) -> None:
        try:
            with suppress(OSError):  # the server is gone: `_read` notices
                socket.send_fds(self._control, [json.dumps(request).encode()], streams)
        finally:
            for stream in streams:
                os.close(stream)

    def _read(self) -> None:
        try:
            data = self._control.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._note(json.loads(line))
        if not data:
            self._stderr.seek(0)
            said = self._stderr.read().decode("utf-8", "replace").strip()[-_STDERR_TAIL:]
            self._last_words = f"the process that imports the script ended: {said or 'it said nothing'}"
            self._forget_all(ProcessStartError(self._last_words))

    def _note(self, message: Mapping[str, Any]) -> None:
        number = message["id"]
        started = self._starting.pop(number, None)
        if "exit" in message:
            self._running.pop(number).note_end(message["exit"])
            if started is not None and not started.done():
                started.set_exception(ProcessStartError("the process ended before it began"))
        elif started is None or started.done():  # the caller was cancelled meanwhile
            send_group(message["pid"], signal.SIGKILL)
        else:
            started.set_result(message["pid"])

    def _forget_all(self, reason: Exception) -> None:
        self._loop.remove_reader(self._control)
        for process in self._running.values():
            process.note_end(-signal.SIGKILL)
        for started in self._starting.values():
            if not started.done():
                started.set_exception(reason)
        self._running.clear()
        self._starting.clear()


class _Servers:
    """The servers of one event loop."""

    def __init__(self) -> None:
        self._servers: dict[Program, ForkServer] = {}

    def find(self, program: Program) -> ForkServer:
        server = self._servers.get(program)
        if server is None or server.is_closed:
            server = self._servers[program] = ForkServer(program)
            close_with_loop(server.close)
        return server


_SERVERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Servers]] = WeakKeyDictionary()


async def run_forked(
    program: Program, stdin: bytes, *, variables: Mapping[str, str], timeout_seconds: float | None, memory_mb: int
) -> ProcessResult:
    """Call a program in a process of its own, forked from its server. Behaves like `run_process`.

    The time of the import counts for the calls that wait for it. An import that takes longer than the limit ends the
    server; the next call starts another one. Raises `ProcessStartError`.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
    server = None
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                server = _SERVERS.setdefault(loop, _Servers()).find(program)
                with suppress(_Closed):
                    process = await server.fork(variables, memory_mb)
                    break
    except TimeoutError:
        if server is not None:
            await server.close()
        return timed_out_at_start(timeout_seconds or 0)
    left = None if deadline is None else max(0.0, deadline - loop.time())
    return await run_child(Child(process, OUTPUT_LIMIT), stdin, left)


def _start(program: Program, control: socket.socket, stderr: IO[bytes]) -> "subprocess.Popen[bytes]":
    argv = [program.interpreter, "-m", _SERVER_MODULE, str(control.fileno()), *program.words]
    try:
        return subprocess.Popen(  # noqa: S603 - running what the user configured is what this is for
            argv,
            cwd=program.cwd,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=[control.fileno()],
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProcessStartError(explain_start_error(error, argv, program.cwd)) from error


def _piped() -> tuple[ForkedProcess, tuple[int, int, int]]:
    """Return a process to be, and its ends of the pipes."""
    their_stdin, stdin = os.pipe()
    stdout, their_stdout = os.pipe()
    stderr, their_stderr = os.pipe()
    ours = (os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0))
    return ForkedProcess(ours), (their_stdin, their_stdout, their_stderr)
