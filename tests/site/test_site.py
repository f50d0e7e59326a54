"""The site as `mkdocs build --strict` makes it. Skipped where mkdocs-material is missing; `.ci/run` has it."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from docs_pages import ROOT

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="only the checkout has the site"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        check=False,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


class Loaded(HTMLParser):
    """Collects what a browser loads for a page, without a click."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_link = tag == "link" and values.get("rel") not in ("canonical", "next", "prev", "alternate", "edit")
        address = values.get("href") if is_link else values.get("src") if tag != "a" else None
        if address:
            self.addresses.append(address)


def test_each_page_is_there_and_as_markdown_for_models(site: Path) -> None:
    names = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"} | {"index", "changelog", "contributing"}
    assert sorted(name for name in names if not (site / f"{name}.html").exists()) == []
    assert sorted(path.stem for path in (ROOT / "docs").glob("*.md") if not (site / path.name).exists()) == []
    assert (site / "examples/rag_files/index.html").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Loaded(path.read_text("utf-8")).addresses for path in site.rglob("*.html")}
    addresses = [address for found in pages.values() for address in found]
    assert len(addresses) > len(pages)
    assert [address for address in addresses if re.match(r"(https?:)?//", address)] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert "url(" in styles
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']*", styles) == []
    assert [
        path.name for path in site.rglob("*.svg") if re.search(r"href=|url\(\"?http|@import", path.read_text())
    ] == []


def test_what_is_loaded_is_there(site: Path) -> None:
    missing = [
        f"{path.relative_to(site)}: {address}"
        for path in site.rglob("*.html")
        if path.name != "404.html"  # whose addresses begin at the root of the site
        for address in Loaded(path.read_text("utf-8")).addresses
        if not address.startswith(("data:", "#")) and not (path.parent / re.split("[?#]", address)[0]).exists()
    ]
    assert missing == []


def test_no_code_block_is_shown_as_its_marks(site: Path) -> None:
    raw = [path.name for path in site.rglob("*.html") if re.search(r"<p>[^<]*```", path.read_text("utf-8"))]
    assert raw == []


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("agentv_gates", "how-sure.html"),
        ("min_pass_rate", "cases.html"),
        ("retrieved_context", "examples/rag_files/index.html"),
        ("Semantic Versioning", "changelog.html"),
    ],
)
def test_search_finds(site: Path, word: str, page: str) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    assert page in {entry["location"].partition("#")[0] for entry in index["docs"] if word in entry["text"]}


def test_the_pages_that_llms_txt_names_are_there(site: Path) -> None:
    names = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text("utf-8"))
    assert len(names) >= 15
    assert [name for name in names if not (site / name).is_file()] == []


def test_the_pictures_show_what_is_printed() -> None:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    finished = subprocess.run(
        [sys.executable, ROOT / "scripts/pictures.py"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert sum(path.stat().st_size for path in (ROOT / "docs/pictures").iterdir()) < 200_000
