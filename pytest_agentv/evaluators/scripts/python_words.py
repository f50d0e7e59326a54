"""Recognizes commands of judge scripts that run Python."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PYTHON: Final = re.compile(r"(python|pypy)[\d.]*")
_SHEBANG_LIMIT: Final = 200


def python_words(command: Sequence[str], cwd: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the interpreter, and the script with its arguments; None if the command is another one."""
    if command[0].endswith(".py"):
        interpreter = _shebang(cwd / command[0])
        return None if interpreter is None else (interpreter, tuple(command))
    if _PYTHON.fullmatch(Path(command[0]).name) and len(command) > 1 and command[1].endswith(".py"):
        return command[0], tuple(command[1:])
    return None


def _shebang(script: Path) -> str | None:
    """Return the Python of a script's `#!` line."""
    try:
        with script.open("rb") as file:
            line = file.readline(_SHEBANG_LIMIT).decode(errors="replace")
    except OSError:
        return None
    words = line.removeprefix("#!").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words and line.startswith("#!") and _PYTHON.fullmatch(Path(words[0]).name) else None
