"""The README keeps what its readers come for: two commands, a target for each provider, a block for each evaluator.

That its blocks are valid is checked with those of the other pages, in `test_docs`.
"""

import re
import runpy
import sys
from pathlib import Path

import pytest

from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.providers.table import KINDS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
YAML = "\n".join(re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))


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


def test_it_has_a_target_to_copy_for_each_provider() -> None:
    kinds = set(re.findall(r"\bprovider: ([\w-]+)", YAML))
    assert kinds == set(KINDS.table) - {"vscode-insiders"}


def test_it_has_a_block_to_copy_for_each_evaluator() -> None:
    told = set(re.findall(r"\btype: (\w+)", YAML))
    assert {word for word, kind in EVALUATORS.items() if not kind.examples} - {"code", "rubric"} <= told
    assert "docs/checks.md" in README


def test_its_checks_are_checks() -> None:
    shorts = re.findall(
        r"^  - (?:\{)?([\w-]+): ", YAML.partition("# Checks")[2].partition("# Keywords")[0], re.MULTILINE
    )
    assert len(shorts) >= 6
    assert [word for word in shorts if EVALUATORS.find(word) is None] == []
