"""Decides which cases look broken while their fixtures still exist. At the end of the run they are torn down."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.reporting.verdicts.baseline import Baseline
from pytest_agentv.reporting.verdicts.case_reading import cases_of_run
from pytest_agentv.reporting.verdicts.cases import item_name
from pytest_agentv.reporting.verdicts.suspects import suspects_of
from pytest_agentv.session.gating.selection import narrowed_by

_KEY: Final = pytest.StashKey["Suspicion"]()


class Suspicion:
    """Compares results with the baseline, one at a time."""

    def __init__(self, config: pytest.Config, path: Path, confirm: int) -> None:
        self._config = config
        self._confirm = confirm
        self._baseline = Baseline(())
        with suppress(AgentvError):  # a worker on another machine may not have the file
            self._baseline = read_baseline(path)
        self._known = {case.key: case for case in self._baseline.cases}

    def answers(self, result: EvalResult) -> int:
        """Return how many fresh answers a case is to get; 0: none."""
        [case] = cases_of_run([result])
        # Among others of its id, a case has the name of its item.
        cases = [each for each in (case.replace(name=item_name(case)), case) if each.key in self._known]
        if not cases:
            return 0
        alone = self._baseline.replace(cases=(self._known[cases[0].key],))
        return next((count for _, count in suspects_of(cases[:1], alone, self._confirm, pairs=len(self._known))), 0)


def fresh_answers(config: pytest.Config, options: RunOptions, result: EvalResult, most_failures: int) -> int:
    """Return how many fresh answers a case gets at once; 0: none, because it does not look broken or nobody will judge.

    Args:
        config: Of the process that runs the case.
        options: Those of the run.
        result: The result of the case.
        most_failures: How many failures end the run; 0: any number may fail.
    """
    if options.baseline is None or not options.confirm or options.update_baseline is not None or options.dry_run:
        return 0
    if narrowed_by(config, options) is not None or config.getoption("reruns", 0):
        return 0
    is_left = options.gate in ("run", "strict") and not result.required
    if most_failures and result.status != "pass" and not is_left:
        return 0  # the run may end with this failure
    if _KEY not in config.stash:
        config.stash[_KEY] = Suspicion(config, options.baseline, options.confirm)
    return config.stash[_KEY].answers(result)
