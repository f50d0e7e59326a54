"""Gives the cases of a JUnit file the file and line where they are written, in both of pytest's families."""

from collections.abc import Generator
from typing import Any

import pytest

from pytest_agentv.session.compat import junit_case

_ATTRIBUTES = {"agentv_file": "file", "agentv_line": "line"}


class JunitPlaces:
    """Adds `file` and `line`, counted from 1. pytest leaves them out of its default family `xunit2`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        places = {name: value for name, value in report.user_properties if name in _ATTRIBUTES}
        case = junit_case(self._config, report) if places and report.when == "teardown" else None
        yield
        if case is not None:
            element = case.to_xml()  # finished already, and the same object each time
            for name, value in places.items():
                element.set(_ATTRIBUTES[name], str(value))
