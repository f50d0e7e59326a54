"""Tells how many cases of each target may be in flight in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_agentv.engine.targets.pacing import Pace
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.options.values import MAX_WORKERS
from pytest_agentv.models.results import EvalResult
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.workers.shares import ProcessShare

_ONE_BY_ONE: Final = Pace(workers=1, is_batched=False)


class Paces:
    """Asks for the limit of each target once per folder."""

    def __init__(
        self,
        loop: LoopThread,
        pool: TargetPool,
        options: RunOptions,
        share: ProcessShare,
        processes: Callable[[], int],
    ) -> None:
        """Take a pool. `processes` returns how many processes run the cases of this one."""
        self._loop = loop
        self._pool = pool
        self._options = options
        self._share = share
        self._processes = processes
        self._paces: dict[tuple[Path, str], Pace] = {}

    def limit(self, prepared: PreparedCase) -> int:
        """Return how many cases of the same target may be in flight in this process."""
        processes = self._processes()
        limit = self._pace(prepared).limit(self._options, processes)
        return self._share.of(min(limit, processes * MAX_WORKERS))

    def is_batched(self, prepared: PreparedCase) -> bool:
        """Whether a case's target takes many cases in one call."""
        return self._pace(prepared).is_batched

    def answers_by_id(self, prepared: PreparedCase) -> bool:
        """Whether only the ids of cases tell which of its answers belongs to which case."""
        return self._pace(prepared).is_by_id

    def _pace(self, prepared: PreparedCase) -> Pace:
        """Return the limits of a case's target. A broken target gets the default limits: its case reports the error."""
        job = prepared.job
        if isinstance(job, EvalResult) or prepared.own.replace_target:
            return _ONE_BY_ONE
        key = (job.case.folder, job.identity.target)
        if key not in self._paces:
            try:
                self._paces[key] = self._loop.run(self._pool.pace(*key))
            except (AgentvError, OSError):
                self._paces[key] = _ONE_BY_ONE
        return self._paces[key]
