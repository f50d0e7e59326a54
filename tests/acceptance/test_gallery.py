"""The projects under examples/ that people copy, done as their pages say, from the root of the checkout."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import warm
from docs_pages import GALLERY, ROOT, Page, read_page
from docs_reader import Reader, environment

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not GALLERY, reason="only the checkout has the examples")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("path", GALLERY, ids=[path.parent.name for path in GALLERY])
def test_a_project_does_what_its_page_says(path: Path, checkout: Path) -> None:
    if path.parent.name == "web_service":
        pytest.importorskip("fastapi")
    page: Page = read_page(path)
    reader = Reader(checkout, page)
    reader.follow()
    assert reader.printed


def run(folder: Path, *args: str, **variables: str) -> tuple[int, str, dict[str, Any]]:
    out = folder / "results.jsonl"
    finished = warm.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--agentv-out={out}", *args],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    lines = out.read_text("utf-8").splitlines() if out.exists() else []
    return finished.returncode, finished.stdout, {line["eval_id"]: line for line in map(json.loads, lines)}


def test_the_service_is_skipped_with_the_reason_where_fastapi_is_missing(checkout: Path) -> None:
    missing = checkout / "missing"
    missing.mkdir()
    (missing / "fastapi.py").write_text("raise ModuleNotFoundError('no fastapi', name='fastapi')\n", "utf-8")
    exit_code, output, results = run(checkout, "examples/web_service", "-rs", PYTHONPATH=str(missing))
    assert (exit_code, results) == (0, {}), output
    assert "4 skipped" in output
    assert "the service needs fastapi: pip install fastapi" in output
