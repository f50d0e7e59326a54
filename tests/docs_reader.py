"""Somebody who does what a page says: writes its files, runs its commands, and compares what is printed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import warm
from docs_pages import Block, Page, is_set_up
from warm_programs import warm_programs


class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    def __init__(self, folder: Path, page: Page) -> None:
        self.folder = folder
        self.page = page
        self.printed = ""
        """By the last block of commands."""
        self.records: list[Any] = []
        """All lines of results files that the runs have written."""

    def follow(self) -> None:
        for block in self.page.blocks:
            if block.name:
                path = self.folder / block.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, "utf-8")
            elif not block.is_run or self.lacks_node(block):
                self.printed = ""
            elif block.language == "sh":
                self.run(block)
            elif block.language == "text" and self.printed:
                assert shows(self.printed, block.text), f"{block.where}: this is not what was printed:\n{self.printed}"

    def run(self, block: Block) -> None:
        self.printed = ""
        for command in (command for command in block.commands if not is_set_up(command)):
            finished = run_in(self.folder, command)
            self.printed += finished.stdout + finished.stderr
            is_last = command == block.commands[-1]
            expected = block.exit_code if is_last else 0
            assert finished.returncode == expected, f"{block.where}: {command}\n{self.printed}"
            self.records += self._written(finished.stdout)

    def _written(self, output: str) -> list[Any]:
        found = re.search(r"^Results written to: (.*\.jsonl)$", output, re.MULTILINE)
        return [json.loads(line) for line in (self.folder / found[1]).read_text("utf-8").splitlines()] if found else []

    def lacks_node(self, block: Block) -> bool:
        """Tell whether a block shows a run that may need Node.js, on a machine without it."""
        scripts = [other.line for other in self.page.blocks if other.language == "javascript"]
        return shutil.which("node") is None and any(line < block.line for line in scripts)


def run_in(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    words, variables = [] if SHELL.search(command) else shlex.split(command), environment()
    while words and "=" in words[0]:
        name, _, variables[name] = words.pop(0).partition("=")
    script = Path(sysconfig.get_path("scripts"), words[0]) if words else None
    with warm_programs() as programs:
        variables["PATH"] = os.pathsep.join((programs, variables["PATH"]))
        return warm.run(
            [str(script), *words[1:]] if script and script.exists() else ["/bin/sh", "-c", command],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )


SHELL = re.compile(r"[<>|&;$*`]")
"""What only a shell understands."""


def environment() -> dict[str, str]:
    """A person's, without what this run, or the machine's CI, has set."""
    foreign = re.compile(r"AGENTV|GITHUB|(AZURE|OPENAI|ANTHROPIC|GOOGLE|GEMINI)_|CI$")
    scripts = os.pathsep.join((sysconfig.get_path("scripts"), str(Path(sys.executable).parent)))
    return {
        **{name: value for name, value in warm.environment_of_a_user().items() if not foreign.match(name)},
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
        "COLUMNS": "80",
        "PY_COLORS": "0",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio -p no:randomly",
    }


def shows(printed: str, shown: str) -> bool:
    """Tell whether lines were printed one after another; `…` stands for any lines, and for anything in a line."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\s*\n"
        for line in normalized(shown).splitlines()
    )
    return re.search(f"^{pattern}", normalized(printed), re.MULTILINE) is not None


def normalized(text: str) -> str:
    """Make equal what differs from run to run: times, and lines that are as wide as the terminal."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d-]+Z", "<time>", text)
    text = re.sub(r"\d+(\.\d+)? ?(m?s)\b", r"0 \2", text)
    text = re.sub(r"([=_#-])\1{2,}", r"\1\1\1", text)
    return re.sub(r" {3,}\[ *\d+%\]", "  [%]", text).rstrip("\n") + "\n"


def holds(value: Any, part: Any) -> bool:
    """Tell whether a value, or one within it, has all that a part of a record shows."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return matches(value, part) or any(holds(item, part) for item in below)


def matches(value: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and matches(value[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(value, list) and len(value) == len(part) and all(map(matches, value, part))
    if isinstance(part, str) and "…" in part:
        return isinstance(value, str) and re.fullmatch(re.escape(part).replace("…", ".*"), value, re.DOTALL) is not None
    return bool(value == part)
