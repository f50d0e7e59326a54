"""Tells foreign workers that the run has ended, or that one of their jobs must end.

The process of the run locks a file in a folder that all workers see. The operating system releases the lock when the
process dies. Such a lock belongs to one process: forked children do not hold it.
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
    """The end of the leash in the process of the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = (folder / _NAME).open("w", encoding="utf-8")
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.write(process_name())
        self._file.flush()

    def stop(self, ticket: str) -> None:
        """Tell a job to end."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").touch()

    def forget(self, ticket: str) -> None:
        """Withdraw `stop`, because the job has ended."""
        with suppress(OSError):
            (self._folder / f"{ticket}{_STOP}").unlink()

    def release(self) -> None:
        """Tell all jobs to end, and all workers to close their resources."""
        if self._file is not None:
            with suppress(OSError):
                (self._folder / _NAME).unlink()
            self._file.close()
            self._file = None


def clear_leash(folder: Path) -> None:
    """Remove the leash of a killed run. The leash of a running run stays."""
    if (folder / _NAME).exists() and LeashEnd(folder).is_cut():
        for path in (folder / _NAME, *folder.glob(f"*{_STOP}")):
            with suppress(OSError):
                path.unlink()


class LeashEnd:
    """The end of the leash that a worker watches."""

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
                return True  # another run has resumed the results of this one
            if holder == process_name():
                return False  # our own process holds the lock, and closing the file again would release it
            with path.open("a", encoding="utf-8") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def is_stopped(self, ticket: str) -> bool:
        """Whether a job must end."""
        return (self._folder / f"{ticket}{_STOP}").exists()


def process_name() -> str:
    """Return a unique name of this process."""
    return f"{socket.gethostname()} {os.getpid()}"
