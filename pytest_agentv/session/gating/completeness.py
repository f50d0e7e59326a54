"""Compares the cases of a run with those of its baseline: an incomplete run gets no verdict."""

from collections.abc import Collection, Sequence

import pytest

from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.verdicts.baseline import Baseline
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.session.gating.marked_items import MarkedItems
from pytest_agentv.session.gating.selection import MAY_LEAVE_OUT_NONE, narrowed_by


class Completeness:
    """Knows which cases a run left out, in the process that owns the terminal."""

    def __init__(self, config: pytest.Config, options: RunOptions, marked: MarkedItems) -> None:
        self._config = config
        self._options = options
        self._marked = marked
        self.baseline: Baseline | None = None
        """The baseline, once it is read."""

    def fault(self, node_ids: Collection[str]) -> str | None:
        """Return what shows, at collection, that cases are missing; None: nothing does."""
        missing = self._uncollected({node_id.partition("::")[0] for node_id in node_ids})
        return narrowed_by(self._config, self._options) or (f"{missing[0]} was not collected" if missing else None)

    def part(self, cases: Sequence[JudgedCase]) -> str | None:
        """Return why the run does not have all cases; None if it has all, as far as is known."""
        narrowed = narrowed_by(self._config, self._options)
        if narrowed is None and self._marked.unasked:
            narrowed = f"{self._marked.unasked:,} not asked for"
        missing = self._uncollected({case.eval_file for case in (*cases, *self.skipped(cases))})
        if narrowed is None and not missing:
            return None
        reason = narrowed or f"no case of {missing[0]} was run"
        if self.baseline is None:
            verb = "may be" if reason in MAY_LEAVE_OUT_NONE else "is" if len(cases) == 1 else "are"
            return f"{counted(len(cases), 'case')} {verb} a part of all ({reason})"
        known = {case.key for case in self.baseline.cases}
        found = sum(case.key in known for case in cases)
        return f"{found:,} of {len(known):,} cases ({reason})"

    def skipped(self, cases: Sequence[JudgedCase]) -> tuple[JudgedCase, ...]:
        """Return the cases of the baseline that were skipped by a mark."""
        return self._marked.skipped_of(self.baseline.cases, cases) if self.baseline is not None else ()

    def _uncollected(self, seen: Collection[str | None]) -> list[str]:
        """Return the eval files of the baseline that exist but are not among those seen."""
        files = {case.eval_file for case in self.baseline.cases} if self.baseline is not None else set()
        root = self._config.rootpath
        return sorted(file for file in files - set(seen) if file is not None and (root / file).is_file())
