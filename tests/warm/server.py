"""The server: loads pytest and the plugin once, and forks a process for each request.

A forked process is a child of the process that asked, which is the parent of the server: xdist and the plugin look at
their parent, so a worker needs the true one.
"""

import gc
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[0] = str(HERE.parent)

import warm.child  # noqa: E402
import warm.connection  # noqa: E402
import warm.preload  # noqa: E402
from warm.sibling import fork_sibling  # noqa: E402

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "WARM_ROOM"}
LONGEST_ADOPTION = 60.0


class Fork(NamedTuple):
    """What a forked process has to do."""

    request: dict[str, Any]
    descriptors: list[int]


def serve(connection: socket.socket) -> Fork | None:
    """Fork a process for each request; return the request in the new process, and None when no more can come."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 2**18, 3)
        if not data:
            return None
        fork = Fork(json.loads(data), descriptors)
        if not fork_sibling():
            _wait_for_adoption(fork.request["parent"])
            connection.send(str(os.getpid()).encode())
            connection.close()
            return fork
        for descriptor in descriptors:
            os.close(descriptor)


def _wait_for_adoption(parent: int) -> None:
    deadline = time.monotonic() + LONGEST_ADOPTION
    while os.getppid() != parent:
        if time.monotonic() > deadline:
            os._exit(1)  # the asking process has ended
        time.sleep(0.0005)


def give_own_server(fork: Fork) -> Fork | None:
    """Start a server that is a child of this process; return what this process, or one forked from it, has to do."""
    ours, theirs = warm.connection.connected()
    if os.fork():
        theirs.close()
        warm.connection.use_server(warm.connection.Server(ours, ENVIRONMENT))
        return fork
    ours.close()
    if fork.request["server_is_apart"]:
        os.setsid()
    for descriptor in fork.descriptors:
        os.close(descriptor)
    return serve(theirs)


def main() -> None:
    with warm.read_once():
        warm.preload.preload()
        gc.collect()
        gc.freeze()  # forked processes share the memory of all that is loaded
        gc.set_threshold(50_000, 10, 10)
        fork = serve(socket.socket(fileno=int(sys.argv[1])))
        while fork and fork.request["gets_server"] and not warm.connection.has_server():
            fork = give_own_server(fork)
        if fork:
            warm.child.work(fork.request, fork.descriptors)


if __name__ == "__main__":
    main()
