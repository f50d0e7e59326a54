"""The pass rates that a run, and the cases with a tag, must reach."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import pytest

from pytest_agentv.errors import name_below
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.gates import GateOutcome, rate_gate
from pytest_agentv.reporting.verdicts.tag_gates import check_tags, parse_tag_gates, rate_check, unmatched_tags
from pytest_agentv.session.gating.selection import left_out_of_rate, left_out_tags, tags_of, uncollected_tags

RUN: Final = "gate::run"


class TagRates:
    """The gates of a run's rates. `given` says whether there is one for a tag."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._gates = parse_tag_gates(options.gates)
        self._set_aside: dict[str, str] = {}
        """The names of gates without a verdict, with the reasons."""

    @property
    def given(self) -> bool:
        return bool(self._gates) or self._options.min_rate is not None

    def check(self, node_ids: Collection[str]) -> None:
        """Set gates aside whose cases were not all collected. Raises `pytest.UsageError` for a tag without any case."""
        missing = self._uncollected(node_ids)
        tags = left_out_tags(self._config, [gate.tag for gate in self._gates]) if self._gates else {}
        partly = {f"gate::{tag}": file for tag, file in tags.items()}
        if self._options.min_rate is not None and (files := left_out_of_rate(self._config)):
            partly[RUN] = files[0]
        root = self._config.rootpath
        reasons = {name: f"{name_below(file, root)} was not collected: no verdict" for name, file in partly.items()}
        self._set_aside = reasons | dict.fromkeys(missing, "none of its cases was collected: no verdict")

    def outcomes(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        """Yield how each rate turned out; those without a verdict come last."""
        rate = self._options.min_rate
        checks = [] if rate is None else [rate_check(RUN, rate, cases)]
        checks += check_tags(self._gates, cases)
        yield from (rate_gate(check, self._options.gate) for check in checks if check.name not in self._set_aside)
        for check in checks:
            if (reason := self._set_aside.get(check.name)) is not None:
                yield GateOutcome(check.name, is_red=False, is_told=True, reason=reason)

    def _uncollected(self, node_ids: Collection[str]) -> list[str]:
        """Return the gates of which no case was collected. Raises `pytest.UsageError` for a tag without any case."""
        wanted = [gate.tag for gate in self._gates]
        tags = tags_of(node_ids, self._config.rootpath, wanted) if wanted else set()
        if unmatched_tags(self._gates, tags) is None:
            return []
        others = uncollected_tags(self._config, node_ids) - tags
        fault = unmatched_tags(self._gates, tags | others)
        if fault is not None:
            raise pytest.UsageError(f"agentv_gates: {fault}")
        return [f"gate::{gate.tag}" for gate in self._gates if gate.tag in others]
