"""`agentv init`: writes a project that runs at once."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser, UsageError
from pytest_agentv.cli.console import say
from pytest_agentv.cli.schema import schema_files
from pytest_agentv.cli.starting.project import INI_SETTINGS, PROJECT_FILES, PYTEST_INI
from pytest_agentv.cli.starting.workflows import PATHS, workflow
from pytest_agentv.runtime.files import write_atomically

_INI_FILES: Final = (
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_MOST_SHARDS: Final = 50
_INI_SECTION: Final = re.compile(r"^\[(?:tool[.:])?pytest", re.MULTILINE)


def run(arguments: Sequence[str]) -> int:
    """Write the files of a new project. Keeps existing files unless the user agrees to overwrite them."""
    options = _create_parser().parse_args(arguments)
    if options.folder is not None and options.path is not None:
        raise UsageError(f"DIR is given twice: {options.folder} and --path={options.path}")
    folder: Path = options.folder or options.path or Path()
    ini = _ini_file(folder)
    ci = {PATHS[options.ci]: workflow(options.ci, options.shards)}
    files = {**PROJECT_FILES, **ci, **schema_files(), **({} if ini else {"pytest.ini": PYTEST_INI})}
    present = [name for name in files if (folder / name).exists()]
    overwrites = options.force or (bool(present) and _may_overwrite(present))
    kept = () if overwrites else present
    for name, text in files.items():
        if name not in kept:
            write_atomically(folder / name, text)
    say("\n".join(_report(folder, files, kept, ini)))
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv init",
        description="Write an example evaluation that runs without any key, its target, .env.example, a CI workflow\n"
        "and settings. Existing files are kept, unless you choose to overwrite them.",
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="The project's folder (default: .).")
    parser.add_argument("--path", type=Path, metavar="DIR", help="The same as DIR.")
    parser.add_argument(
        "--ci", choices=tuple(PATHS), default="github", help="CI service to write a workflow for (default: github)."
    )
    parser.add_argument(
        "--shards",
        type=_parse_shards,
        default=1,
        metavar="N",
        help=f"Jobs of the workflow that share the cases, 1 to {_MOST_SHARDS} (default: 1).",
    )
    parser.add_argument("--force", action="store_true", help="Overwrite files without asking (default: off).")
    return parser


def _parse_shards(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MOST_SHARDS}, got {text!r}")
    return int(text)


def _ini_file(folder: Path) -> str | None:
    """Return the user's file with pytest's settings; None if there is none, or only our unchanged `pytest.ini`."""
    for name in _INI_FILES:
        try:
            text = (folder / name).read_text("utf-8", errors="replace")
        except OSError:
            continue
        if text != PYTEST_INI and (_INI_SECTION.search(text) or "pytest." in name):
            return name
    return None


def _may_overwrite(present: Iterable[str]) -> bool:
    """Ask the user. The answer is no without a terminal or without an answer."""
    if not sys.stdin.isatty():
        return False
    say("\n".join(["These files already exist:", *(f"  {name}" for name in present)]))
    try:
        return input("Overwrite them? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _report(folder: Path, files: Iterable[str], kept: Sequence[str], ini: str | None) -> Iterator[str]:
    yield from (f"  {'kept ' if name in kept else 'wrote'}  {folder / name}" for name in files)
    if kept:
        yield "Existing files were kept; --force overwrites them."
    if ini:
        yield f"Settings that you may want to add to {folder / ini}:\n"
        yield from (f"  {line}" for line in INI_SETTINGS.splitlines())
        yield ""
    yield f"Run it: {shlex.join(['pytest', str(folder / 'evals')])}"
