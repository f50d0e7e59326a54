"""The forked process: become what was asked for, and do it."""

import atexit
import ctypes
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import warm.connection
import warm.preload
import warm.process

_OWN_PATH = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
_INSTALLED = sys.path[1 + len(_OWN_PATH) :]


def work(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    _become(request, descriptors)
    if warm.connection.has_server():
        warm.process.start_workers_warm()
    main = sys.modules["__main__"] = ModuleType("__main__")
    code = 0
    try:
        exec(request["code"], vars(main))
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        code = end.code
    if request["is_short"]:
        _end(code)
    raise SystemExit(code)


def _end(code: int) -> NoReturn:
    """End without tearing down every loaded module, which takes a third of a short run."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    _replace_environment(request["environment"])
    _replace_path(request)
    _show_in_proc(request["command"], request["environment"])
    _open_streams(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warm.preload.forget_folder()


def _open_streams(environment: Mapping[str, str]) -> None:
    name, _, errors = environment.get("PYTHONIOENCODING", "").partition(":")
    encoding, errors = name or None, errors or "strict"
    is_unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    output = open(1, "wb", 0 if is_unbuffered else -1, closefd=False)  # noqa: SIM115
    standard = (
        open(0, encoding=encoding, errors=errors, closefd=False),  # noqa: SIM115
        io.TextIOWrapper(output, encoding, errors, write_through=is_unbuffered),
        open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False),  # noqa: SIM115
    )
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = standard  # type: ignore[misc]


def _replace_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))


def _replace_path(request: dict[str, Any]) -> None:
    named = [place for place in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [request["place"], *named, *_INSTALLED]
    sys.modules["xdist.plugin"]._sys_path[:] = sys.path  # what a run hands to its workers


def _show_in_proc(command: list[str], environment: dict[str, str]) -> None:
    """Let `/proc` show this process's own command line and environment."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    shown = (command, [f"{name}={value}" for name, value in environment.items()])
    for texts, start, end in zip(shown, map(int, fields[45:49:2]), map(int, fields[46:50:2]), strict=True):
        data = b"".join(os.fsencode(text) + b"\0" for text in texts)[: end - start - 1]
        ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)
