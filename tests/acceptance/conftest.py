"""A project of a user, and pytest run over it: plain, with `-n 0` and with two workers."""

import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MOCK_TARGETS = """
targets:
  - name: default
    provider: mock
    response: hello world
"""


@dataclass
class Run:
    """What a pytest run printed and wrote."""

    exit_code: int
    lines: list[str]
    results: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def by_id(self) -> dict[str, dict[str, Any]]:
        assert len({result["eval_id"] for result in self.results}) == len(self.results), "a case ran twice"
        return {result["eval_id"]: result for result in self.results}

    @property
    def statuses(self) -> dict[str, str]:
        return {eval_id: result["status"] for eval_id, result in self.by_id.items()}


class Project:
    """A folder with eval files and targets."""

    def __init__(self, pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
        self.path = pytester.path
        self.mode = mode
        self._pytester = pytester
        self._runs = 0

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def script(self, name: str, text: str) -> Path:
        """Write a Python script, with `{python}` in other files standing for what runs it."""
        return self.write(name, text)

    def run(self, *args: str, mode: tuple[str, ...] | None = None, subprocess: bool = False) -> Run:
        """Run pytest; its results go to a new file each time."""
        self._runs += 1
        out = self.path / f"out-{self._runs}.jsonl"
        run = self._pytester.runpytest_subprocess if subprocess else self._pytester.runpytest_inprocess
        chosen = self.mode if mode is None else mode
        finished = run(*chosen, f"--agentv-out={out}", *args)
        results = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
        return Run(int(finished.ret), [*finished.outlines, *finished.errlines], results)


@pytest.fixture(params=[(), ("-n", "0"), ("-n", "2")], ids=["plain", "n0", "n2"])
def mode(request: pytest.FixtureRequest) -> tuple[str, ...]:
    chosen: tuple[str, ...] = request.param
    return chosen


@pytest.fixture
def project_in_all_modes(pytester: pytest.Pytester, mode: tuple[str, ...]) -> Project:
    """Run each test three times: as it is, with `-n 0`, with two workers."""
    return Project(pytester, mode)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester, ())


@pytest.fixture
def python() -> str:
    return sys.executable


@pytest.fixture
def suite() -> Callable[..., str]:
    """Return the text of an eval file of heuristic cases: `suite(a="hello", b="nothing")` holds ids and keywords."""

    def text(**keywords: str) -> str:
        cases = [
            f"  - id: {eval_id}\n    expected_outcome: says {keyword}\n"
            f"    input_messages: [{{role: user, content: Say {keyword}}}]\n"
            f"    evaluators: [{{name: words, type: heuristic, hits: [{keyword}]}}]\n"
            for eval_id, keyword in keywords.items()
        ]
        return "evalcases:\n" + "".join(cases)

    return text
