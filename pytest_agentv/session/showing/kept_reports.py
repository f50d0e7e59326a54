"""Frees reports that pytest would keep to the end of a run. It keeps three per case, and shows one."""

from typing import Any, Final

from pytest_agentv.session.compat import TerminalReporter, drop_phases
from pytest_agentv.session.showing.item_outcomes import EVALUATED

_ITEMS: Final = 500
"""The number of items after which reports are freed."""


class KeptReports:
    """Drops the reports of set-ups and tear-downs of cases that passed and have nothing to show."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._finished = 0

    def pytest_runtest_logfinish(self) -> None:
        self._finished += 1
        if self._finished % _ITEMS == 0:
            drop_phases(self._terminal, _is_of_a_case)


def _is_of_a_case(report: Any) -> bool:
    return hasattr(report, EVALUATED)
