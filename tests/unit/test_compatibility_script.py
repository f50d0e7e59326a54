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


def test_the_versions_of_the_table_are_those_that_its_rows_ask_for(script: ModuleType) -> None:
    lines = script.rows_of(script.PAGE.read_text("utf-8"))
    for row in script.ROWS:
        seen = lines[row.name].split(" | ")[1]
        if row.name.startswith(("pytest ", "Python ")):
            assert f"{row.name}." in f"{seen}."
        assert "pytest " in seen


def test_every_python_that_the_project_declares_is_tried(script: ModuleType) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    versions = [text.removeprefix(prefix) for text in declared["classifiers"] if text.startswith(prefix)]
    names = [row.name for row in script.ROWS]
    assert [name for name in names if name.startswith("Python ")] == [f"Python {version}" for version in versions]
    lowest = next(text for text in declared["dependencies"] if text.startswith("pytest>="))
    assert lowest.replace(">=", " ") in names


def test_rows_that_were_tried_replace_their_lines_and_no_others(script: ModuleType) -> None:
    first, second = script.ROWS[:2]
    page = f"above\n{script.BEGIN}\n{script.END}\nbelow\n"
    once = script.replace_table(page, [script.Seen(first, ("x 1",)), script.Seen(second, ("x 2",))])
    twice = script.replace_table(once, [script.Seen(second, ("x 3",), ("`--lf`: a | b",))])
    assert twice.startswith(f"above\n{script.BEGIN}\n")
    assert twice.endswith(f"{script.END}\nbelow\n")
    assert script.rows_of(twice) == {
        first.name: f"| {first.name} | x 1 | common | passed |  |",
        second.name: f"| {second.name} | x 3 | common | **failed**: `--lf`: a \\| b |  |",
    }
