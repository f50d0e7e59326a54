"""Processes forked from a warm one: a Python script is imported once, and each call gets a fork."""

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

from pytest_agentv.model.secrets import masked
from pytest_agentv.runtime.loop import close_with_loop
from pytest_agentv.runtime.process_tree import send_group
from pytest_agentv.runtime.processes import (
    OUTPUT_LIMIT,
    Child,
    ProcessResult,
    ProcessStartError,
    explain_start_error,
    run_child,
    timed_out_at_start,
)
from pytest_agentv.runtime.reaper import start_watcher, watched_group

_STDERR_TAIL: Final = 2000
_END_SECONDS: Final = 2.0
_EXIT_SECONDS: Final = 0.1
"""The time for a server to end after its socket is closed. The kernel does both almost at once."""
_MOST_KILLED: Final = 3
"""How many servers of a program in a row may be killed before they fork a process."""


class Program(NamedTuple):
    """A script for a server to import, with its folder. Equal programs share a server."""

    interpreter: str
    words: tuple[str, ...]
    """The script and its arguments."""
    cwd: str
    environment: tuple[tuple[str, str], ...]


async def run_forked(
    program: Program, stdin: bytes, *, variables: Mapping[str, str], timeout_seconds: float | None, memory_mb: int
) -> ProcessResult:
    """Call a program in a process of its own, forked from its server. Behaves like `run_process`.

    The time of the import counts for the calls that wait for it. If the import exceeds the limit, the server ends, and
    the next call starts another one. If a server is killed, waiting and later calls start another one, too. Raises
    `ProcessStartError`.
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
    child = Child(process, OUTPUT_LIMIT)
    child.watch(program.interpreter)
    return await run_child(child, stdin, left)


class _Servers:
    """The servers of one event loop, on which alone they are used."""

    def __init__(self) -> None:
        self._servers: dict[Program, ForkServer] = {}

    def find(self, program: Program) -> "ForkServer":
        server = self._servers.get(program)
        if server is None or server.is_closed or server.is_replaceable:
            server = ForkServer(program) if server is None else server.replaced(program)
            self._servers[program] = server
            close_with_loop(server.close)
        return server


_SERVERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Servers]] = WeakKeyDictionary()


class _Closed(Exception):
    """The server was closed because its import exceeded another call's limit, or it was killed."""


class ForkServer:
    """A warm process of a program. Used on one event loop.

    It runs `pytest_agentv.sdk.server`, and ends when its socket closes, so it cannot outlive this process.
    """

    def __init__(self, program: Program, killed_before: int = 0) -> None:
        """Prepare a server.

        `killed_before` counts the previous servers in a row that were killed before they forked.
        """
        self.is_closed = False
        self.is_replaceable = False
        """Whether it has ended by itself, so that another one may work."""
        self._killed_before = killed_before
        self._has_forked = False
        self._loop = asyncio.get_running_loop()
        self._forking = asyncio.Lock()
        """Held until the new process has sent its id, because the server reads one request at a time."""
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

    async def fork(self, variables: Mapping[str, str], memory_mb: int) -> "ForkedProcess":
        """Start a process. Raises `ProcessStartError` if the server ends before that."""
        async with self._forking:
            if self._last_words is not None and not self.is_replaceable:
                raise ProcessStartError(self._last_words)
            if self.is_closed or self.is_replaceable:
                raise _Closed
            self._last += 1
            process, theirs = piped()
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

    def replaced(self, program: Program) -> "ForkServer":
        """Return a server in place of this one, which is closed or has ended."""
        was_killed_early = self.is_replaceable and not self._has_forked
        return ForkServer(program, self._killed_before + 1 if was_killed_early else 0)

    async def close(self) -> None:
        """End the server and all its processes."""
        if self.is_closed:
            return
        self.is_closed = True
        self._forget_all(_Closed())
        self._control.close()  # so that the server ends
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
            self._note_death()

    def _note_death(self) -> None:
        """Find out why the server has ended. Calls that wait for it take another one if that may help."""
        self._stderr.seek(0)
        said = masked(self._stderr.read().decode("utf-8", "replace").strip())[-_STDERR_TAIL:]
        try:
            code = self._popen.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:  # it has closed its socket, but still runs
            code = 0
        how = f" by signal {-code}" if code < 0 else ""
        self._last_words = f"the process that imports the script ended{how}: {said or 'it said nothing'}"
        self.is_replaceable = self._has_forked or (code < 0 and self._killed_before + 1 < _MOST_KILLED)
        self._forget_all(_Closed() if self.is_replaceable else ProcessStartError(self._last_words))

    def _note(self, message: Mapping[str, Any]) -> None:
        number = message["id"]
        started = self._starting.pop(number, None)
        self._has_forked = True
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


def _start(program: Program, control: socket.socket, stderr: IO[bytes]) -> "subprocess.Popen[bytes]":
    argv = [program.interpreter, "-m", "pytest_agentv.sdk.server", str(control.fileno()), *program.words]
    try:
        return subprocess.Popen(  # noqa: S603 - the purpose of this module is to run the user's program
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


def piped() -> tuple[ForkedProcess, tuple[int, int, int]]:
    """Return an object for a future process, and its ends of the pipes."""
    their_stdin, stdin = os.pipe()
    stdout, their_stdout = os.pipe()
    stderr, their_stderr = os.pipe()
    ours = (os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0))
    return ForkedProcess(ours), (their_stdin, their_stdout, their_stderr)
