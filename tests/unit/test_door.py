"""What users import from `pytest_agentv`: complete, typed, described, and loaded only when it is used."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from docs_pages import PAGES, ROOT, read_page

import pytest_agentv

SCRIPTS: Final = ROOT / "scripts"
NAMES: Final = [name for name in pytest_agentv.__all__ if not name.startswith("_")]

OPEN_MODULES: Final = ("pytest_agentv", "pytest_agentv.sdk")
"""What documentation and examples may import."""

_IMPORT: Final = re.compile(r"\b(?:import|from)\b.*\bpytest_agentv\b(?!\.)")
"""A line that may import the package itself. To parse all files takes two seconds."""
UNITS: Final = {
    r"_ms$|_durations$|_delay": "millisecond",
    r"_usd$": "US dollar",
    r"_seconds$|^timeout$": "second",
    r"^line$": "line",
    r"score$|threshold$|_ratio$": r"0 to 1",
    r"_usage$|_per_tool$": "token",
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not SCRIPTS.is_dir():
        pytest.skip("only the checkout has the scripts")
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("api_names")


def test_each_name_can_be_imported() -> None:
    assert [name for name in NAMES if getattr(pytest_agentv, name) is None] == []
    assert set(NAMES) <= set(dir(pytest_agentv))


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_agentv' has no attribute 'Evalutor'"):
        _ = pytest_agentv.Evalutor  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Evalutor"):
        exec("from pytest_agentv import Evalutor")


def test_importing_the_package_loads_nothing_else_and_errors_neither_pydantic_nor_pytest() -> None:
    program = (
        "import sys; before = set(sys.modules); import pytest_agentv; print(*(set(sys.modules) - before)); "
        "pytest_agentv.EvaluatorError; print({'pydantic', 'pytest'} & set(sys.modules))"
    )
    assert _run(program).split("\n") == ["pytest_agentv", "set()"]


def test_all_types_of_public_classes_are_public(script: ModuleType) -> None:
    assert [stranger for name in NAMES for stranger in script.strangers(script.entry_of(name))] == []


@pytest.mark.parametrize("module", ["HOOKS", "FIXTURES"])
def test_all_types_of_hooks_and_fixtures_are_public(module: str, script: ModuleType) -> None:
    entry = script.entry_of_module(getattr(script, module))
    assert len(entry.members) >= 6
    assert list(script.strangers(entry)) == []
    assert [member.name for member in entry.members if "Any" in member.type.rpartition(" -> ")[0]] in ([], ["agentv"])


def test_each_name_is_described_and_its_numbers_have_units(script: ModuleType) -> None:
    for name in NAMES:
        entry = script.entry_of(name)
        assert entry.summary, name
        assert [member.name for member in entry.members if not member.summary] == [], name
        assert [member.name for member in entry.members if not _names_its_unit(member)] == [], name


def _names_its_unit(member: Any) -> bool:
    """Whether the summary of a number names its unit. `UNITS` has the names of members whose numbers need one."""
    units = [unit for names, unit in UNITS.items() if re.search(names, member.name)]
    is_number = re.search(r"\b(?:float|int|TokenUsage)\b", member.type)
    return not is_number or all(re.search(unit, member.summary, re.IGNORECASE) for unit in units)


def test_the_page_says_what_the_sources_say(script: ModuleType) -> None:
    writer = importlib.import_module("api_page")
    assert sorted(name for names in writer.sections().values() for name in names) == sorted(NAMES)
    assert writer.PAGE.read_text("utf-8") == writer.page(), "run `python scripts/api_page.py --write`"


def test_pages_and_examples_import_public_modules_only() -> None:
    sources = {
        block.where: block.text for page in PAGES for block in read_page(page).blocks if block.language == "python"
    }
    sources |= {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.py")}
    found = [f"{where}: {module}" for where, text in sources.items() for module in _imported(text)]
    assert len(found) > 5
    assert [each for each in found if each.partition(": ")[2] not in OPEN_MODULES] == []


def test_pages_name_no_inner_module() -> None:
    """But for those who work on the package itself."""
    pages = [page for page in PAGES if page.name not in ("CONTRIBUTING.md", "architecture.md", "CHANGELOG.md")]
    named = {name for page in pages for name in re.findall(r"\bpytest_agentv\.(\w+)", page.read_text("utf-8"))}
    assert named - set(NAMES) <= {"sdk", "plugin"}


def test_no_module_of_the_package_imports_the_package_itself() -> None:
    """It is the top floor, which import-linter does not look at."""
    texts = {path: path.read_text("utf-8") for path in Path(pytest_agentv.__file__).parent.rglob("*.py")}
    likely = {path: text for path, text in texts.items() if _IMPORT.search(text)}
    assert [path for path, text in likely.items() if "pytest_agentv" in _imported(text)] == []


def test_the_project_of_a_user_is_type_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert settings["strict"] is True
    assert set(settings["packages"]) == {"pytest_agentv", "typed_project"}
    assert (Path(pytest_agentv.__file__).parent / "py.typed").exists()


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def _imported(text: str) -> Iterator[str]:
    """Yield the modules of ours that a source imports."""
    for node in ast.walk(ast.parse(text)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (module for module in modules if module.partition(".")[0] == "pytest_agentv")
