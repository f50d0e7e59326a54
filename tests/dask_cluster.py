"""A Dask cluster of real processes: a scheduler and workers, each in a folder and an environment of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import warm
from elsewhere import with_hidden

NEEDS_DASK = pytest.mark.skipif(find_spec("distributed") is None, reason="needs pytest-agentv[dask]")
LONGEST_WAIT = 60.0


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition, and return what it found."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Program:
    """A process that leads a group of its own."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *words: str, hidden: Sequence[Path] = ()) -> None:
        """`hidden` folders are empty for the process, where that is allowed."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        names = ("PATH", "LANG", "LC_ALL", "HOME", "PYTHONPATH")
        own = {name: os.environ[name] for name in names if name in os.environ} | dict(environment)
        with self.log.open("ab") as log:
            self.process = warm.Popen(
                with_hidden([sys.executable, "-m", "dask", *words], hidden),
                cwd=folder,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()


class DaskCluster:
    """A scheduler, and workers by name. `address` is what `--agentv-executor` takes."""

    def __init__(
        self,
        folder: Path,
        hidden: Sequence[Path] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`hidden` folders are empty for the workers, where that is allowed; `environment` is that of all processes."""
        self._folder = folder
        self._hidden = hidden
        self._starts = 0
        self._threads: dict[str, tuple[int, Path | None]] = {}
        self.workers: dict[str, Program] = {}
        self._environment = dict(environment)
        self.scheduler, self._url = self._start_scheduler(0)
        self.address = self._url.replace("tcp://", "dask://").replace("tls://", "dask+tls://")

    def hide(self, *folders: Path) -> None:
        """Have workers that start from now on see empty folders, where that is allowed."""
        self._hidden = folders

    def _start_scheduler(self, port: int) -> tuple[Program, str]:
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        host = "tls://127.0.0.1" if "DASK_CONFIG" in self._environment else "tcp://127.0.0.1"
        words = ("--host", host, "--port", str(port), "--no-dashboard", "--scheduler-file", str(file))
        scheduler = Program(self._folder / "scheduler", self._environment, "scheduler", *words)
        return scheduler, until(lambda: _address(file))

    def revive(self) -> None:
        """Start a scheduler and workers again where those lived that have ended."""
        for worker in self.workers.values():
            worker.kill()
        self.scheduler, _ = self._start_scheduler(int(self._url.rpartition(":")[2]))
        for name, started in list(self._threads.items()):
            self.add_worker(name, *started)

    def add_worker(self, name: str, threads: int = 1, folder: Path | None = None, **environment: str) -> Program:
        """Start a worker in a folder, or in one of its own, and return when the scheduler knows it."""
        self._threads[name] = threads, folder
        folder = folder or self._folder / name
        known = self.workers.get(name)
        before = 0 if known is None else known.log.read_text().count("Starting established connection")
        self._starts += 1
        self.workers[name] = Program(
            folder,
            self._environment | environment,
            *("worker", self._url, "--name", f"{name}-{self._starts}", "--nthreads", str(threads), "--no-dashboard"),
            *("--no-nanny", "--host", self._url.rpartition(":")[0], "--local-directory", str(self._folder)),
            hidden=self._hidden,
        )
        log = self.workers[name].log
        until(lambda: log.read_text().count("Starting established connection") > before)
        return self.workers[name]

    def close(self) -> None:
        for program in (*self.workers.values(), self.scheduler):
            program.kill()


def _address(file: Path) -> str | None:
    with suppress(ValueError, OSError):
        return str(json.loads(file.read_text())["address"])
    return None
