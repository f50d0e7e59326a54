"""`agentv validate`: finds the faults of files without a run."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser
from pytest_agentv.cli.checking.checks import Checker, CheckSettings, kind_of
from pytest_agentv.cli.console import say
from pytest_agentv.cli.inputs import find_left_out, is_eval_by_itself, is_eval_in_folder, is_glob
from pytest_agentv.cli.project_kinds import ProjectKinds
from pytest_agentv.errors import locate
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.loading.files.discovery import SUFFIXES, walk
from pytest_agentv.loading.files.suites import dataset_fault
from pytest_agentv.loading.globs import find_files
from pytest_agentv.loading.problems import Hint, Problem
from pytest_agentv.models.base import Json
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.values import UNKNOWN_KEYS
from pytest_agentv.models.text import counted
from pytest_agentv.providers.table import KINDS
from pytest_agentv.reporting.escaping import visible

_AGENTV_FOLDER: Final = ".agentv"
_EPILOG: Final = """\
exit codes:
  0 nothing is wrong (there may be warnings), 1 there are errors (with --strict: or warnings), 2 wrong usage."""


def run(arguments: Sequence[str]) -> int:
    """Check files, print their problems, and return 1 if there are errors."""
    options = _create_parser().parse_args(arguments)
    files, problems = _expand(options.paths)
    problems += (problem for problem in find_left_out(options.paths) if kind_of(problem.path) in (None, "eval"))
    kinds = ProjectKinds(files)
    checker = Checker(
        CheckSettings(
            Path.cwd(),
            options.targets,
            kinds.of("pytest_agentv_evaluators", EVALUATORS, options.plugin_kind),
            kinds.of("pytest_agentv_providers", KINDS.table, options.plugin_kind),
            options.unknown_keys,
        )
    )
    with redirect_stdout(sys.stderr):  # functions that make rows may print, and JSON goes to standard output
        for path in files:
            if path.suffix == ".jsonl" and not is_eval_by_itself(path):
                problems.append(dataset_fault(path))  # as pytest says it
            else:
                checker.check(path)
    masker = Masker.of_environment()  # code of the project runs: functions that make rows, and its conftest files
    problems = [
        problem.replace(message=masker.mask(problem.message), hint=problem.hint and masker.mask(problem.hint))
        for problem in (*problems, *checker.problems, *kinds.problems)
    ]
    say("\n".join(_text_lines(files, problems)) if options.format == "text" else _json(files, problems))
    strict = [problem for problem in problems if options.strict and not isinstance(problem, Hint)]
    return int(bool(strict) or any(problem.level == "error" for problem in problems))


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv validate",
        description="Check eval files, datasets, targets and config files. Report all faults that a run would\n"
        "find while it collects the cases and starts. Nothing is run, and no credentials are needed.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="A file, a glob, or a folder that is searched for all of them."
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="What is printed (default: text: path:line: message).",
    )
    parser.add_argument("--strict", action="store_true", help="Warnings count as errors (default: off).")
    parser.add_argument(
        "--targets",
        type=Path,
        metavar="PATH",
        help="Targets file of the runs (default: searched from each eval file's folder upward).",
    )
    parser.add_argument(
        "--unknown-keys",
        choices=UNKNOWN_KEYS,
        default="error",
        help="Level of unknown keys inside evaluators, as agentv_unknown_keys (default: error).",
    )
    parser.add_argument(
        "--plugin-kind",
        action="append",
        default=[],
        metavar="NAME",
        help="Accept this evaluator type or provider unseen; may be repeated (default: none). Those of\n"
        "conftest files are known.",
    )
    return parser


def _expand(paths: Sequence[str]) -> tuple[list[Path], list[Problem]]:
    """Return the distinct absolute files to check, and a problem for each path without files."""
    files: dict[Path, None] = {}
    problems: list[Problem] = []
    for name in paths:
        path = Path(os.path.normpath(Path(name).absolute()))
        found, fault = _find(path)
        files.update(dict.fromkeys(found))
        if not found:
            problems.append(Problem(path, None, "", fault))
    return list(files), problems


def _find(path: Path) -> tuple[Sequence[Path], str]:
    """Return the files of a path, and the error text if there are none."""
    if path.is_dir():
        return list(_files_in(path)), "no eval, targets or config files in this folder"
    if path.exists() or not is_glob(str(path)):
        return [path] if path.exists() else [], "there is no such file or folder"
    return [file for file in find_files(str(path), hidden=True) if file.suffix in SUFFIXES], "no file matches"


def _files_in(folder: Path) -> Iterator[Path]:
    for path in walk(folder, hidden=frozenset({_AGENTV_FOLDER})):
        if path.suffix in SUFFIXES and (kind_of(path) or (_is_visible(path) and is_eval_in_folder(path, folder))):
            yield path


def _is_visible(path: Path) -> bool:
    return path.parent.name != _AGENTV_FOLDER


def _text_lines(files: Sequence[Path], problems: Sequence[Problem]) -> Iterator[str]:
    for problem in problems:
        where = locate(problem.path, problem.line)
        text = str(problem).removeprefix(f"{where}: ")
        yield visible(f"{where}: {problem.level}: {text}")
    errors, warnings = _count(problems)
    found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}" if problems else "nothing wrong"
    yield f"{counted(len(files), 'file')} checked: {found}"


def _json(files: Sequence[Path], problems: Sequence[Problem]) -> str:
    errors, warnings = _count(problems)
    report: Json = {
        "files": [locate(path, None) for path in files],
        "errors": errors,
        "warnings": warnings,
        "problems": [problem.to_plain() | {"path": locate(problem.path, None)} for problem in problems],
    }
    return json.dumps(report, indent=2)


def _count(problems: Sequence[Problem]) -> tuple[int, int]:
    errors = sum(problem.level == "error" for problem in problems)
    return errors, len(problems) - errors
