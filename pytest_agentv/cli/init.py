"""`agentv init`: writes a project that runs at once, and workflows for CI services."""

import argparse
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

EVAL_FILE: Final = """\
# yaml-language-server: $schema=@EVAL_SCHEMA@
# An example that runs at once: `pytest evals`, or `agentv eval evals`. Replace it by cases of your own.
description: What the help desk has to know

evalcases:
  # Words that have to be in the answer, words that must not be, and how long it may take.
  - id: opening-hours
    expected_outcome: Names the hours of the shop
    input_messages:
      - role: user
        content: When are you open?
    evaluators:
      - name: facts
        type: heuristic
        hits: ["9:00", "17:00"]
        misses: [I do not know]
      - name: fast
        type: latency
        threshold: 2000

  # An answer in JSON, compared field by field with the expected one.
  - id: order-status
    expected_outcome: Reports the order as data
    input_messages:
      - role: user
        content: Where is order 1001?
    expected_messages:
      - role: assistant
        content: {order: 1001, status: shipped, days: 2}
    evaluators:
      - name: fields
        type: field_accuracy
        fields:
          - {path: order, match: exact}
          - {path: status, match: exact}
          - {path: days, match: numeric_tolerance, tolerance: 1}
"""

TARGETS_FILE: Final = """\
# yaml-language-server: $schema=@TARGETS_SCHEMA@
# What is evaluated. Choose another target with `--agentv-target NAME`, or with `execution: {target: NAME}` in a case.
targets:
  # A Python function, called in the pytest process.
  - name: default
    provider: python
    callable: agent.py:answer

  # A program, and a model. Variables come from the environment or from a file `.env`.
  # - name: program
  #   provider: cli
  #   command_template: python3 my_agent.py {PROMPT}
  #   judge_target: model
  # - name: model
  #   provider: azure
  #   endpoint: ${{ AZURE_OPENAI_ENDPOINT }}
  #   api_key: ${{ AZURE_OPENAI_API_KEY }}
  #   deployment: ${{ AZURE_DEPLOYMENT_NAME }}
"""

AGENT_FILE: Final = '''\
"""Stands in for your agent: replace the body of `answer` by a call of it."""

import json


def answer(prompt: str) -> str:
    if "order" in prompt:
        return json.dumps({"order": 1001, "status": "shipped", "days": 2})
    return "We are open from 9:00 to 17:00."
'''

ENV_EXAMPLE: Final = """\
# Copy this to `.env`, fill it in, and keep `.env` out of version control. Variables that are set already come first.
AZURE_OPENAI_ENDPOINT=
AZURE_OPENAI_API_KEY=
AZURE_DEPLOYMENT_NAME=
"""

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
# Each key has a flag of the same name, which comes first: --agentv-threshold, --agentv-workers, ...
agentv_threshold = 0.8
agentv_workers = 4
"""

PYTEST_INI: Final = f"[pytest]\n{INI_SETTINGS}"

PROJECT_FILES: Final[Mapping[str, str]] = {
    "evals/example.eval.yaml": EVAL_FILE,
    "evals/targets.yaml": TARGETS_FILE,
    "evals/agent.py": AGENT_FILE,
    ".env.example": ENV_EXAMPLE,
    ".agentv/.gitignore": GITIGNORE,
}
"""The texts by their path below the project's folder."""

GITHUB: Final = """\
# Runs the evaluations of every pull request, judges them against the baseline, and comments on the pull request.
# The actions are pinned to commits; Dependabot and Renovate update them, with the versions behind them.
name: evals
on:
  pull_request:
  push:
    branches: [main]  # its answers are what pull requests are compared with
permissions:
  contents: read
concurrency:
  group: evals-${{ github.ref }}
  cancel-in-progress: true
jobs:
  evals:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    strategy:
      fail-fast: false
      matrix:
        shard: [@SHARDS@]
    # env:
    #   AZURE_OPENAI_API_KEY: ${{ secrets.AZURE_OPENAI_API_KEY }}
    steps:
@INSTALL@      - run: agentv validate evals
@RUN@      - uses: @UPLOAD@
        if: always()
        with:
          name: evals-${{ matrix.shard }}
          path: |
            results-*.jsonl
            junit.xml
          if-no-files-found: ignore
  report:
    needs: evals
    if: always()
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      contents: read
      pull-requests: write
    steps:
@INSTALL@      - uses: @DOWNLOAD@
        with:
          pattern: evals-*
          merge-multiple: true
      - run: agentv merge results-*.jsonl -o results.jsonl --allow-missing
      - uses: actions/cache/restore@CACHE@
        with:
          path: base.jsonl
          key: evals-base-${{ github.sha }}
          restore-keys: evals-base-
      - name: Write the report
        run: |
          if [ -f base.jsonl ]; then
            agentv report results.jsonl base.jsonl --format=markdown -o report.md
          else
            agentv report results.jsonl --format=markdown -o report.md
          fi
      - name: Comment on the pull request, or update the comment
        if: github.event_name == 'pull_request'
        continue-on-error: true  # pull requests from forks may not comment
        env:
          GH_TOKEN: ${{ github.token }}
          COMMENTS: repos/${{ github.repository }}/issues/${{ github.event.number }}/comments
          EDITED: repos/${{ github.repository }}/issues/comments
        run: |
          id=$(gh api "$COMMENTS" --paginate --jq '.[] | select(.body | startswith("@MARKER@")) | .id' | head -n 1)
          if [ -n "$id" ]; then
            gh api -X PATCH "$EDITED/$id" -F body=@report.md
          else
            gh api "$COMMENTS" -F body=@report.md
          fi
      - if: github.event_name == 'push'
        run: cp results.jsonl base.jsonl
      - uses: actions/cache/save@CACHE@
        if: github.event_name == 'push'
        with:
          path: base.jsonl
          key: evals-base-${{ github.sha }}
      - name: Judge the run against the baseline
        run: |
          if [ -f agentv.baseline.jsonl ]; then  # 2: too few answers to tell
            agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl || [ $? -eq 2 ]
          fi
"""

GITLAB: Final = """\
# Runs the evaluations of every merge request, which shows failing cases at their lines, and judges them.
# Credentials are masked variables of the project's CI settings. With GITLAB_TOKEN, a project access token of the scope
# `api`, it comments on the merge request.
workflow:
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
stages: [evals, report]

.python:
  image: python:3.12
  variables:
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.pip
  cache:
    key: pip-pytest-agentv
    paths: [.pip]
  before_script:
    - pip install pytest-agentv

evals:
  extends: .python
  stage: evals
  timeout: 30 minutes
@PARALLEL@  script:
    - agentv validate evals
    - >-
      pytest evals --agentv-shard=${CI_NODE_INDEX:-1}/${CI_NODE_TOTAL:-1} --agentv-workers=20
      --agentv-out=results-${CI_NODE_INDEX:-1}.jsonl --junitxml=junit.xml
  artifacts:
    when: always
    paths: [results-*.jsonl]
    reports:
      junit: junit.xml

report:
  extends: .python
  stage: report
  when: always
  timeout: 10 minutes
  script:
    - agentv merge results-*.jsonl -o results.jsonl --allow-missing
    - agentv report results.jsonl --format=gitlab-codequality -o codequality.json
    - agentv report results.jsonl --format=markdown -o report.md
    - |
      if [ -n "$GITLAB_TOKEN" ] && [ -n "$CI_MERGE_REQUEST_IID" ]; then
        notes=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
        find='import json, sys; print(*[n["id"] for n in json.load(sys.stdin) if n["body"].startswith("@MARKER@")][:1])'
        id=$(curl -sSf -H "PRIVATE-TOKEN: $GITLAB_TOKEN" "$notes?per_page=100" | python3 -c "$find") || true
        how=$([ -n "$id" ] && echo PUT || echo POST)
        curl -sSf -o /dev/null -X "$how" -H "PRIVATE-TOKEN: $GITLAB_TOKEN" \\
          --data-urlencode body@report.md "$notes${id:+/$id}" || echo "The merge request got no comment."
      fi
    - |
      if [ -f agentv.baseline.jsonl ]; then  # 2: too few answers to tell
        agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl || [ $? -eq 2 ]
      fi
  artifacts:
    when: always
    paths: [results.jsonl, report.md]
    reports:
      codequality: codequality.json
"""

_RUN_ALL: Final = """\
      - run: pytest evals --agentv-workers=20 --agentv-out=results-1.jsonl --junitxml=junit.xml
"""

_RUN_SHARD: Final = """\
      - run: >-
          pytest evals --agentv-shard=${{ matrix.shard }}/@COUNT@ --agentv-workers=20
          --agentv-out=results-${{ matrix.shard }}.jsonl --junitxml=junit.xml
"""

_INSTALL: Final = """\
      - uses: actions/checkout@df4cb1c069e1874edd31b4311f1884172cec0e10  # v6.0.3
      - uses: actions/setup-python@a309ff8b426b58ec0e2a45f0f869d46889d02405  # v6.2.0
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/evals.yml
      - run: pip install pytest-agentv
"""

_PINNED: Final = {
    "@UPLOAD@": "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a  # v7.0.1",
    "@DOWNLOAD@": "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c  # v8.0.1",
    "@CACHE@": "@55cc8345863c7cc4c66a329aec7e433d2d1c52a9  # v6.1.0",
}

PATHS: Final[Mapping[str, str]] = {"github": ".github/workflows/evals.yml", "gitlab": ".gitlab-ci.yml"}

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


def run(arguments: Sequence[str]) -> int:
    """Write the files of a new project. Keeps existing files unless the user agrees to overwrite them."""
    options = _create_parser().parse_args(arguments)
    if options.folder is not None and options.path is not None:
        raise UsageError(f"DIR is given twice: {options.folder} and --path={options.path}")
    folder: Path = options.folder or options.path or Path()
    ini = _ini_file(folder)
    ci = {PATHS[options.ci]: workflow(options.ci, options.shards)}
    schemas = {
        f"@{kind.upper()}_SCHEMA@": _address(schema_path(kind), folder / "evals") for kind in ("eval", "targets")
    }
    project = {name: _filled(text, schemas) for name, text in PROJECT_FILES.items()}
    files = {**project, **ci, **({} if ini else {"pytest.ini": PYTEST_INI})}
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


def _address(path: Path, folder: Path) -> str:
    """Return how the files of a folder name a file: relative to it where both lie in the project, as in `.venv`."""
    path, folder = path.resolve(), folder.resolve()
    if path.is_relative_to(folder.parent):
        return Path(os.path.relpath(path, folder)).as_posix()
    return path.as_uri()


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


def workflow(service: str, shards: int) -> str:
    """Return the text of the workflow for `github` or `gitlab`, whose jobs share the cases among them."""
    parts = {"@MARKER@": "<!-- pytest-agentv: evaluations -->"}
    if service == "gitlab":
        return _filled(GITLAB, parts | {"@PARALLEL@": f"  parallel: {shards}\n" if shards > 1 else ""})
    run = _RUN_SHARD.replace("@COUNT@", str(shards)) if shards > 1 else _RUN_ALL
    numbers = ", ".join(map(str, range(1, shards + 1)))
    return _filled(GITHUB, parts | {"@RUN@": run, "@SHARDS@": numbers, "@INSTALL@": _INSTALL} | _PINNED)


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace(name, part)
    return text
