"""How workers that the run did not start learn that it has ended, or that a job of theirs is to end.

The process of the run locks a file in a folder that all of them see. The operating system frees the lock when the
process dies. A lock of this sort belongs to one process: children that it forks do not hold it.
"""

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_NAME: Final = "run.lock"
_STOP: Final = ".stop"


class Leash:
    """The end that the process of the run holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = (folder / _NAME).open("w", encoding="utf-8")
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.write(process_name())
        self._file.flush()

    def stop(self, ticket: str) -> None:
        """Have one job end."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").touch()

    def forget(self, ticket: str) -> None:
        """Take back what `stop` said: the job has ended."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").unlink()

    def release(self) -> None:
        """Have all jobs end, and every worker close what it opened."""
        if self._file is not None:
            with suppress(OSError):
                (self._folder / _NAME).unlink()
            self._file.close()
            self._file = None


def clear_leash(folder: Path) -> None:
    """Remove what a run that was killed has left of its leash; that of a run that goes on stays."""
    if (folder / _NAME).exists() and LeashEnd(folder).is_cut():
        for path in (folder / _NAME, *folder.glob(f"*{_STOP}")):
            with suppress(OSError):
                path.unlink()


class LeashEnd:
    """The end that a worker looks at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder: str | None = None

    def is_cut(self) -> bool:
        """Whether the run is over, or its process is gone."""
        path = self._folder / _NAME
        try:
            holder = path.read_text("utf-8")
            self._holder = self._holder or holder
            if holder != self._holder:
                return True  # another run goes on with the results of this one
            if holder == process_name():
                return False  # its own process holds it; to close the file again would release the lock
            with path.open("a", encoding="utf-8") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def is_stopped(self, ticket: str) -> bool:
        """Whether a job is to end."""
        return (self._folder / f"{ticket}{_STOP}").exists()


def process_name() -> str:
    """Return a name of this process that no other has at the same time."""
    return f"{socket.gethostname()} {os.getpid()}"
