"""`agentv init` writes a project that runs at once; `agentv schema` prints the JSON Schemas of its files."""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, UsageError, say
from pytest_agentv.runtime.files import write_atomically

EXAMPLES: Final[Mapping[str, str]] = {
    "first": "first",
    "rag": "rag_files",
    "agent": "two_variants",
    "service": "web_service",
    "prompts": "two_prompts",
}
"""The words of `--example`, and their folders below `examples/`, which the wheel holds as well (pyproject.toml)."""

GITIGNORE: Final = """\
# What runs leave here.
/answers.sqlite*
/cache/
/logs/
/prompts/
/results/
/traces/
"""

INI_SETTINGS: Final = """\
# Each key has a flag of the same name, which comes first: --agentv-workers, ...
agentv_workers = 4
"""

PYTEST_INI: Final = f"[pytest]\n{INI_SETTINGS}"

WORKFLOWS: Final[Mapping[str, str]] = {"github": ".github/workflows/evals.yml", "gitlab": ".gitlab-ci.yml"}
"""The path of the workflow of each CI service. Its text is in the folder `workflows` beside this file."""

_INI_FILES: Final = (
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


def run(arguments: Sequence[str]) -> int:
    """Write the files of a new project. Keeps existing files unless the user agrees to overwrite them."""
    options = _create_parser().parse_args(arguments)
    if options.folder is not None and options.path is not None:
        raise UsageError(f"DIR is given twice: {options.folder} and --path={options.path}")
    folder: Path = options.folder or options.path or Path()
    ini = _ini_file(folder)
    files = example_files(options.example, folder / "evals")
    files |= {".agentv/.gitignore": GITIGNORE, WORKFLOWS[options.ci]: workflow(options.ci)}
    files |= {} if ini else {"pytest.ini": PYTEST_INI}
    present = [name for name in files if (folder / name).exists()]
    overwrites = options.force or (bool(present) and _may_overwrite(present))
    kept = () if overwrites else present
    for name, text in files.items():
        if name not in kept:
            write_atomically(folder / name, text)
    for name in files:
        say(f"  {'kept ' if name in kept else 'wrote'}  {folder / name}")
    if kept:
        say("Existing files were kept; --force overwrites them.")
    if ini:
        say(f"Settings that you may want to add to {folder / ini}:\n")
        say("".join(f"  {line}\n" for line in INI_SETTINGS.splitlines()))
    say(f"Run it: {shlex.join(['pytest', str(folder / 'evals')])}")
    return 0


def workflow(service: str) -> str:
    """Return the text of the workflow for a CI service."""
    return (Path(__file__).parent / "workflows" / f"{service}.yml").read_text("utf-8")


def example_files(example: str, folder: Path) -> dict[str, str]:
    """Return the texts of an example by their paths in a new project, whose evals lie in a folder.

    Eval files and targets files begin with a line that names their JSON Schema to editors.
    """
    package = Path(__file__).parents[1]
    places = package / "examples", package.parent / "examples"  # of the wheel, of a checkout
    source = next(place for place in places if place.is_dir()) / EXAMPLES[example]
    files = {}
    home = folder.resolve()
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.name != "README.md" and path.suffix != ".pyc":
            kind = "targets" if path.name == "targets.yaml" else "eval" if path.name.endswith(".eval.yaml") else None
            line = ""
            if kind:
                schema = schema_path(kind).resolve()
                is_near = schema.is_relative_to(home.parent)  # as in `.venv`
                address = Path(os.path.relpath(schema, home)).as_posix() if is_near else schema.as_uri()
                line = f"# yaml-language-server: $schema={address}\n"
            files[f"evals/{path.relative_to(source).as_posix()}"] = line + path.read_text("utf-8")
    return files


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv init",
        description="Write an evaluation that runs without any key, its target, a CI workflow and settings.\n"
        "Existing files are kept, unless you choose to overwrite them.",
    )
    parser.add_path("folder", "The project's folder (default: .).", nargs="?", metavar="DIR")
    parser.add_path("--path", "The same as DIR.", metavar="DIR")
    parser.add(
        "--example",
        "The evaluation that DIR/evals gets: the smallest one, RAG over files, an agent with tools in two "
        "variants, a FastAPI service, or two prompts (default: first).",
        choices=tuple(EXAMPLES),
        default="first",
    )
    parser.add(
        "--ci", "CI service to write a workflow for (default: github).", choices=tuple(WORKFLOWS), default="github"
    )
    parser.add_flag("--force", "Overwrite files without asking.")
    return parser


def _ini_file(folder: Path) -> str | None:
    """Return the user's file with pytest's settings; None if there is none, or only our unchanged `pytest.ini`."""
    for name in _INI_FILES:
        try:
            text = (folder / name).read_text("utf-8", errors="replace")
        except OSError:
            continue
        has_section = re.search(r"^\[(?:tool[.:])?pytest", text, re.MULTILINE)
        if text != PYTEST_INI and (has_section or "pytest." in name):
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


# `agentv schema`: prints JSON Schemas for editors and for programs that write eval files.

KINDS: Final = ("eval", "targets", "config")
_SCHEMA_EPILOG: Final = """\
An editor with a YAML language server checks a file against the schema that its first line names:
  # yaml-language-server: $schema=PATH"""


def run_schema(arguments: Sequence[str]) -> int:
    """Print a schema, or the path of its file."""
    description = "Print the JSON Schema of a kind of file."
    parser = ArgumentParser(prog="agentv schema", description=description, epilog=_SCHEMA_EPILOG)
    parser.add("kind", "The kind of file.", choices=KINDS)
    parser.add_flag("--path", "Print the path of the schema instead.")
    options = parser.parse_args(arguments)
    path = schema_path(options.kind)
    say(str(path) if options.path else path.read_text("utf-8").rstrip("\n"))
    return 0


def schema_path(kind: str) -> Path:
    """Return the file of the package with the schema of a kind of file. `scripts/json_schemas.py` makes it."""
    return Path(__file__).parents[1] / "schemas" / f"{kind}.schema.json"
