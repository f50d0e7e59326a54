"""Finds the files for the paths and globs on the command line.

Source: eval-cli-2026-01, "Path expansion and validation".
"""

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import UsageError
from pytest_agentv.loading.files.discovery import SUFFIXES, is_eval_file, is_of_another_kind, left_out, walk
from pytest_agentv.loading.files.shapes import looks_like_suite
from pytest_agentv.loading.globs import find_files
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.options.defaults import DEFAULT_EVAL_GLOBS

_MAGIC: Final = frozenset("*?[{")


class UnmatchedError(UsageError):
    """Some patterns match no eval file. `patterns` holds them."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        lines = (f"  {pattern}: {fault}" for pattern, fault in faults.items())
        super().__init__("\n".join(["no eval files for:", *lines]))
        self.patterns = frozenset(faults)


def find_eval_files(patterns: Sequence[str]) -> tuple[Path, ...]:
    """Return the eval files for files, folders and globs: absolute, sorted, each once.

    A file that a pattern names or matches is an eval file unless its name belongs to another kind of file. In
    folders, name and shape decide. Raises `UnmatchedError` with all patterns that match no eval file.
    """
    files: set[Path] = set()
    faults: dict[str, str] = {}
    for pattern in patterns:
        found, fault = _find(pattern)
        files.update(Path(os.path.normpath(path.absolute())) for path in found)
        if not found:
            faults[pattern] = fault
    if faults:
        raise UnmatchedError(faults)
    return tuple(sorted(files))


def is_eval_by_itself(path: Path) -> bool:
    """Whether pytest recognizes a file as an eval file by its name or shape."""
    return any(fnmatch.fnmatch(path.name, pattern) for pattern in DEFAULT_EVAL_GLOBS) or looks_like_suite(path)


def is_eval_in_folder(path: Path, folder: Path) -> bool:
    """Whether a file in a given folder is an eval file, by the rules for a folder named `evals` (decisions 4)."""
    path, folder = path.absolute(), folder.absolute()
    return is_eval_file(path, root=path.parent, is_named=False, globs=DEFAULT_EVAL_GLOBS, evals=folder)


def find_left_out(patterns: Sequence[str]) -> Iterator[Problem]:
    """Yield a warning for each file with cases in the given folders that does not run because of its name."""
    for file in dict.fromkeys(file for pattern in patterns if Path(pattern).is_dir() for file in walk(Path(pattern))):
        path = Path(os.path.normpath(file.absolute()))
        problem = left_out(path, root=path.parent, globs=DEFAULT_EVAL_GLOBS, is_in_evals=True)
        if problem is not None:
            yield problem


def is_glob(pattern: str) -> bool:
    return not _MAGIC.isdisjoint(pattern)


def _find(pattern: str) -> tuple[Sequence[Path], str]:
    """Return the eval files of a pattern, and the error text if there are none."""
    path = Path(pattern)
    if path.is_dir():
        found = [file for file in walk(path) if is_eval_in_folder(file, path)]
        left_out_files = [] if found else map(str, find_left_out([pattern]))
        return found, "\n    ".join(["no eval files in this folder", *left_out_files])
    if path.is_file():
        fault = _fault(path)
        return [] if fault else [path], fault
    if not is_glob(pattern):
        return [], "there is no such file or folder"
    return [file for file in find_files(pattern, hidden=True) if not _fault(file)], "no eval file matches"


def _fault(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        return f"is not an eval file: expected a name that ends in {', '.join(sorted(SUFFIXES))}"
    if is_of_another_kind(path) and not looks_like_suite(path):
        return "is not an eval file: its name belongs to another kind of file, and it has no eval cases"
    return ""
