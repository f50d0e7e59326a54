"""Decides which files are eval files (decisions 4)."""

import fnmatch
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pytest_agentv.errors import name_below
from pytest_agentv.loading.files.shapes import case_list_line, looks_like_suite, names_tables, read_fault
from pytest_agentv.loading.problems import Problem

SUFFIXES = frozenset({".yaml", ".yml", ".jsonl"})
EVALS_FOLDER = "evals"
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "build", "dist", "venv"})
_NEVER = (
    *("targets.yaml", "targets.yml", ".agentv.yaml", "config.yaml", "config.yml"),
    *("*.tavern.yaml", "*.tavern.yml", "test_*.yaml", "test_*.yml"),
    *("docker-compose*.yaml", "docker-compose*.yml", "compose*.yaml", "compose*.yml"),
)


def is_eval_file(path: Path, *, root: Path, is_named: bool, globs: Sequence[str], evals: Path | None = None) -> bool:
    """Whether a file is an eval file, by its name or by its place and shape.

    Args:
        path: The file, absolute.
        root: pytest's root directory. Names of folders above it do not count.
        is_named: Whether the command line names the file.
        globs: Files that are always eval files. A pattern with a slash matches the path below the root.
        evals: The folder that counts as one named `evals`, absolute; None: decide by the path.
    """
    if path.suffix not in SUFFIXES:
        return False
    if _matches(path, root, globs):
        return not is_sidecar(path)
    if is_named:
        return looks_like_suite(path)
    if is_of_another_kind(path) or not (evals or _is_in_evals(path, root)):
        return False
    above = (each for each in reversed(path.parents) if each.name == EVALS_FOLDER and each.is_relative_to(root))
    return looks_like_suite(path) and path not in _data_files(evals or next(above, path.parent))


def left_out(path: Path, *, root: Path, globs: Sequence[str], is_in_evals: bool | None = None) -> Problem | None:
    """Return a warning if a file in a folder `evals` has eval cases but is not collected because of its name.

    It also warns of a file that cannot be read and may have cases.

    Args:
        path: The file, absolute. The command line does not name it.
        root: As for `is_eval_file`.
        globs: As for `is_eval_file`.
        is_in_evals: Whether its folder counts as one named `evals`; None: decide by its path.
    """
    pattern = _name_of_another_kind(path)
    if path.suffix not in SUFFIXES or _matches(path, root, globs):
        return None
    if not (_is_in_evals(path, root) if is_in_evals is None else is_in_evals):
        return None
    if pattern is None:
        return _unreadable(path)
    line = case_list_line(path)
    if line is None:
        return None
    message = f"has a list of cases but is not collected: names like {pattern} belong to other files"
    hint = f"rename it to {_free_name(path, root, globs)}, or add its name to the ini key agentv_files"
    return Problem(path, line, "", message, hint, "warning")


def _unreadable(path: Path) -> Problem | None:
    fault = read_fault(path)
    if fault is None or looks_like_suite(path):
        return None
    reason, line = fault
    message = f"cannot be read: {reason}; if it has cases, they are not collected"
    return Problem(path, line, "", message, level="warning")


def walk(folder: Path, hidden: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield the files below a folder in order. Skips folders of dependencies, and hidden folders not in `hidden`."""
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        folders[:] = sorted(name for name in folders if real not in seen and _is_entered(Path(root, name), hidden))
        if real not in seen:
            yield from (Path(root, name) for name in sorted(names))
        seen.add(real)


@lru_cache(maxsize=8)
def _data_files(folder: Path) -> frozenset[Path]:
    """Return the files of which YAML files below a folder take their cases. These are no eval files of their own."""
    from pytest_agentv.loading.files.suites import tables_of  # noqa: PLC0415 - the parsers, for few files

    paths = (path for path in walk(folder) if path.suffix in (".yaml", ".yml") and names_tables(path))
    return frozenset(table for path in paths for table in tables_of(path))


def is_of_another_kind(path: Path) -> bool:
    """Whether a file's name is for another kind: a targets file, a dataset's sidecar, or a file of another tool."""
    return _name_of_another_kind(path) is not None or is_sidecar(path)


def is_sidecar(path: Path) -> bool:
    """Whether a file is beside a JSONL dataset of the same name and holds no cases itself."""
    return path.suffix != ".jsonl" and path.with_suffix(".jsonl").is_file() and not looks_like_suite(path)


def _name_of_another_kind(path: Path) -> str | None:
    return next((pattern for pattern in _NEVER if fnmatch.fnmatch(path.name, pattern)), None)


def _free_name(path: Path, root: Path, globs: Sequence[str]) -> str:
    """Return a new name under which a file is collected in a folder `evals`."""
    stem = path.stem.removesuffix(".tavern").removeprefix("test_").lstrip(".") or "cases"
    named = path.with_name(f"{stem}.eval{path.suffix}")
    is_free = _matches(named, root, globs) or not is_of_another_kind(named)
    return named.name if is_free else f"eval-{named.name}"


def _matches(path: Path, root: Path, globs: Sequence[str]) -> bool:
    relative = name_below(path, root)
    return any(fnmatch.fnmatch(relative if "/" in pattern else path.name, pattern) for pattern in globs)


def _is_in_evals(path: Path, root: Path) -> bool:
    """Whether a file is below a folder named `evals` and not in a hidden folder."""
    folder = path.parent
    names = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
    return is_evals_folder(folder, root) and not any(name.startswith(".") for name in names)


def is_evals_folder(folder: Path, root: Path) -> bool:
    """Whether a folder is named `evals` or lies in one.

    The name of the root counts: without an ini file, `cd evals; pytest` makes that folder the root. Names of folders
    above it do not.
    """
    names = (root.name, *folder.relative_to(root).parts) if folder.is_relative_to(root) else folder.parts
    return EVALS_FOLDER in names


def _is_entered(folder: Path, hidden: frozenset[str]) -> bool:
    if folder.name.startswith("."):
        return folder.name in hidden
    return folder.name not in _SKIPPED_FOLDERS and not (folder / "pyvenv.cfg").is_file()
