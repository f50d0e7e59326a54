"""The search folders for files, the variables of a run, and `${{ VAR }}` in texts."""

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError
from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.records import record

REFERENCE: Final = re.compile(r"\$\{\{\s*([A-Za-z0-9_]+)\s*\}\}")
"""A variable in a text: `${{ NAME }}`."""


@record
class Environment(Record):
    """The variables for resolving targets."""

    variables: Mapping[str, str] = field(repr=False)
    """The variables of the process, plus those of the `.env` file that the process does not have."""
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the `.env` file."""


@record
class Interpolation(Record):
    """A text with its variables filled in."""

    text: str | None = field(repr=False)
    """None: a variable is missing."""
    names: tuple[str, ...] = ()
    """All variables of the text, in order."""
    missing: tuple[str, ...] = ()
    """The variables that are unset or blank."""


def find_repo_root(start: Path) -> Path:
    """Return the nearest folder, from `start` upward, that holds `.git` (a folder, or a file in worktrees).

    Returns `start` if there is none.
    """
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def folders_upward(eval_dir: Path, repo_root: Path) -> tuple[Path, ...]:
    """Return the eval file's folder and those above it up to the repository's root, nearest first.

    For an eval file outside the repository, return all folders above it, then the repository's root.
    """
    above = (eval_dir, *eval_dir.parents)
    return above[: above.index(repo_root) + 1] if repo_root in above else (*above, repo_root)


def search_folders(eval_dir: Path, repo_root: Path, cwd: Path) -> tuple[Path, ...]:
    """Return the search folders for a run's files: upward from the eval file, then the working directory."""
    return tuple(dict.fromkeys((*folders_upward(eval_dir, repo_root), cwd)))


def find_dotenv(eval_dir: Path, repo_root: Path, cwd: Path) -> Path | None:
    """Return the nearest `.env` file. Ignores a folder of that name, which is often a virtual environment."""
    candidates = (folder / ".env" for folder in search_folders(eval_dir, repo_root, cwd))
    return next((path for path in candidates if path.is_file()), None)


def load_environment(eval_dir: Path, repo_root: Path, cwd: Path, process_env: Mapping[str, str]) -> Environment:
    """Return the variables of a run. Never changes the process environment.

    Raises `FileError` if a `.env` file exists but cannot be read.
    """
    path = find_dotenv(eval_dir, repo_root, cwd)
    dotenv = _read_dotenv(path, process_env) if path else {}
    return Environment({**dotenv, **process_env}, dotenv)


def has_reference(value: Json) -> bool:
    """Whether a value is a text that refers to a variable."""
    return isinstance(value, str) and bool(REFERENCE.search(value))


def interpolate(text: str, variables: Mapping[str, str]) -> Interpolation:
    """Fill in every `${{ VAR }}` of a text in one pass. Uses values unchanged, including white space."""
    names = tuple(REFERENCE.findall(text))
    missing = tuple(dict.fromkeys(name for name in names if not variables.get(name, "").strip()))
    filled = None if missing else REFERENCE.sub(lambda match: variables[match[1]], text)
    return Interpolation(filled, names, missing)


def _read_dotenv(path: Path, process_env: Mapping[str, str]) -> dict[str, str]:
    """Return the values. Fills in `${NAME}` as `load_dotenv` does: the process comes before the lines above."""
    from dotenv import dotenv_values  # noqa: PLC0415 - only for runs with a .env file
    from dotenv.variables import parse_variables  # noqa: PLC0415 - as above

    try:
        values = dotenv_values(path, interpolate=False, encoding="utf-8-sig")
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not UTF-8: byte 0x{error.object[error.start]:02x}") from None
    found: dict[str, str] = {}
    for name, value in values.items():
        if value is not None:
            found[name] = "".join(part.resolve({**found, **process_env}) for part in parse_variables(value))
    return found
