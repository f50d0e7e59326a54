"""The pages of the documentation, done as they say: files written, commands run, output and records compared.

The conventions stand in `docs_pages`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from docs_pages import PAGES, ROOT, Page, added_kinds, read_page
from docs_reader import Reader, holds, shows

from .conftest import agentv

ACTIVE = [page for page in map(read_page, PAGES) if page.has_something_to_do]
SLOW = ("checks.md", "how-sure.md", "judges-you-can-trust.md", "run.md")
"""Pages whose commands take more than a second."""


def parameter(page: Page) -> Any:
    marks = [pytest.mark.slow] if page.path.name in SLOW else []
    return pytest.param(page, id=str(page.path.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [*map(parameter, ACTIVE)])
def test_a_page_does_what_it_says(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, page)
    reader.follow()
    samples = [block for block in page.blocks if block.language == "json" and block.name is None and block.is_run]
    known = [block for block in samples if not reader.lacks_node(block)]
    wrong = [block.where for block in known if not holds(reader.records, json.loads(block.text))]
    assert wrong == [], "no run of the page has written such a record"
    if any(block.name and block.language == "yaml" for block in page.blocks):
        monkeypatch.chdir(tmp_path)
        kinds = [f"--plugin-kind={kind}" for kind in added_kinds(page.text)]
        exit_code = agentv(["validate", "--strict", *kinds, "."])
        assert exit_code == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("a\nb\nc\n", "b\nc\n", True),
        ("a\nb\nc\n", "a\nc\n", False),
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a 1 b\n", "a … b\n", True),
        ("a b\n", "a\n", False),
        ("==== 1 passed in 0.10s ====\n", "=== 1 passed in 3.00s ===\n", True),
        ("==== 1 passed in 0.10s ====\n", "=== 2 passed in 0.10s ===\n", False),
    ],
)
def test_output_is_compared_line_by_line(printed: str, shown: str, expected: bool) -> None:
    assert shows(printed, shown) is expected
