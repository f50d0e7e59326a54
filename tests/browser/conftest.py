"""The report in a real browser. All tests share one Chromium, and most of them one page."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_runs

from pytest_agentv.reports.html.page import write_report
from pytest_agentv.reports.read import read_view
from pytest_agentv.reports.verdict import compared

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

SHOTS = os.environ.get("AGENTV_TEST_SHOTS")
"""A folder for screenshots; None: none are kept."""


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Iterator[Any]:
    """Start Chromium, in runs of these tests only: its driver keeps an event loop, in which no other test can run."""
    if "browser" not in pytestconfig.getoption("markexpr"):
        pytest.skip("starts a browser: pytest -m browser")
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as program:
        chromium = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page with the report, and what it did beside showing it."""

    def __init__(self, browser: Any, path: Path, *, size: tuple[int, int] = (1440, 900), **options: Any) -> None:
        self.path = path
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, address: str = "") -> Any:
        self.page.goto("about:blank")
        self.page.goto(self.path.as_uri() + address)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        return self.page

    def count(self) -> str:
        return str(self.page.text_content("#count"))

    def ids(self) -> list[str]:
        rows = self.page.eval_on_selector_all("#list .row .id", "nodes => nodes.map(n => n.firstChild.textContent)")
        return [str(row) for row in rows]

    def shoot(self, name: str) -> None:
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


@pytest.fixture(scope="session")
def report_of_500(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """500 cases, compared with another run, with three more as history."""
    folder = tmp_path_factory.mktemp("report")
    run = report_runs.write(folder / "run.jsonl", report_runs.broken(report_runs.results(250), 6))
    base = report_runs.write(folder / "base.jsonl", report_runs.results(252, seed=1))
    old = report_runs.write(folder / "old.jsonl", report_runs.results(60, seed=2))
    view = compared(read_view(run), read_view(base))
    write_report(folder / "report.html", view, (read_view(old),))
    return folder / "report.html"


@pytest.fixture(scope="session")
def opened(browser: Any, report_of_500: Path) -> Iterator[Opened]:
    shared = Opened(browser, report_of_500, color_scheme="light")
    yield shared
    assert shared.said == [], "the console is silent"
    assert {url for url in shared.requests if url != "about:blank"} <= {
        url for url in shared.requests if url.startswith(report_of_500.as_uri())
    }, "nothing is loaded but the file itself"


@pytest.fixture
def page(opened: Opened) -> Any:
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    return opened.open()


def report_from(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write the report of records that JSON may hold in no other way than with lone surrogates escaped."""
    (folder / "run.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    write_report(folder / "report.html", compared(read_view(folder / "run.jsonl"), None))
    return folder / "report.html"
