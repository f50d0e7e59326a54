"""A stand-in for VS Code's command line program: it opens no window, and plays the agent by the file protocol."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = r"""#!{python} -IS
import json, os, re, sys, time
from pathlib import Path

HOME = Path(__file__).parent
MODE = json.loads((HOME / "mode.json").read_text())
arguments = sys.argv[1:]


def note(**event):
    line = json.dumps({{**event, "time": time.monotonic()}}) + "\n"
    with open(HOME / "calls.jsonl", "a") as calls:
        calls.write(line)


def detach():
    # What the editor does goes on after its command line program has returned.
    if os.fork():
        os._exit(0)
    if not MODE.get("in_group"):
        os.setsid()
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)


def answer(text):
    temporary = Path(re.search(r"(/\S.*_res\.tmp\.md)", text)[1])
    final = temporary.with_name(temporary.name.replace("_res.tmp.md", "_res.md"))
    query = text.split("[[ ## user_query ## ]]")[1].split("[[ ##")[0].strip()
    reply = MODE.get("reply", "hello {{query}}").format(query=query).encode(MODE.get("encoding", "utf-8"))
    if MODE.get("pieces"):
        with open(final, "wb", buffering=0) as file:
            for at in range(0, len(reply), 7):
                file.write(reply[at : at + 7])
                time.sleep(0.03)
    else:
        temporary.write_bytes(reply)
        temporary.rename(final)
    if MODE.get("twice"):
        time.sleep(0.2)
        final.write_text("a second answer")


def play(entry):
    requests = [entry]
    if entry.name.endswith("_orchestrator.md"):
        names = re.findall(r"^\d+\. messages/(\S+)$", entry.read_text("utf-8"), re.MULTILINE)
        requests = [entry.parent / name for name in names]
    texts = [request.read_text("utf-8") for request in requests]
    time.sleep(MODE.get("seconds", 0))
    deadline = time.monotonic() + 20
    while "until" in MODE and not (HOME / MODE["until"]).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for index, text in enumerate(texts):
        if index not in MODE.get("left_out", ()):
            answer(text)
    if not MODE.get("keeps_lock") and not MODE.get("left_out"):
        (entry.parents[1] / "subagent.lock").unlink(missing_ok=True)
    note(event="answered", entry=str(entry))


def lock_text(folder):
    try:
        return (folder / "subagent.lock").read_text()
    except OSError:
        return None


if "--status" in arguments:
    time.sleep(MODE.get("status_seconds", 0))
    windows = HOME / "windows"
    print(windows.read_text() if windows.exists() else "no window")
elif "chat" not in arguments:
    workspace = Path(arguments[-1])
    note(event="open", workspace=str(workspace), argv=arguments)
    with open(HOME / "windows", "a") as windows:
        windows.write(f"|    Window ({{workspace.stem}} (Workspace) - Visual Studio Code)\n")
    (HOME / "last").write_text(str(workspace.parent))
    if MODE.get("starts_editor"):
        detach()
        (HOME / "editor.pid").write_text(str(os.getpid()))
        time.sleep(30)
elif arguments[arguments.index("-m") + 1] == "wakeup":
    note(event="wakeup", argv=arguments)
    if not MODE.get("deaf"):
        named = re.search(r"in the folder (/.*)", arguments[-1])
        Path(named[1] if named else (HOME / "last").read_text(), ".alive").touch()
else:
    if "chat_seconds" in MODE:
        print("still thinking", file=sys.stderr, flush=True)
        time.sleep(MODE["chat_seconds"])
    if MODE.get("exit_code"):
        print("the window is gone", file=sys.stderr)
        sys.exit(MODE["exit_code"])
    paths = [Path(arguments[at + 1]) for at, word in enumerate(arguments) if word == "-a"]
    entry = next(path for path in paths if path.parent.name == "messages")
    folder = entry.parents[1]
    files = {{path.name: path.read_text("utf-8") for path in entry.parent.iterdir()}}
    note(event="chat", argv=arguments, folder=str(folder), lock=lock_text(folder), files=files)
    if not MODE.get("silent"):
        detach()
        play(entry)
"""

LONGEST_WAIT = 20.0


class CodeStandIn:
    """The program, in a folder for `PATH`, and what it was called for."""

    def __init__(self, folder: Path, name: str = "code", **mode: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = folder / name
        self.program.write_text(PROGRAM.format(python=sys.executable), "utf-8")
        self.program.chmod(0o755)
        self.behave(**mode)

    @property
    def path(self) -> str:
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    def behave(self, **mode: Any) -> None:
        """Set what the agent does from now on; nothing: it answers at once, by the protocol."""
        (self.folder / "mode.json").write_text(json.dumps(mode), "utf-8")

    def open_windows(self, count: int) -> None:
        """Have windows on the first subagents open already."""
        titles = (f"|  Window (subagent-{number} (Workspace))\n" for number in range(1, count + 1))
        (self.folder / "windows").write_text("".join(titles), "utf-8")

    def calls(self, event: str | None = None) -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if event in (None, call["event"])]

    def wait_for(self, event: str, count: int = 1) -> None:
        until(lambda: len(self.calls(event)) >= count)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.02)
