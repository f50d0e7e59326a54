"""The side of the tests: ask the server for a process, and treat it as any other child."""

import inspect
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from execnet import gateway_base, gateway_io

from warm.connection import Server, the_server, use_server

_AT_START: Final = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "DASK_CONFIG")
"""Prefixes of variables that an interpreter, or its libraries, read only when they start."""
_APPLIED_LATER: Final = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUNBUFFERED")
"""Those of them that a forked process can apply."""
_ORDINARY: Final = {"executable": None, "preexec_fn": None, "pass_fds": (), "shell": False, "process_group": -1}
"""The values of arguments that a forked process cannot honour otherwise."""
_MODULE: Final = "import runpy; runpy.run_module('pytest', run_name='__main__')"
_SCRIPT: Final = "import runpy, sys; runpy.run_path(sys.argv[0], run_name='__main__')"
_CLUSTER: Final = "import dask.config, runpy; dask.config.refresh(); runpy.run_module('dask', run_name='__main__')"
_STARTING_WORKERS: Final = ("-n", "--numprocesses", "--tx", "--agentv-executor=processes")
_SCRIPTS: Final = ("pytest", "agentv")
_PLACE: Final = Path(sysconfig.get_path("scripts"))
_PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_start_cold: Final[Callable[..., None]] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_NAMES: Final = tuple(inspect.signature(_start_cold).parameters)[1:]


class Popen(subprocess.Popen[Any]):
    """A process as `subprocess` starts it, but forked from the server where that makes no difference."""

    forks_others: ClassVar = False
    """Whether the process gets a server in any case; one that starts workers always does."""

    def _execute_child(self, *values: Any) -> None:
        start = dict(zip(_NAMES, values, strict=True))
        cwd = str(Path.cwd() / (start["cwd"] or ""))
        job = job_of(start["args"], cwd) if _is_ordinary(start) else None
        environment = dict(os.environ if start["env"] is None else start["env"])
        if job is None or _read_at_start(environment) != _read_at_start(the_server().environment):
            _start_cold(self, *values)
            return
        shown = [os.fspath(word) for word in start["args"]]
        leads = bool(start["start_new_session"])
        request = {**job, "command": shown, "cwd": cwd, "environment": environment, "new_session": leads}
        request["gets_server"] = self.forks_others or _starts_workers(job["argv"])
        request["server_is_apart"] = self.forks_others
        streams = [start[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        inherited = [number if own == -1 else own for number, own in enumerate(streams)]
        self.pid = the_server().fork(request, inherited)
        self._child_created = True
        self._close_pipe_fds(*(start[name] for name in _PIPES))  # type: ignore[attr-defined]


def job_of(args: Any, cwd: str) -> dict[str, Any] | None:
    """Return what a command line of pytest, or of Python code, executes; None for any other command."""
    words = [] if isinstance(args, str | bytes | os.PathLike) else [os.fspath(word) for word in args]
    if words[:1] == [sys.executable]:
        match words[1:]:
            case ["-m", "pytest", *rest] | ["-mpytest", *rest]:
                main = str(Path(pytest.__file__).with_name("__main__.py"))
                return {"code": _MODULE, "argv": [main, *rest], "place": cwd, "is_short": True}
            case ["-m", "dask", *rest]:
                return {"code": _CLUSTER, "argv": ["dask", *rest], "place": cwd, "is_short": False}
            case ["-u", "-c", code, *rest]:  # a worker
                return {"code": code, "argv": ["-c", *rest], "place": "", "is_short": True}
            case ["-c", code, *rest]:
                return {"code": code, "argv": ["-c", *rest], "place": "", "is_short": False}
    elif words and Path(words[0]).parent == _PLACE and Path(words[0]).name in _SCRIPTS:
        return {"code": _SCRIPT, "argv": words, "place": str(_PLACE), "is_short": True}
    return None


def _is_ordinary(start: Mapping[str, Any]) -> bool:
    return sys.platform == "linux" and all(start.get(name, usual) == usual for name, usual in _ORDINARY.items())


def _starts_workers(arguments: list[str]) -> bool:
    return any(word.startswith(_STARTING_WORKERS) for word in arguments)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    named = (name for name in environment if name.startswith(_AT_START) and name not in _APPLIED_LATER)
    return {name: environment[name] for name in named}


def run(
    args: list[str], *, capture_output: bool = False, timeout: float | None = None, check: bool = False, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a process to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    finished = subprocess.CompletedProcess(args, process.returncode, output, errors)
    if check:
        finished.check_returncode()
    return finished


def environment_of_a_user() -> dict[str, str]:
    """Return the variables of a process that no test started.

    It keeps its temporary folders where the tests have theirs: elsewhere it deletes those of earlier runs of all tests.
    """
    kept = "PYTEST_DEBUG_TEMPROOT"
    return {name: value for name, value in os.environ.items() if name == kept or not name.startswith("PYTEST")}


class _PopenWithServer(Popen):
    forks_others = True


def start_workers_warm(*, that_fork_others: bool = False) -> None:
    """Let xdist, in this process, fork its workers from the server."""
    start_worker = _PopenWithServer if that_fork_others else Popen
    if that_fork_others and sys.platform == "linux":
        use_server(Server.start(apart=False))

    def start(self: Any, args: list[str], execmodel: Any) -> None:
        self.popen = process = start_worker(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        gateway_base.Popen2IO.__init__(self, process.stdin, process.stdout, execmodel=execmodel)

    gateway_io.Popen2IOMaster.__init__ = start  # type: ignore[method-assign]
