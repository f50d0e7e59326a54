"""The connection of a process to the server from which it forks others."""

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_SERVER: Final = Path(__file__).with_name("server.py")
_CHECKOUT: Final = Path(__file__).parents[2]
_ROOM: Final = " " * 8_000
"""An argument and a variable of this size leave room for those of forked processes, which `/proc` shows."""
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""For numpy, which Dask brings along. A fork would wait forever for threads that it does not have."""
_SET_CHILD_SUBREAPER: Final = 36
_ENVIRONMENT: Final = dict(os.environ)
"""Before any test changed it: the server serves all of them."""
_libc = ctypes.CDLL(None)


class Server:
    """The server of this process, which is its child."""

    def __init__(self, connection: socket.socket, environment: Mapping[str, str]) -> None:
        self.environment = environment
        """The variables that the interpreter was started with."""
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def start(cls, *, apart: bool = True) -> "Server":
        """Start a server: out of reach of a Ctrl-C that a test sends, or with its processes in reach of the user's."""
        ours, theirs = connected()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(theirs.fileno()), _ROOM],
                env={**_ENVIRONMENT, **_ONE_THREAD, "WARM_ROOM": _ROOM},
                pass_fds=[theirs.fileno()],
                cwd=_CHECKOUT,  # a test may be elsewhere by now
                stdin=subprocess.DEVNULL,
                start_new_session=apart,
            )
        process.returncode = 0  # nobody waits for it: it ends when this process does
        return cls(ours, _ENVIRONMENT)

    def close(self) -> None:
        self._connection.close()

    def fork(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        """Return the id of a new process, a child of this one."""
        with self._lock, _adopting():
            data = json.dumps({**request, "parent": os.getpid()}).encode()
            socket.send_fds(self._connection, [data], descriptors)
            answer = self._connection.recv(100)
        if not answer:
            raise RuntimeError("the server that forks pytest runs has ended")
        return int(answer)


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of descendants whose own parent ends."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def connected() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a connection that keeps messages apart."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**18)
    return ends


_servers: Final[dict[int, Server]] = {}
"""By process: a process that was forked needs a server that is its own child."""
_lock = threading.Lock()


def use_server(server: Server) -> None:
    """Fork from this server until this process ends, which ends the server."""
    _servers.clear()
    _servers[os.getpid()] = server
    atexit.register(server.close)


def the_server() -> Server:
    """Return the server of this process; start it if there is none yet."""
    with _lock:
        if os.getpid() not in _servers:
            use_server(Server.start())
        return _servers[os.getpid()]


def has_server() -> bool:
    return os.getpid() in _servers
