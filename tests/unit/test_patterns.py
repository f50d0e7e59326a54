"""Regular expressions that every supported Python matches alike."""

import re
from pathlib import Path

import pytest_agentv


def test_no_group_is_repeated_possessively() -> None:
    """Before 3.11.5, Python continues behind the characters of a repetition that failed (gh-106052)."""
    repeated = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    files = Path(pytest_agentv.__file__).parent.rglob("*.py")
    found = [f"{path.name}: {match[0]}" for path in files for match in repeated.finditer(path.read_text("utf-8"))]
    assert found == []
