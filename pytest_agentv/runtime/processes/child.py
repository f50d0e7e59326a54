"""A running program and the pipes to it."""

import asyncio
import errno
import signal
import subprocess
import threading
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal, Protocol, TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.runtime.processes.process_tree import send_group

_DRAIN_SECONDS: Final = 0.2
"""Enough time to read the whole output. Only a daemon that keeps the pipes open takes longer."""

_THREAD_LIMIT: Final = "a limit of processes and threads, such as `ulimit -u`"


class ProcessStartError(AgentvError):
    """A program cannot be started."""


OutputListener: TypeAlias = Callable[[Literal["stdout", "stderr"], bytes], None]
"""Gets the output of a program as it arrives, in chunks that may end anywhere. Called on the event loop."""


class Output(asyncio.Protocol):
    """Collects one stream of a program up to a limit, or passes it to a listener."""

    def __init__(self, limit: int, settled: "Future[None]", listener: Callable[[bytes], None] | None = None) -> None:
        self.overflowed = False
        self.ended: Future[None] = asyncio.get_running_loop().create_future()
        self.data = bytearray()
        self._limit = limit
        self._settled = settled
        self._listener = listener

    @property
    def text(self) -> str:
        """Return the output decoded as UTF-8 with replacement characters, without a byte order mark, and CRLF as LF."""
        return self.data.decode("utf-8-sig", "replace").replace("\r\n", "\n")

    def data_received(self, data: bytes) -> None:
        if self._listener is not None:
            self._listener(data)
            return
        self.data += data
        if len(self.data) > self._limit:
            del self.data[self._limit :]
            self.overflowed = True
            _settle(self._settled)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        _settle(self.ended)


class Program(Protocol):
    """A started program, such as `subprocess.Popen`."""

    pid: int
    returncode: int | None
    """None until it has ended."""

    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    def wait(self) -> object:
        """Block until it has ended."""


class Child:
    """A running program that leads its own session.

    `asyncio.subprocess` does not fit for two reasons. A cancellation during the start kills only the program and not
    its children. And in several versions of Python it does not report the exit while a daemon keeps the pipes open.
    """

    def __init__(self, program: Program, output_limit: int, listener: OutputListener | None = None) -> None:
        self._program = program
        self._loop = asyncio.get_running_loop()
        self.pid = program.pid
        self.settled: Future[None] = self._loop.create_future()
        """Done when the program exits or exceeds the output limit."""
        self.exited: Future[None] = self._loop.create_future()
        self.stdout = Output(output_limit, self.settled, listener and partial(listener, "stdout"))
        self.stderr = Output(output_limit, self.settled, listener and partial(listener, "stderr"))
        self._readers: dict[Output, asyncio.ReadTransport] = {}
        self._writer: asyncio.WriteTransport | None = None

    def watch(self, called: str) -> None:
        """Start waiting for the exit in a thread. Otherwise kill the program `called` and raise `ProcessStartError`."""
        try:
            threading.Thread(target=self._wait, name="agentv-wait", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            send_group(self.pid, signal.SIGKILL)
            self._program.wait()
            self._close_pipes()
            raise ProcessStartError(f"cannot run {called!r}: {error} to wait for it ({_THREAD_LIMIT})") from error

    @property
    def exit_code(self) -> int:
        """Return the exit code, or the negative signal number. A program that cannot be killed counts as killed."""
        return -signal.SIGKILL if self._program.returncode is None else self._program.returncode

    @property
    def overflowed(self) -> bool:
        return self.stdout.overflowed or self.stderr.overflowed

    async def connect(self, stdin: bytes | None) -> None:
        """Read the output and write standard input in the background. The program may ignore its input."""
        await self._read(self.stdout, self._program.stdout)
        await self._read(self.stderr, self._program.stderr)
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

    async def _read(self, output: Output, pipe: IO[bytes] | None) -> None:
        self._readers[output], _ = await self._loop.connect_read_pipe(lambda: output, pipe)

    def _close_pipes(self) -> None:
        """Close the pipes that were cancelled while connecting. Transports close the others."""
        for pipe in (self._program.stdin, self._program.stdout, self._program.stderr):
            if pipe is not None:
                pipe.close()

    def _wait(self) -> None:
        self._program.wait()
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        _settle(self.settled)
        _settle(self.exited)


def start_child(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    has_stdin: bool,
    output_limit: int,
    listener: OutputListener | None = None,
) -> Child:
    """Start a program. Raises `ProcessStartError`."""
    try:
        popen = subprocess.Popen(  # noqa: S603 - the purpose of this module is to run the user's program
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
        raise ProcessStartError(explain_start_error(error, argv, cwd)) from error
    child = Child(popen, output_limit, listener)
    child.watch(argv[0])
    return child


def _settle(future: "Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def explain_start_error(error: OSError | ValueError, argv: Sequence[str], cwd: str) -> str:
    """Return why a program cannot be started, for the person who configured it."""
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
            "argument and about 2 MiB for all of them and the environment: pass long texts in a file or on "
            "standard input"
        )
    return f"cannot run {argv[0]!r}: {error.strerror}"
