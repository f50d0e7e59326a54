"""A project with eval cases of every outcome, and pytest run over it by some interpreter."""

import json
import os
import re
import subprocess
import textwrap
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LONGEST_RUN_SECONDS: Final = 600

OUTCOMES: Final[Mapping[str, str]] = {
    "good": "passed",
    "m(gpt)": "passed",
    "日本 ü": "passed",
    "a b": "passed",
    "bad": "failed",
    "two words": "failed",
    "a:b": "failed",
    "raises": "error",
    "no-file": "error",
}
"""Names of the eval items of a project, and how they end."""

_IDS: Final[Mapping[str, str]] = {"m(gpt)": "m[gpt]", "a b": "a\nb", "a:b": "a::b"}
"""Ids of cases whose names are not their ids."""

NOT_PASSED: Final = frozenset(name for name, outcome in OUTCOMES.items() if outcome != "passed")

AGENT: Final = """
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls.txt")


def answer(prompt: str) -> str:
    word = prompt.strip().split("Say ")[-1]
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(f"{word}\\n")
    if word == "raises":
        raise RuntimeError("the agent is broken")
    if word == "hangs":
        time.sleep(60)
    if word == "flaky" and CALLS.read_text("utf-8").split().count("flaky") < 2:
        return "not yet"
    return "hello world"
"""

TARGETS: Final = """
targets:
  - name: default
    provider: python
    callable: agent.py:answer
"""


class CheckError(Exception):
    """Something is not as it should be; the message says what."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A pytest run that has ended."""

    exit_code: int
    text: str
    items: Counter[tuple[str, str]]
    """How often each item, by its name, ended with each outcome."""
    results: tuple[Mapping[str, Any], ...]
    """Lines of the results file."""
    calls: Counter[str]
    """How often the agent was asked for each word: names of cases without blanks are words."""

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each eval item. Raises `CheckError` where one was run more than once."""
        repeated = [name for (name, _), count in self.items.items() if count > 1]
        if repeated:
            raise CheckError(f"run more than once: {', '.join(repeated)}")
        return {name: outcome for name, outcome in self.items if not name.startswith("test_")}


class Bench:
    """A folder with a project, and the interpreter that runs pytest in it."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        self.python = python
        self._runs = 0
        folder.mkdir(parents=True)
        self.write("pytest.ini", "[pytest]\n")
        self.write("evals/agent.py", AGENT)
        self.write("evals/targets.yaml", TARGETS)
        self.write("evals/qa.eval.yaml", eval_file(OUTCOMES))
        self.write("test_python.py", "def test_one(): ...\n")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def read(self, name: str) -> str:
        path = self.folder / name
        if not path.is_file():
            raise CheckError(f"{name} was not written")
        return path.read_text("utf-8")

    def run(self, *arguments: str) -> Finished:
        """Run pytest, with a results file and a JUnit report of its own."""
        self._runs += 1
        out, junit = (self.folder / f"run-{self._runs}.{suffix}" for suffix in ("jsonl", "xml"))
        calls = self.folder / "evals" / "calls.txt"
        calls.unlink(missing_ok=True)
        exit_code, text = self.run_plain(f"--agentv-out={out}", f"--junitxml={junit}", *arguments)
        lines = out.read_text("utf-8").splitlines() if out.exists() else []
        return Finished(
            exit_code,
            text,
            _junit_items(junit),
            tuple(json.loads(line) for line in lines),
            Counter(calls.read_text("utf-8").splitlines() if calls.exists() else ()),
        )

    def run_plain(self, *arguments: str) -> tuple[int, str]:
        """Run pytest with these arguments only; return its exit code and what it printed."""
        command = [str(self.python), "-m", "pytest", *arguments]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST_RUN_SECONDS,
            check=False,
        )
        text = _without_colours(ended.stdout + ended.stderr)
        if "INTERNALERROR" in text or "Traceback (most recent call last)" in ended.stderr:
            raise CheckError(f"pytest {' '.join(arguments)} crashed: {text.strip().splitlines()[-1]}")
        return ended.returncode, text


def eval_file(names: Mapping[str, str]) -> str:
    """Return an eval file whose cases end as they should. A low score is one of an answer without a word it lacks."""
    cases = []
    for name, outcome in names.items():
        evaluator = {"name": "words", "type": "heuristic", "hits": ["nothing" if outcome == "failed" else "hello"]}
        part: dict[str, str] = {"type": "text", "value": f"Say {name}"}
        if name == "no-file":
            part = {"type": "file", "value": "missing.md"}
        cases.append(
            {
                "id": _IDS.get(name, name),
                "expected_outcome": "says hello",
                "input_messages": [{"role": "user", "content": [part]}],
                "evaluators": [evaluator],
            }
        )
    # Lines of JSON are YAML.
    return "evalcases:\n" + "".join(f"  - {json.dumps(case, ensure_ascii=False)}\n" for case in cases)


def _junit_items(path: Path) -> Counter[tuple[str, str]]:
    if not path.exists():
        return Counter()
    found: Counter[tuple[str, str]] = Counter()
    for case in ET.parse(path).iter("testcase"):
        tags = {child.tag for child in case}
        outcome = next((word for tag, word in _JUNIT_WORDS.items() if tag in tags), "passed")
        found[case.get("name", ""), outcome] += 1
    return found


_JUNIT_WORDS: Final = {"error": "error", "failure": "failed", "skipped": "skipped"}


def _environment() -> dict[str, str]:
    """Return the environment without what would tell the run of the project that this script is called from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH", "COV_"))}
    return kept | {"COLUMNS": "200", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)
