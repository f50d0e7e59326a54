"""Gives the cases of a JUnit file the file and line where they are written, and figures that come late."""

from collections.abc import Generator, Iterable
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.properties import result_properties
from pytest_agentv.session.compat import junit_case
from pytest_agentv.session.showing.properties import is_own

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
