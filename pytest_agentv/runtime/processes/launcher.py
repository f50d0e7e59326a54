"""Runs a program that starts another one and returns, such as the command line tool of an editor."""

import asyncio
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

_POLL_SECONDS: Final = 0.02
_TERM_SECONDS: Final = 1.0
_OUTPUT_LIMIT: Final = 64 * 1024
"""Bytes kept of each stream: enough for an error message."""


class LaunchError(AgentvError):
    """A program cannot be started."""


@record
class Launched(Record):
    """The exit code and the output of the launching program."""

    exit_code: int | None
    """None: it did not return in time and was terminated."""
    stdout: str
    stderr: str


async def launch(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], timeout_seconds: float) -> Launched:
    """Run a program to its end, but leave the programs that it started running. Raises `LaunchError`.

    `run_process` would end them. Here the editor belongs to the user, may have been open before and may hold other
    work. So the program gets its own session, which Ctrl-C does not reach, and its group is never signalled, even if
    this process is killed. A time-out or a cancellation ends only the program itself. It writes to unnamed files
    instead of pipes, because an editor that inherits a pipe would fail once this run is over.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        popen = _start(argv, cwd, env, (stdout, stderr))
        try:
            async with asyncio.timeout(timeout_seconds):
                while popen.poll() is None:  # noqa: ASYNC110 - the end of this process cannot be awaited
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return Launched(None, _text(stdout), _text(stderr))
        finally:
            _end(popen)
        return Launched(popen.returncode, _text(stdout), _text(stderr))


def _start(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], output: tuple[IO[bytes], IO[bytes]]
) -> "subprocess.Popen[bytes]":
    stdout, stderr = output
    try:
        return subprocess.Popen(  # noqa: S603 - the purpose of this module is to run the user's program
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot run {argv[0]!r}: {getattr(error, 'strerror', None) or error}") from error


def _end(popen: "subprocess.Popen[bytes]") -> None:
    """Terminate the program if it still runs. Blocks for at most a second if it ignores SIGTERM."""
    if popen.poll() is not None:
        return
    popen.terminate()
    with suppress(subprocess.TimeoutExpired):
        popen.wait(_TERM_SECONDS)
        return
    popen.kill()
    popen.wait(_TERM_SECONDS)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_OUTPUT_LIMIT).decode("utf-8-sig", "replace").replace("\r\n", "\n")
