"""`agentv init`: writes a project that runs at once, from an example, with a workflow for a CI service."""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, UsageError, say
from pytest_agentv.cli.schema import schema_path
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

GITHUB: Final = """\
# Runs the evaluations of every pull request. The page of the run shows a summary, and the changed lines show failures.
# The actions are pinned to commits; Dependabot and Renovate update them, with the versions behind them.
name: evals
on: pull_request
permissions:
  contents: read
jobs:
  evals:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    # env:
    #   OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}
    steps:
      - uses: actions/checkout@df4cb1c069e1874edd31b4311f1884172cec0e10  # v6.0.3
      - uses: actions/setup-python@a309ff8b426b58ec0e2a45f0f869d46889d02405  # v6.2.0
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/evals.yml
      - run: pip install pytest-agentv  # and what your target needs
      - run: agentv validate evals --strict
      - run: >-
          pytest evals --agentv-workers=20
          --agentv-out=results.jsonl --agentv-html=report.html --junitxml=junit.xml
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a  # v7.0.1
        if: always()
        with:
          name: evals
          path: |
            results.jsonl
            report.html
            junit.xml
          if-no-files-found: ignore
"""

GITLAB: Final = """\
# Runs the evaluations of every merge request, which shows failing cases at their lines.
# Keys of models are masked variables of the project's CI settings.
evals:
  image: python:3.12
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
  timeout: 30 minutes
  variables:
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.pip
  cache:
    key: pip-pytest-agentv
    paths: [.pip]
  script:
    - pip install pytest-agentv  # and what your target needs
    - agentv validate evals --strict
    - >-
      pytest evals --agentv-workers=20
      --agentv-out=results.jsonl --agentv-html=report.html --junitxml=junit.xml
  after_script:
    - agentv report results.jsonl --format=gitlab-codequality -o codequality.json
  artifacts:
    when: always
    paths: [results.jsonl, report.html]
    reports:
      junit: junit.xml
      codequality: codequality.json
"""

WORKFLOWS: Final[Mapping[str, tuple[str, str]]] = {
    "github": (".github/workflows/evals.yml", GITHUB),
    "gitlab": (".gitlab-ci.yml", GITLAB),
}
"""The workflow of each CI service: its path and its text."""

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
    files |= {".agentv/.gitignore": GITIGNORE, **dict([WORKFLOWS[options.ci]])}
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


def example_files(example: str, folder: Path) -> dict[str, str]:
    """Return the texts of an example by their paths in a new project, whose evals lie in a folder.

    Eval files and targets files begin with a line that names their JSON Schema to editors.
    """
    package = Path(__file__).parents[1]
    places = package / "examples", package.parent / "examples"  # of the wheel, of a checkout
    source = next(place for place in places if place.is_dir()) / EXAMPLES[example]
    files = {}
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.name != "README.md" and path.suffix != ".pyc":
            kind = "targets" if path.name == "targets.yaml" else "eval" if path.name.endswith(".eval.yaml") else None
            line = f"# yaml-language-server: $schema={_address(schema_path(kind), folder)}\n" if kind else ""
            files[f"evals/{path.relative_to(source).as_posix()}"] = line + path.read_text("utf-8")
    return files


def _address(path: Path, folder: Path) -> str:
    """Return how the files of a folder name a file: relative to it where both lie in the project, as in `.venv`."""
    path, folder = path.resolve(), folder.resolve()
    if path.is_relative_to(folder.parent):
        return Path(os.path.relpath(path, folder)).as_posix()
    return path.as_uri()


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv init",
        description="Write an evaluation that runs without any key, its target, a CI workflow and settings.\n"
        "Existing files are kept, unless you choose to overwrite them.",
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="The project's folder (default: .).")
    parser.add_argument("--path", type=Path, metavar="DIR", help="The same as DIR.")
    parser.add_argument(
        "--example",
        choices=tuple(EXAMPLES),
        default="first",
        help="The evaluation that DIR/evals gets: the smallest one, RAG over files, an agent with tools in two "
        "variants, a FastAPI service, or two prompts (default: first).",
    )
    parser.add_argument(
        "--ci", choices=tuple(WORKFLOWS), default="github", help="CI service to write a workflow for (default: github)."
    )
    parser.add_argument("--force", action="store_true", help="Overwrite files without asking (default: off).")
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
