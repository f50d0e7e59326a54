"""Modules that were rewritten before workers start are not rewritten again."""

import sys
from pathlib import Path

import pytest
import rewriting
import warm

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(rewriting.__file__).parent)!r})
import rewriting

def kept(session):
    return {{path.name: path.stat().st_ino for path in session.config.rootpath.rglob("test_*.pyc")}}

def pytest_sessionstart(session):
    rewriting.rewrite_once(session.config)
    session.kept = kept(session)
    print("rewritten:", len(session.kept))

def pytest_sessionfinish(session):
    print("written again:", len(kept(session).items() - session.kept.items()))
"""
MODULE = "import pytest\n{above}\ndef test_one(): assert [1] == [1], 'one'\n"


def a_folder(folder: Path, modules: int, above: str = "") -> Path:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -s\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for number in range(modules):
        (folder / f"test_{number}.py").write_text(MODULE.format(above=above))
    return folder


def run(folder: Path) -> str:
    done = warm.run([sys.executable, "-m", "pytest"], cwd=folder, capture_output=True, text=True)
    return str(done.stdout)


def test_a_run_reads_what_was_rewritten_before_it(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, rewriting.FEWEST)

    first = run(folder)

    assert f"rewritten: {rewriting.FEWEST}\n" in first
    assert "written again: 0" in first
    assert f"{rewriting.FEWEST} passed" in first


@pytest.mark.parametrize("above", ["raise SystemExit", "pytest.skip(allow_module_level=True)", "1 / 0"])
def test_a_module_that_cannot_be_imported_is_rewritten_as_well(tmp_path: Path, above: str) -> None:
    folder = a_folder(tmp_path, rewriting.FEWEST, above)

    assert f"rewritten: {rewriting.FEWEST}\n" in run(folder)


def test_a_few_modules_are_left_to_the_run(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, rewriting.FEWEST - 1)

    assert "rewritten: 0\n" in run(folder)
