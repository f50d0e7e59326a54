"""Shared parts of the commands: parsers, printing, and the files that paths and globs name."""

import argparse
import fnmatch
import io
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from pytest_agentv.cases.discovery import (
    SUFFIXES,
    find_files,
    is_eval_file,
    is_of_another_kind,
    left_out,
    looks_like_suite,
    walk,
)
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.options import DEFAULT_EVAL_GLOBS, DEFAULT_MARGIN
from pytest_agentv.reports.figures import visible

USAGE_EXIT_CODE: Final = 2
"""The usual code of programs with argparse. `agentv eval` has pytest's codes instead."""

_MISSING: Final = "the following arguments are required: "
"""The beginning of argparse's error about missing arguments."""


class UsageError(AgentvError):
    """A command was called with wrong arguments. `main` prints it."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that rejects abbreviated flags and raises `UsageError`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        if not message.startswith(_MISSING):
            raise UsageError(message)
        names = message.removeprefix(_MISSING).split(", ")
        raise UsageError(f"missing: {', '.join(map(self._in_words, names))}")

    def _in_words(self, name: str) -> str:
        """Return an argument's name with the first sentence of its help."""
        names = ((action, (action.dest, action.metavar, "/".join(action.option_strings))) for action in self._actions)
        text = next((action.help for action, known in names if name in known and action.help), None)
        if text is None:
            return name
        sentence = " ".join(text.split()).partition(". ")[0].rstrip(".")
        return f"{name} ({sentence[0].lower()}{sentence[1:]})"


def add_margin(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add `--margin`; `where` says in which case it counts."""
    parser.add_argument(
        "--margin",
        type=parse_delta,
        default=DEFAULT_MARGIN,
        metavar="DROP",
        help=f'Drop of the pass rate that "not worse" excludes, 0 to 1{where} (default: {DEFAULT_MARGIN}).',
    )


def parse_delta(text: str) -> float:
    """Parse a difference of scores."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return value


def say(text: str = "") -> None:
    """Print to standard output, which gets the results of a command and nothing else."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """Print to standard error, with unsafe characters as escapes."""
    sys.stderr.write(f"{visible(text)}\n")


def open_closed_streams() -> None:
    """Open standard streams that are closed, so that a command can still run and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the process ends


def escape_unencodable() -> None:
    """Make the standard streams escape characters that their encoding lacks instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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

    Source: eval-cli-2026-01, "Path expansion and validation".
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
    return any(sign in pattern for sign in "*?[{")
