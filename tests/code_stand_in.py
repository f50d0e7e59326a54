"""A stand-in for VS Code's command line program: it opens no window, and plays the agent by the file protocol.

The program imports next to nothing, and writes Python's own texts: json takes longer than all that it does.
"""

import os
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = r"""#!{python} -IS
import os, sys, time

HOME = os.path.dirname(__file__)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path, how="w"):
    with open(os.path.join(*path), how) as file:
        file.write(text)


MODE = eval(read(HOME, "mode"))
arguments = sys.argv[1:]


def note(**event):
    write(ascii({{**event, "time": time.monotonic()}}) + "\n", HOME, "calls", how="a")


def detach():
    # What the editor does goes on after its command line program has returned.
    if os.fork():
        os._exit(0)
    if not MODE.get("in_group"):
        os.setsid()
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)


def answer(text):
    import re

    temporary = re.search(r"(/\S.*_res\.tmp\.md)", text)[1]
    final = temporary.removesuffix("_res.tmp.md") + "_res.md"
    query = text.split("[[ ## user_query ## ]]")[1].split("[[ ##")[0].strip()
    reply = MODE.get("reply", "hello {{query}}").format(query=query).encode(MODE.get("encoding", "utf-8"))
    if MODE.get("pieces"):
        with open(final, "wb", buffering=0) as file:
            for at in range(0, len(reply), 7):
                file.write(reply[at : at + 7])
                time.sleep(0.03)
    else:
        write(reply, temporary, how="wb")
        os.rename(temporary, final)
    if MODE.get("twice"):
        time.sleep(0.2)
        write("a second answer", final)


def play(entry):
    texts = [read(entry)]
    if entry.endswith("_orchestrator.md"):
        import re

        names = re.findall(r"^\d+\. messages/(\S+)$", texts[0], re.MULTILINE)
        texts = [read(os.path.dirname(entry), name) for name in names]
    time.sleep(MODE.get("seconds", 0))
    deadline = time.monotonic() + 20
    while "until" in MODE and not os.path.exists(os.path.join(HOME, MODE["until"])) and time.monotonic() < deadline:
        time.sleep(0.02)
    for index, text in enumerate(texts):
        if index not in MODE.get("left_out", ()):
            answer(text)
    if not MODE.get("keeps_lock") and not MODE.get("left_out"):
        try:
            os.unlink(os.path.join(os.path.dirname(os.path.dirname(entry)), "subagent.lock"))
        except FileNotFoundError:
            pass
    note(event="answered", entry=entry)


def lock_text(folder):
    try:
        return read(folder, "subagent.lock")
    except OSError:
        return None


if "--status" in arguments:
    time.sleep(MODE.get("status_seconds", 0))
    print(read(HOME, "windows") if os.path.exists(os.path.join(HOME, "windows")) else "no window")
elif "chat" not in arguments:
    folder, name = os.path.split(arguments[-1])
    note(event="open", workspace=arguments[-1], argv=arguments)
    title = f"{{os.path.splitext(name)[0]}} (Workspace) - Visual Studio Code"
    write(f"|    Window ({{title}})\n", HOME, "windows", how="a")
    write(folder, HOME, "last")
    if MODE.get("starts_editor"):
        detach()
        write(str(os.getpid()), HOME, "editor.pid")
        time.sleep(30)
elif arguments[arguments.index("-m") + 1] == "wakeup":
    note(event="wakeup", argv=arguments)
    if not MODE.get("deaf"):
        _, is_named, folder = arguments[-1].partition("in the folder /")
        write("", f"/{{folder}}" if is_named else read(HOME, "last"), ".alive")
else:
    if "chat_seconds" in MODE:
        print("still thinking", file=sys.stderr, flush=True)
        time.sleep(MODE["chat_seconds"])
    if MODE.get("exit_code"):
        print("the window is gone", file=sys.stderr)
        sys.exit(MODE["exit_code"])
    paths = [arguments[at + 1] for at, word in enumerate(arguments) if word == "-a"]
    entry = next(path for path in paths if os.path.basename(os.path.dirname(path)) == "messages")
    messages = os.path.dirname(entry)
    folder = os.path.dirname(messages)
    files = {{name: read(messages, name) for name in os.listdir(messages)}}
    note(event="chat", argv=arguments, folder=folder, lock=lock_text(folder), files=files)
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
        (self.folder / "mode").write_text(ascii(mode), "utf-8")

    def open_windows(self, count: int) -> None:
        """Have windows on the first subagents open already."""
        titles = (f"|  Window (subagent-{number} (Workspace))\n" for number in range(1, count + 1))
        (self.folder / "windows").write_text("".join(titles), "utf-8")

    def calls(self, event: str | None = None) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        calls = [literal_eval(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        return [call for call in calls if event in (None, call["event"])]

    def wait_for(self, event: str, count: int = 1) -> None:
        until(lambda: len(self.calls(event)) >= count)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.02)
