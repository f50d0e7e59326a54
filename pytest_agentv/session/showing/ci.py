"""Shows a run to CI services: GitHub's summary page and annotations, places in JUnit files."""

import os
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

import pytest

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import annotation_lines
from pytest_agentv.reports.figures import visible
from pytest_agentv.reports.junit import result_properties
from pytest_agentv.reports.markdown import MARKDOWN_LIMIT, RunVerdict, markdown_lines
from pytest_agentv.session.compat import junit_case
from pytest_agentv.session.showing.ending import EndedRun
from pytest_agentv.session.showing.item_outcomes import is_own

# Shows a run on GitHub: a summary page, and annotations at the lines of cases.


def tell_github(ended: EndedRun) -> tuple[list[str], Sequence[str]]:
    """Write the summary page. Return its faults, and the lines of the log that become annotations."""
    remarks: list[str] = []
    lines: Sequence[str] = ()
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        remarks = append_step_summary(ended.verdict())
    if os.environ.get("GITHUB_ACTIONS"):
        masker = Masker.of_environment()
        lines = tuple(annotation_lines(ended.run.results, ended.outcomes.expected_failures, masker))
    return remarks, lines


# Writes the verdict of a run to the summary page of a GitHub step: to the file that `GITHUB_STEP_SUMMARY` names.

VARIABLE: Final = "GITHUB_STEP_SUMMARY"

_FILE_LIMIT: Final = 1_048_576
"""In bytes. GitHub shows nothing of a longer file."""


def append_step_summary(verdict: RunVerdict) -> list[str]:
    """Append the verdict if the environment asks for it. Return the reason if that failed."""
    fault = _append(verdict, os.environ.get(VARIABLE, ""))
    return [fault] if fault else []


def _append(verdict: RunVerdict, name: str) -> str | None:
    if not name:
        return None
    masker = Masker.of_environment()
    path = Path(name)
    try:
        size = path.stat().st_size if path.exists() else 0
        limit = min(MARKDOWN_LIMIT, _FILE_LIMIT - size - len("\n\n"))
        text = "".join(f"{line}\n" for line in markdown_lines(verdict, masker, limit))
        if not text:
            return f"{VARIABLE}: {visible(name)} is full, so this run's verdict was not added to it"
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n\n{text}" if size else text)
    except OSError as error:
        return f"{VARIABLE}: {visible(name)} cannot be written: {error.strerror or error}"
    return None


# Gives the cases of a JUnit file the file and line where they are written, and figures that come late.

_ATTRIBUTES: Final = {"agentv_file": "file", "agentv_line": "line"}


class JunitPlaces:
    """Adds `file` and `line`, counted from 1. pytest leaves them out of its default family `xunit2`."""

    NAME: Final = "agentv-junit"

    def __init__(self, config: pytest.Config, *, is_renewed: bool) -> None:
        """`is_renewed` says whether cases may be asked again after their items ended."""
        self._config = config
        self._is_renewed = is_renewed
        self._elements: dict[str, Element] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        places = {name: value for name, value in report.user_properties if name in _ATTRIBUTES}
        case = junit_case(self._config, report) if places and report.when == "teardown" else None
        yield
        if case is not None:
            element = case.to_xml()  # finished already, and the same object each time
            for name, value in places.items():
                element.set(_ATTRIBUTES[name], str(value))
            if self._is_renewed:
                self._elements[report.nodeid] = element

    def renew(self, results: Iterable[EvalResult]) -> None:
        """Replace the figures of cases. The file is written later."""
        for result in results:
            element = self._elements.get(result.node_id or "")
            properties = None if element is None else element.find("properties")
            if properties is None:
                continue
            for each in list(properties):
                if is_own(each.get("name", "")) and each.get("name") not in _ATTRIBUTES:
                    properties.remove(each)
            for name, value in result_properties(result):
                SubElement(properties, "property", name=name, value=str(value))
