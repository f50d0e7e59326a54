"""Keeps two runs from resuming one results file at once: both would pay for the same cases."""

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.runtime.locks import ProcessLock, is_in_use


def lock_resumed(path: Path, flag: str, config: pytest.Config) -> None:
    """Lock a results file until pytest's end. Raises `pytest.UsageError` while another process resumes or writes it.

    The system opens the lock when its holder dies, however that happens.
    """
    lock_path = path.with_name(f".{path.name}.resumed")
    lock, stack = ProcessLock(lock_path), ExitStack()

    def release() -> None:
        with suppress(OSError):
            lock_path.unlink()
        with suppress(OSError):
            stack.close()
        lock.close()

    try:
        stack.enter_context(lock.hold(0))
    except TimeoutError:
        lock.close()
        raise pytest.UsageError(f"{flag}: {locate(path, None)} is being resumed by {_holder(lock_path)}") from None
    except OSError:  # nobody can write to this folder
        return
    if is_in_use(path):
        release()
        raise pytest.UsageError(
            f"{flag}: a run that writes {locate(path, None)} is not over; wait for its end, or end it"
        )
    with suppress(OSError):
        lock_path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", "utf-8")
    config.add_cleanup(release)


def _holder(lock_path: Path) -> str:
    with suppress(OSError):
        text = lock_path.read_text("utf-8", "replace").strip()
        if text:
            return f"{text}; wait for its end, or end it"
    return "another process; wait for its end"
