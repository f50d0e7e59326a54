"""Records why items have no result: skipped, expected to fail, or ended early."""

from collections.abc import Iterable
from typing import Any, Final

from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.session.choosing.asking import REASON as NOT_ASKED
from pytest_agentv.session.gating.judged_cases import BOUND, CASE, REASON, RECORDED

_Key = tuple[str, str | None]


class MarkedItems:
    """The reports of items that have no verdict of their own, in the process that owns the terminal."""

    def __init__(self) -> None:
        self.expected: Final[set[str]] = set()
        """Node ids of items that failed as their `xfail` mark expects."""
        self.left: Final[set[str]] = set()
        """Node ids of items that failed and are judged with the run."""
        self.bound: Final[set[str]] = set()
        """Node ids of items whose cases cannot be asked again: fixtures or hooks of a conftest were around them."""
        self.unasked = 0
        """Cases that were skipped because nobody asked for them."""
        self._skipped: set[_Key] = set()

    def note(self, report: Any) -> None:
        """Note the report of a phase of an item."""
        if getattr(report, BOUND, False):
            self.bound.add(report.nodeid)
        if (report.failed or hasattr(report, "wasxfail")) and not hasattr(report, RECORDED):
            self._skipped.add((report.nodeid, None))  # a test that ends early never reaches its later cases
        if not report.skipped:
            return
        if hasattr(report, "wasxfail"):
            (self.left if report.wasxfail == REASON else self.expected).add(report.nodeid)
        elif NOT_ASKED in str(report.longrepr):
            self.unasked += 1
        else:
            eval_id, target = getattr(report, CASE, (None, None))
            name = report.nodeid if eval_id is None else f"{report.nodeid.partition('::')[0]}::{eval_id}"
            self._skipped.add((name, target))

    def skipped_of(self, known: Iterable[JudgedCase], run: Iterable[JudgedCase]) -> tuple[JudgedCase, ...]:
        """Return the cases of a baseline without a result in this run: their items were skipped or ended early."""
        found = {case.key for case in run}
        return tuple(
            case
            for case in known
            if case.key not in found
            and not self._skipped.isdisjoint({(case.name, None), (case.name, case.target), (case.node_id, None)})
        )
