"""Finds the folder and the command of scripts that eval files name (agentv-formats 6.5)."""

import os
import re
import sys
from pathlib import Path
from typing import Final

from pytest_agentv.loading.cases.references import Scope

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node", ".sh": "sh"}
"""The interpreter of a script that is given by its path only and has no `#!` line."""
INTERPRETER: Final = re.compile(r"(python|pypy|node|bun|tsx|ts-node|sh|bash|dash|zsh)[\d.]*(\.exe)?")
SCRIPT_SUFFIXES: Final = frozenset((*_INTERPRETERS, ".ts"))


def find_cwd(cwd: str | None, scope: Scope) -> Path:
    """Return the folder in which a script runs: `cwd`, or the eval file's folder if `cwd` is None or missing."""
    folder = scope.references.find_folder(cwd, scope.place.at("cwd")) if cwd else None
    return folder or scope.references.eval_dir


def script_command(script: str, cwd: Path, scope: Scope) -> tuple[str, ...]:
    """Return the command of a script that is written as a text: a shell command, or the path of a script file.

    Source: evaluation-2025-11, "Code evaluator execution" (paths); agentv-formats 6.5 (shell commands).
    """
    interpreter = _INTERPRETERS.get(Path(script.strip()).suffix)
    if interpreter is not None:
        reference = scope.references.find(script.strip(), cwd)
        if reference.path is not None and reference.path.is_file():
            path = str(reference.path)
            return (path,) if _names_its_interpreter(reference.path) else (interpreter, path)
        if "/" in script and len(script.split()) == 1:
            scope.place.at("script").error(f"file {reference.describe_missing()}")
    return "sh", "-lc", script


def _names_its_interpreter(script: Path) -> bool:
    """Whether a file is executable and begins with `#!`, so that a shell can run it directly."""
    if not os.access(script, os.X_OK):
        return False
    try:
        with script.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
