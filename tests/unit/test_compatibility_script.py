"""The table of compatibility holds what the script that writes it would try. Nothing is installed here."""

import importlib
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"

pytestmark = pytest.mark.skipif(not SCRIPTS.is_dir(), reason="only the checkout has the scripts")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("compatibility")


def test_the_table_has_a_line_for_each_row_of_the_script(script: ModuleType) -> None:
    lines = script.rows_of(script.PAGE.read_text("utf-8"))
    assert list(lines) == [row.name for row in script.ROWS]
    for row in script.ROWS:
        cells = lines[row.name].strip("| ").split(" | ")
        assert cells[2] == "; ".join([script.COMMON, *map(script.title, row.special)])
        assert cells[3] == "passed"
        assert row.remark == (cells[4] if len(cells) > 4 else "")


def test_every_python_that_the_project_declares_is_tried(script: ModuleType) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    versions = [text.removeprefix(prefix) for text in declared["classifiers"] if text.startswith(prefix)]
    names = [row.name for row in script.ROWS]
    assert [name for name in names if name.startswith("Python ")] == [f"Python {version}" for version in versions]
    lowest = next(text for text in declared["dependencies"] if text.startswith("pytest>="))
    assert lowest.replace(">=", " ") in names
