"""Keeps two runs from resuming one results file at once: both would pay for the same cases."""

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.runtime.locks import ProcessLock


def lock_resumed(path: Path, flag: str, config: pytest.Config) -> None:
    """Lock a results file until pytest's end. Raises `pytest.UsageError` when another process has locked it.

    The system opens the lock when its holder dies, however that happens.
    """
    lock_path = path.with_name(f".{path.name}.resumed")
    lock, stack = ProcessLock(lock_path), ExitStack()
    try:
        stack.enter_context(lock.hold(0))
    except TimeoutError:
        lock.close()
        raise pytest.UsageError(f"{flag}: {locate(path, None)} is being resumed by {_holder(lock_path)}") from None
    except OSError:  # nobody can write to this folder
        return
    with suppress(OSError):
        lock_path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", "utf-8")

    def release() -> None:
        with suppress(OSError):
            lock_path.unlink()
        with suppress(OSError):
            stack.close()
        lock.close()

    config.add_cleanup(release)


def _holder(lock_path: Path) -> str:
    with suppress(OSError):
        text = lock_path.read_text("utf-8", "replace").strip()
        if text:
            return f"{text}; wait for its end, or end it"
    return "another process; wait for its end"
