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
from thorough import variation

pytestmark = pytest.mark.skipif(not GALLERY, reason="only the checkout has the examples")


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


@variation
def test_rag_tells_a_fault_of_the_search_from_one_of_the_answer(checkout: Path) -> None:
    """A document that is gone cannot be found; a sentence that stands nowhere is invented."""
    assistant = checkout / "examples/rag_files/assistant.py"
    text = assistant.read_text("utf-8")
    assistant.write_text(text.replace('f"{sentence} [', 'f"Surely. {sentence} ['), "utf-8")
    (checkout / "examples/rag_files/documents/hours.md").unlink()
    exit_code, output, results = run(checkout, "examples/rag_files")
    assert exit_code == 1, output
    judged = {
        name: next(each for each in result["evaluator_results"] if each["name"] == "grounding")
        for name, result in results.items()
        if "answers" in result["eval_file"]
    }
    assert judged["return-period"]["misses"] == ["the answer stands in a passage"]
    assert "hours.md is the first document found" in judged["calls"]["misses"]
    assert results["return-period"]["retrieved_context"][0].startswith("returns.md: Unused articles")
    assert {results[name]["status"] for name in ("calls", "open-saturday")} == {"fail"}


def test_the_service_is_skipped_with_the_reason_where_fastapi_is_missing(checkout: Path) -> None:
    missing = checkout / "missing"
    missing.mkdir()
    (missing / "fastapi.py").write_text("raise ModuleNotFoundError('no fastapi', name='fastapi')\n", "utf-8")
    exit_code, output, results = run(checkout, "examples/web_service", "-rs", PYTHONPATH=str(missing))
    assert (exit_code, results) == (0, {}), output
    assert "4 skipped" in output
    assert "the service needs fastapi: pip install fastapi" in output


@variation
def test_a_service_that_crashes_is_an_error_and_no_bad_answer(checkout: Path) -> None:
    pytest.importorskip("fastapi")
    service = checkout / "examples/web_service/service.py"
    text = service.read_text("utf-8").replace(
        "if day not in HOURS:", "if day == 'monday':\n        raise HTTPException(503)\n    if day not in HOURS:"
    )
    service.write_text(text, "utf-8")
    exit_code, output, results = run(checkout, "examples/web_service")
    assert exit_code == 1, output
    assert results["weekday"]["status"] == "error"
    assert "503" in results["weekday"]["error"]
    assert results["closed"]["status"] == "pass"
