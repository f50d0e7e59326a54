"""The part of each process in the verdict: counts deselected cases, and shows failing ones as XFAIL."""

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Final

import pytest

from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.verdicts.tag_gates import parse_tag_gates
from pytest_agentv.session.conftests import bound_by
from pytest_agentv.session.gating.selection import (
    DESELECTED,
    DESELECTED_OUTPUT,
    left_out_of_rate,
    left_out_tags,
    narrowed_by,
    note_deselected,
)
from pytest_agentv.session.outcomes import EvalFailed

REASON: Final = "judged with the run"
CASE: Final = "agentv_case"
"""The attribute of the report of a skipped case: its id, and the target of its combination."""
BOUND: Final = "agentv_bound"
"""The attribute of the report of an item with fixtures or hooks around it. Without them, it would be another case."""

RECORDED: Final = "agentv_recorded"
"""The attribute of the report of a case of an eval file that has a result."""


class JudgedCases:
    """Registered in each process that runs cases, where the run as a whole is judged."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._leaves_cases = options.gate in ("run", "strict") and not options.dry_run
        gates = parse_tag_gates(options.gates)
        self._critical = frozenset(gate.tag for gate in gates if gate.tier == "critical")

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        note_deselected(self._config, items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[DESELECTED_OUTPUT] = self._config.stash.get(DESELECTED, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show a failed case as XFAIL where the verdict on the run covers it."""
        report = yield
        if isinstance(item, pytest.Function) and bound_by(item) is not None:
            setattr(report, BOUND, True)
        if report.skipped and hasattr(item, "entry"):
            combination = item.entry.combination
            setattr(report, CASE, [item.entry.eval_id, None if combination is None else combination.target])
        if hasattr(item, "entry") and getattr(item, "result", None) is not None:
            setattr(report, RECORDED, True)
        is_failed = report.failed and call.excinfo is not None and isinstance(call.excinfo.value, EvalFailed)
        if is_failed and self._covers(getattr(item, "result", None)):
            report.outcome = "skipped"
            report.wasxfail = REASON
        return report

    def _covers(self, result: EvalResult | None) -> bool:
        if not self._leaves_cases or result is None or result.required:
            return False
        if narrowed_by(self._config, self._options) is not None:
            return False  # there will be no verdict
        return self._covers_all or not self._tags.isdisjoint(result.tags or ())

    @cached_property
    def _covers_all(self) -> bool:
        options = self._options
        return options.baseline is not None or (options.min_rate is not None and not left_out_of_rate(self._config))

    @cached_property
    def _tags(self) -> frozenset[str]:
        """The tags whose gates get a verdict."""
        return self._critical - left_out_tags(self._config, self._critical).keys() if self._critical else self._critical
