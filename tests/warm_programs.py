"""`pytest` and `agentv` for shell scripts that tests run: forked, where a fresh process takes a second."""

import contextlib
import json
import os
import socket
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import warm

_NAMES: Final = ("pytest", "agentv")
_LONGEST_REQUEST: Final = 2**18
_PROGRAM: Final = f"""#!{sys.executable} -SI
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as asked:
    asked.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))
    request = {{"arguments": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}}
    socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(asked.recv(16)))
"""


@contextlib.contextmanager
def warm_programs() -> Iterator[str]:
    """Return a folder with the programs, to be put before others in `PATH`; they run as long as this lasts."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        for name in _NAMES:
            program = Path(folder, name)
            program.write_text(_PROGRAM, "utf-8")
            program.chmod(0o755)
        listening.bind(path := f"{folder}/socket")
        listening.listen()
        serving = threading.Thread(target=_serve, args=(listening,))
        serving.start()
        try:
            yield folder
        finally:
            with socket.socket(socket.AF_UNIX) as asked:  # for nothing: it is the end
                asked.connect(path)
            serving.join()


def _serve(listening: socket.socket) -> None:
    """Answer one program after another: a script starts the next when the last has ended."""
    while True:
        asked, _ = listening.accept()
        with asked:
            data, streams, _, _ = socket.recv_fds(asked, _LONGEST_REQUEST, 3)
            if not data:
                return
            asked.send(str(_run(json.loads(data), streams)).encode())


def _run(request: dict[str, Any], streams: list[int]) -> int:
    program = Path(sysconfig.get_path("scripts"), Path(request["arguments"][0]).name)
    command = [str(program), *request["arguments"][1:]]
    given = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
    with warm.Popen(command, cwd=request["cwd"], env=request["env"], **given) as process:
        for stream in streams:
            os.close(stream)
        return process.wait()
