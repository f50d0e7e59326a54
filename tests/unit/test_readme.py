"""The pages keep what their readers come for: two commands, a target for each provider, a block for each evaluator.

That their blocks are valid is checked in `test_docs`.
"""

import re
import runpy
import sys
from pathlib import Path

import pytest

from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.providers.table import KINDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_it_opens_with_two_commands() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv ")]
    assert len(commands) == 2
    assert commands[0].endswith("/pytest examples")


def test_its_first_environment_can_say_that_a_path_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest then loads the `conftest.py` of the tests, whose packages only the second one has."""

    class Missing:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "hypothesis":
                raise ModuleNotFoundError

    monkeypatch.delitem(sys.modules, "hypothesis")
    monkeypatch.setattr(sys, "meta_path", [Missing, *sys.meta_path])
    monkeypatch.setenv("PATH", "")  # which the file changes
    assert "runs_start_quickly" in runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))


def test_pages_have_a_target_to_copy_for_each_provider() -> None:
    kinds = set(re.findall(r"\bprovider: ([\w-]+)", yaml_of("targets", "coding-agents")))
    assert kinds == set(KINDS.table) - {"vscode-insiders"}


def test_pages_have_a_block_to_copy_for_each_evaluator() -> None:
    told = set(re.findall(r"[\w-]+(?=:)|(?<=type: )[\w-]+", yaml_of("evaluators", "checks")))
    assert set(EVALUATORS) - {"code", "rubric", "heuristic", "statements"} <= told


def yaml_of(*names: str) -> str:
    pages = [(ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in names]
    return "\n".join(block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
