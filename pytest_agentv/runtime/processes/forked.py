"""A process that a server of `fork_server.py` forked."""

import os
import threading
from collections.abc import Sequence
from typing import IO


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
