"""The pass rates that a run, and the cases with a tag, must reach."""

from collections.abc import Collection, Iterator, Sequence

import pytest

from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.gates import GateOutcome, rate_gate
from pytest_agentv.reporting.verdicts.tag_gates import TagGate, check_tags, parse_tag_gates, rate_check, unmatched_tags
from pytest_agentv.session.gating.selection import tags_of, uncollected_tags


class TagRates:
    """The gates of a run's rates. `given` says whether there is one for a tag."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._gates = parse_tag_gates(options.gates)
        self._set_aside: tuple[TagGate, ...] = ()

    @property
    def given(self) -> bool:
        return bool(self._gates)

    def check(self, node_ids: Collection[str]) -> None:
        """Set gates aside whose cases were not collected. Raises `pytest.UsageError` for a tag without any case."""
        tags = tags_of(node_ids, self._config.rootpath)
        if unmatched_tags(self._gates, tags) is None:
            return
        others = uncollected_tags(self._config, node_ids) - tags
        fault = unmatched_tags(self._gates, tags | others)
        if fault is not None:
            raise pytest.UsageError(f"agentv_gates: {fault}")
        self._set_aside = tuple(gate for gate in self._gates if gate.tag in others)
        self._gates = tuple(gate for gate in self._gates if gate.tag not in others)

    def outcomes(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        """Yield how each rate turned out."""
        gate = self._options.gate
        if self._options.min_rate is not None:
            yield rate_gate(rate_check("gate::run", self._options.min_rate, cases), gate)
        for check in check_tags(self._gates, cases):
            yield rate_gate(check, gate)
        for each in self._set_aside:
            reason = "none of its cases was collected: no verdict"
            yield GateOutcome(f"gate::{each.tag}", is_red=False, is_told=True, reason=reason)
