"""`agentv eval`: runs pytest with the run options, without their prefix."""

import argparse
import fnmatch
import glob
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from pytest_agentv.files.problems import Problem, did_you_mean, join_problems
from pytest_agentv.model.base import Record
from pytest_agentv.model.options import DEFAULT_EVAL_GLOBS, DEFAULT_MARGIN, RUN_OPTIONS, RunOption
from pytest_agentv.reports.figures import visible
from pytest_agentv.reports.summary import FULL_SUMMARY

# Shared parts of the commands: parsers, printing, and the files that paths and globs name.

USAGE_ERROR: Final = 2
"""The usual code of programs with argparse. `agentv eval` has pytest's codes instead."""


class UsageError(AgentvError):
    """A command was called with wrong arguments. `main` prints it."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that rejects abbreviated flags and raises `UsageError`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def add(self, *words: str, **more: Any) -> None:
        """Add an argument. The last word is its help."""
        *names, text = words
        self.add_argument(*names, help=text, **more)

    def add_flag(self, *words: str) -> None:
        """Add a flag without a value."""
        *names, text = words
        self.add(*names, f"{text.removesuffix('.')} (default: off).", action="store_true")

    def add_path(self, *words: str, **more: Any) -> None:
        """Add a path, as an argument or as the value of a flag."""
        metavar = {"metavar": "PATH"} if words[0].startswith("-") else {}
        self.add(*words, type=Path, **{**metavar, **more})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def add_margin(parser: ArgumentParser, where: str = "") -> None:
    """Add `--margin`; `where` says in which case it counts."""
    parser.add(
        "--margin",
        f'Drop of the pass rate that "not worse" excludes, 0 to 1{where} (default: {DEFAULT_MARGIN}).',
        type=parse_delta,
        default=DEFAULT_MARGIN,
        metavar="DROP",
    )


def add_targets_file(parser: ArgumentParser, of: str) -> None:
    """Add `--targets-file`, and its older word; `of` says where the file is searched by default."""
    parser.add_path("--targets-file", f"Targets file{of}")
    parser.add_argument("--targets", dest="targets_file", type=Path, help=argparse.SUPPRESS)


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


def print_as(output: str | None, data: Callable[[], object], lines: Callable[[], Iterable[str]]) -> None:
    """Print data as JSON, or lines: `output` says which; None: lines on a terminal."""
    if output == "json" or (output is None and not sys.stdout.isatty()):
        json.dump(data(), sys.stdout, indent=2)  # in pieces, because the whole text would double the memory
        say()
    else:
        say("\n".join(lines()))


def note(text: str) -> None:
    """Print to standard error, with unsafe characters as escapes."""
    sys.stderr.write(f"{visible(text)}\n")


def expand(
    name: str, accepts: Callable[[Path, Path], bool], what: str, hidden: Collection[str] = ()
) -> tuple[Sequence[Path], str]:
    """Return the files of a path or glob, and the error text if there are none.

    Of a folder, these are the files that `accepts` says yes to, given the file and the folder. `what` names them.
    """
    path = Path(name)
    if path.is_dir():
        found = [file for file in walk(path, hidden=frozenset(hidden)) if file.suffix in SUFFIXES]
        return [file for file in found if accepts(file, path)], f"no {what} files in this folder"
    if path.exists():
        return [path], ""
    if not is_glob(name):
        return [], "there is no such file or folder"
    return [file for file in find_files(name, hidden=True) if file.suffix in SUFFIXES], f"no {what} file matches"


def _find(pattern: str) -> tuple[Sequence[Path], str]:
    path = Path(pattern)
    found, fault = expand(pattern, is_eval_in_folder, "eval")
    if path.is_dir():
        return found, "" if found else "\n    ".join([fault, *map(str, find_left_out([pattern]))])
    return [file for file in found if not _fault(file)], _fault(path) if path.exists() else fault


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
    return is_eval_file(path, root=Path.cwd(), is_named=False, globs=DEFAULT_EVAL_GLOBS, evals=folder)


def find_left_out(patterns: Sequence[str]) -> Iterator[Problem]:
    """Yield a warning for each file with cases in the given folders that does not run because of its name."""
    folders = (Path(pattern) for pattern in patterns if Path(pattern).is_dir())
    files = {file: folder for folder in folders for file in walk(folder)}
    for file, folder in files.items():
        path = Path(os.path.normpath(file.absolute()))
        problem = left_out(path, root=Path.cwd(), globs=DEFAULT_EVAL_GLOBS, evals=folder.absolute())
        if problem is not None:
            yield problem


def is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[{")


USAGE_EXIT_CODE: Final = 4
"""pytest's code for wrong usage."""

_PREFIX: Final = "--agentv-"
_BARE_FLAGS: Final = {
    f"--{name}": f"--{name}={option.optional_value}"
    for option in RUN_OPTIONS
    if option.optional_value is not None
    for name in (option.name, *option.aliases)
}
"""Flags with an optional value, which must follow a `=`. The next word is a path."""

PYTEST_FLAGS_WITH_VALUE: Final = (
    *("-c", "-k", "-m", "-n", "-o", "-p", "-r", "-W", "--assert", "--basetemp", "--capture", "--code-highlight"),
    *("--color", "--config-file", "--confcutdir", "--deselect", "--dist", "--doctest-glob", "--doctest-report"),
    *("--durations", "--durations-min", "--ignore", "--ignore-glob", "--import-mode", "--junit-prefix"),
    *("--junit-xml", "--junitprefix", "--junitxml", "--last-failed-no-failures", "--lfnf", "--log-auto-indent"),
    *("--log-cli-date-format", "--log-cli-format", "--log-cli-level", "--log-date-format", "--log-disable"),
    *("--log-file", "--log-file-date-format", "--log-file-format", "--log-file-level", "--log-file-mode"),
    *("--log-format", "--log-level", "--max-warnings", "--max-worker-restart", "--maxfail", "--maxprocesses"),
    *("--maxschedchunk", "--numprocesses", "--only-rerun", "--override-ini", "--pastebin", "--pdbcls", "--px"),
    *("--pythonwarnings", "--report-chars", "--rerun-except", "--reruns", "--reruns-delay", "--rootdir"),
    *("--rsyncdir", "--rsyncignore", "--show-capture", "--tb", "--testrunuid", "--tx", "--verbosity"),
)
"""Flags of pytest, pytest-xdist and pytest-rerunfailures whose value is the next word."""

_DESCRIPTION: Final = """\
Run evaluations, as `pytest` runs them: each case is a test item, and everything pytest can do works here too.
PATHS are eval files, folders that hold some, or globs."""

_EPILOG: Final = """\
Values in brackets are optional and go after a `=`: --dump-prompts=DIR.

pytest options:
  All other flags are passed on to pytest: -k EXPRESSION, -x, --lf, -n 4, -v, --junitxml=FILE, …
  The value of a flag that agentv does not know goes after a `=`; what follows a `--` is passed on unchanged.

exit codes:
  0 all cases passed, 1 some failed or could not be judged, 2 interrupted, 3 internal error, 4 wrong usage,
  5 no case was selected."""


@dataclass(frozen=True, slots=True)
class PytestCall(Record):
    """The pytest call that `agentv eval` makes."""

    arguments: tuple[str, ...]
    foreign_flags: tuple[str, ...] = ()
    """Flags that agentv does not know, without their values."""
    left_out: tuple[Problem, ...] = ()
    """One for each file whose cases do not run because of its name."""


def run(arguments: Sequence[str]) -> int:
    """Run pytest and return its exit code."""
    call = build_pytest_call(arguments)
    for problem in call.left_out:
        note(visible(f"agentv eval: {problem}"))
    import pytest  # noqa: PLC0415 - this command is the only one that needs it

    os.environ[FULL_SUMMARY] = "1"
    try:
        exit_code = int(pytest.main(list(call.arguments)))
    finally:
        del os.environ[FULL_SUMMARY]
    if exit_code == USAGE_EXIT_CODE:
        for hint in _misspelt(call.foreign_flags):
            note(f"agentv eval: {hint}")
    return exit_code


def build_pytest_call(arguments: Sequence[str]) -> PytestCall:
    """Return the arguments for pytest. Raises `UsageError`."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    own, untouched = arguments[:cut], arguments[cut + 1 :]
    options, rest = _create_parser().parse_known_args([_BARE_FLAGS.get(word, word) for word in own])
    given: list[str] = options.pytest or []
    flags = [word for word in rest if word.startswith("-") and word != "-"]
    patterns = [word for word in rest if word not in flags]
    if not patterns:
        raise UsageError("no eval paths given: expected eval files, folders or globs")
    files = find_eval_files(patterns, own)
    names = [str(path) if (name := os.path.relpath(path)).startswith(os.pardir) else name for path in files]
    if faults := [f"  {name}" for name in names if "[" in name]:  # pytest takes it for the start of parameters
        raise UsageError("\n".join(["pytest takes no path with brackets; run `pytest` with a folder above:", *faults]))
    problems = tuple(find_left_out(patterns))
    if problems and "--agentv-strict" in given:
        raise UsageError(join_problems(problems))
    # pytest shall collect also files that do not look like eval files, and report their faults
    hidden = [glob.escape(path.name) for path in files if not is_eval_by_itself(path)]
    claim = ("-o", f"agentv_files={shlex.join([*DEFAULT_EVAL_GLOBS, *hidden])}") if hidden else ()
    arguments = (*given, *flags, *untouched, *claim, *names)
    return PytestCall(arguments, tuple(flag.partition("=")[0] for flag in flags), problems)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv eval",
        usage="agentv eval PATHS... [options] [pytest options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    for option in RUN_OPTIONS:
        default = "" if "efault: " in option.help else f" (default: {'off' if option.is_flag else 'not set'})"
        text = f"{option.help}{default}".replace("--agentv-", "--").replace("%", "%%")
        for name in (option.name, *option.aliases):
            shown = text if name == option.name else argparse.SUPPRESS
            flag = _PREFIX + option.name
            if option.is_flag:
                parser.add_argument(f"--{name}", dest="pytest", action="append_const", const=flag, help=shown)
                continue
            parser.add_argument(
                f"--{name}",
                dest="pytest",
                action="append",
                type=_flag_of_pytest(option),
                nargs=None if option.optional_value is None else "?",
                metavar=option.metavar,
                help=shown,
            )
    for flag in PYTEST_FLAGS_WITH_VALUE:
        joined = f"{flag}={{}}" if flag.startswith("--") else f"{flag}{{}}"
        parser.add_argument(flag, dest="pytest", action="append", type=joined.format, help=argparse.SUPPRESS)
    return parser


def _flag_of_pytest(option: RunOption) -> Callable[[str], str]:
    """Return a function that checks a value, and returns it with the flag of pytest."""

    def convert(text: str) -> str:
        option.parse_flag(text)
        return f"{_PREFIX}{option.name}={text}"

    return convert


def find_eval_files(patterns: Sequence[str], words: Sequence[str] = ()) -> tuple[Path, ...]:
    """Return the eval files for files, folders and globs: absolute, sorted, each once.

    A file that a pattern names or matches is an eval file unless its name belongs to another kind of file. In
    folders, name and shape decide. Raises `UsageError` with all patterns that match no eval file, and with the flags
    among `words` whose value was possibly taken for a path.

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
        lines = ["no eval files for:", *(f"  {pattern}: {fault}" for pattern, fault in faults.items())]
        if pairs := [(flag, word) for flag, word in pairwise(words) if flag.startswith("-") and word in faults]:
            hints = ", ".join(f"{flag}={word}" for flag, word in pairs)
            lines.append(f"Write the value of an unknown flag after `=`: {hints}")
            lines += _misspelt([flag for flag, _ in pairs])
        raise UsageError("\n".join(lines))
    return tuple(sorted(files))


def _misspelt(flags: Sequence[str]) -> Iterator[str]:
    known = [f"--{name}" for option in RUN_OPTIONS for name in (option.name, *option.aliases)]
    for flag in flags:
        hint = did_you_mean(flag, known) if flag.startswith("--") else None
        if hint:
            yield f"{flag} is not an option of agentv; {hint}"
