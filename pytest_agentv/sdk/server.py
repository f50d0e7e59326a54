"""Judges many cases with one import of a script: the other side of `runtime/fork_server.py`.

`python -m pytest_agentv.sdk.server FD SCRIPT [ARGUMENT…]` imports the script once. For each case, it forks a process,
which calls the script's `judge(case)`. A judgement cannot affect the next one, because its process ends with it.

Requests arrive on the socket FD, one at a time: a line of JSON, and the three standard streams of the new process. The
new process replies with its id. This process reports its end. When the socket closes, everything ends.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

from pytest_agentv.sdk.judge import run_judge

REQUEST_LIMIT: Final = 256 * 1024
"""Bytes of a request: an id and a few variables."""


class Script:
    """A judge script, imported once. `failure` says why it cannot judge."""

    def __init__(self, words: Sequence[str]) -> None:
        self.failure = ""
        self._judge: Callable[..., Any] | None = None
        sys.argv = list(words)
        sys.path[0] = str(Path(words[0]).resolve().parent)
        try:
            with redirect_stdout(sys.stderr):
                found = runpy.run_path(words[0], run_name="agentv_judge").get("judge")
        except BaseException:  # noqa: BLE001 - each judgement reports it, as a process of its own would
            self.failure = traceback.format_exc()
            return
        if not callable(found):
            self.failure = f"{words[0]} has no function `judge(case)`, which `reuse: true` calls\n"
        self._judge = found

    def run(self) -> int:
        """Judge the case on standard input. Returns the exit code."""
        if self.failure or self._judge is None:
            sys.stderr.write(self.failure)
            return 1
        try:
            run_judge(self._judge)
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                return error.code or 0
            sys.stderr.write(f"{error.code}\n")
            return 1
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
            return 1
        return 0


class Server:
    """Forks a process for each request, and reports how each ended."""

    def __init__(self, control: socket.socket, script: Script) -> None:
        self._control = control
        self._script = script
        self._running: dict[int, int] = {}
        """Number of the request by process id."""
        self._wake, wakes = socket.socketpair()
        wakes.setblocking(False)
        self._wakes = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Answer requests until the socket closes. Then end all processes."""
        poll = select.poll()  # not `select`, which takes no descriptor above 1023
        for end in (self._control, self._wake):
            poll.register(end, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if self._wake.fileno() in ready:
                    self._wake.recv(4096)
                    self._report_ends()
                if self._control.fileno() in ready:
                    line, streams, _, _ = socket.recv_fds(self._control, REQUEST_LIMIT, 3)
                    if not line:
                        return
                    self._start(json.loads(line), streams)
        except OSError:
            return  # the run has ended
        finally:
            for pid in self._running:
                with suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)

    def _start(self, request: Mapping[str, Any], streams: Sequence[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_judge(request, streams)
        for stream in streams:
            os.close(stream)
        self._running[pid] = request["id"]

    def _become_judge(self, request: Mapping[str, Any], streams: Sequence[int]) -> None:
        """Run in the new process, which leads a session of its own before the run learns its id. Never returns."""
        code = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            self._send({"id": request["id"], "pid": os.getpid()})
            for end in (self._control, self._wake, self._wakes):
                end.close()
            os.environ.update(request["variables"])
            _limit_memory(request["memory_mb"])
            code = self._script.run()
        finally:
            for output in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    output.flush()
            os._exit(code)

    def _report_ends(self) -> None:
        while self._running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (number := self._running.pop(pid, None)) is not None:
                self._send({"id": number, "exit": os.waitstatus_to_exitcode(status)})

    def _send(self, message: Mapping[str, int]) -> None:
        self._control.sendall(f"{json.dumps(message)}\n".encode())


def _limit_memory(megabytes: int) -> None:
    """Limit the memory of this process to so many megabytes more than the imported script takes."""
    import resource  # noqa: PLC0415 - Unix only

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        pages = 0  # not Linux: the limit counts from zero
    size = pages * resource.getpagesize() + megabytes * 1024 * 1024
    with suppress(OSError, ValueError):  # a lower limit is already set
        resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)  # programs of the script must not keep it open
    script = Script(sys.argv[2:])
    gc.freeze()  # keeps the pages of the imported modules shared
    Server(control, script).serve()


if __name__ == "__main__":
    main()
