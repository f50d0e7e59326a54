"""A worker process: `python -m pytest_agentv.executors.worker FD`, with a socket to the process of the run."""

import os
import signal
import socket
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from pytest_agentv.executors.base import Frame, FrameReader, Reply, Setup, unpack
from pytest_agentv.executors.engine import PROBE, Probes, WorkerEngine

END_SECONDS: Final = 8.0
"""How long a worker may take to end its processes, when the run is over or its process is gone."""
_CHUNK: Final = 2**16


class Worker:
    """Reads messages in the main thread until the socket closes. The engine runs the jobs on its own loop."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._writing = threading.Lock()
        self._engine: WorkerEngine | None = None
        self._probes: Probes | None = None

    def serve(self) -> None:
        reader = FrameReader(self._take)
        with suppress(OSError):  # the process of the run may be gone
            while chunk := self._channel.recv(_CHUNK):
                reader.feed(chunk)
        # A hanging worker must not outlive the run. The watcher of this process ends its programs.
        timer = threading.Timer(END_SECONDS, os._exit, (1,))
        timer.daemon = True
        timer.start()
        if self._engine is not None:
            self._engine.close()

    def _take(self, frame: Frame) -> None:
        if frame.word == "setup":
            setup: Setup = unpack(frame.body)
            if setup.is_here and not setup.ships:  # modules are found in the same order as in the run
                sys.path[:] = setup.import_path
            self._probes = None if setup.is_here else Probes(self._send)
            self._engine = WorkerEngine(setup, self._probes)
            self._send(Frame("ready"))
        elif self._engine is not None and frame.word == "job":
            future = self._engine.start(frame.ticket, frame.body)
            future.add_done_callback(lambda done: self._reply(frame.ticket, done))
        elif self._probes is not None and frame.word == PROBE:
            self._probes.answer(frame)
        elif self._engine is not None:
            self._engine.cancel(frame.ticket)

    def _reply(self, ticket: str, done: "Future[bytes]") -> None:
        if done.cancelled():
            return  # the worker is ending
        # without a reply, the run would wait for ever
        self._send(Frame("reply", ticket, Reply().to_bytes() if done.exception() else done.result()))

    def _send(self, frame: Frame) -> None:
        with suppress(OSError), self._writing:  # the process of the run may be gone; results are kept
            self._channel.sendall(frame.to_bytes())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process of the run decides when jobs end
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        Worker(channel).serve()


if __name__ == "__main__":
    main()
