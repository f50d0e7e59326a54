"""Sizes and times of the HTML report: what 500 and 10,000 cases take, and how soon the browser shows them.

The browser's part needs Chromium and playwright, and is left out without them.
"""

import argparse
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import report_runs
from measure import exit_code

from pytest_agentv.reports.html.page import write_report
from pytest_agentv.reports.read import read_view
from pytest_agentv.reports.verdict import compared

MEGABYTE = 1e6


@dataclass(frozen=True)
class Suite:
    """A results file to make a report of, and what it may take."""

    cases: int
    repeat: int
    megabytes: float
    ready_ms: float
    """Until the script is done, in the best of several loads."""
    cpu_seconds: float
    """Of writing."""


SUITES = (Suite(500, 5, 1.0, 1_000, 3), Suite(10_000, 1, 10.0, 3_000, 30))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="Loads of each report; the best counts (default: 5).")
    parser.add_argument("--check", action="store_true", help="Exit with 1 when a limit is exceeded.")
    options = parser.parse_args(arguments)
    exceeded: list[str] = []
    print(f"{'cases':>8}{'MB':>8}{'page kB':>9}{'B a case':>10}{'CPU s':>8}{'ready ms':>10}")
    with tempfile.TemporaryDirectory() as name:
        for suite in SUITES:
            exceeded += _measure(suite, Path(name), options.rounds)
    return exit_code(options.check, exceeded)


def _measure(suite: Suite, folder: Path, rounds: int) -> list[str]:
    """Print a line for a suite, and return the limits that it exceeds."""
    path, report = folder / "run.jsonl", folder / "report.html"
    report_runs.write(path, report_runs.results(suite.cases, targets=("small-model",), repeat=suite.repeat))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    size = write_report(report, compared(read_view(path), None))
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    data = sum(map(len, re.findall(r'<script type="text/plain"[^>]*>([^<]*)', report.read_text("utf-8"))))
    ready = _ready(report, rounds)
    shown = "-" if ready is None else f"{ready:.0f}"
    page = (size - data) / 1e3
    print(f"{suite.cases:>8,}{size / MEGABYTE:>8.2f}{page:>9.0f}{data / suite.cases:>10.0f}{seconds:>8.1f}{shown:>10}")
    found = (
        ("MB", size / MEGABYTE, suite.megabytes),
        ("CPU s", seconds, suite.cpu_seconds),
        ("ready ms", ready or 0, suite.ready_ms),
        ("kB of the page", page, 150),
    )
    return [f"{suite.cases} cases: {value:.2f} {what} > {most}" for what, value, most in found if value > most]


def _ready(report: Path, rounds: int) -> float | None:
    """Return the milliseconds until the page can be used, the best of some loads; None without a browser."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing
    except ImportError:
        return None
    if chromium is None:
        return None
    times = []
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(rounds):
            page = browser.new_page()
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
            times.append(float(page.get_attribute("html", "data-ready") or 0))
            page.close()
        browser.close()
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
