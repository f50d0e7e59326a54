"""Hands the workers of pytest-xdist as many cases as they may have in flight.

xdist gives a worker whose tests take long two tests at a time, or one file. A case takes long because it waits, and the
worker could ask for many others meanwhile. So each worker has twice as many cases queued as it may have in flight. How
many these are is known from `--agentv-workers`, and later from what the worker says with its reports. Other tests, and
cases that run one at a time, are handed out as xdist does.

All this runs in the controller, on its one thread. The classes have the names of their bases, which xdist shows under
`-v`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import pytest
from xdist import scheduler

from pytest_agentv.session.options import run_options
from pytest_agentv.session.workers.not_begun import KnowsBegunOfQueue, KnowsBegunOfScopes
from pytest_agentv.session.workers.shares import AHEAD, PLACES


class _Supplying:
    """Knows how many cases a worker should have queued."""

    numnodes: int

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)  # type: ignore[call-arg]
        try:
            workers = run_options(config).workers or 0
        except pytest.UsageError:  # the workers report it
            workers = 0
        self._expected = -(-workers // self.numnodes)
        self._places: dict[Any, int] = {}
        """Cases that a worker may have in flight, as it says."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        places = getattr(report, PLACES, None)
        if places is not None:
            self._places[report.node] = places

    def _supply(self, node: Any) -> int:
        """Return how many cases a worker should have queued at least; 0: as many as xdist gives it."""
        places = self._places.get(node, self._expected)
        return 0 if places < 2 or node.shutting_down else AHEAD * places


class LoadScheduling(_Supplying, KnowsBegunOfQueue, scheduler.LoadScheduling):  # type: ignore[misc]
    """The scheduling of `--dist load`."""

    def schedule(self) -> None:
        """Hand out the first items, to each worker its share of those that are left."""
        super().schedule()
        share = self._share
        for node in self.nodes:
            self._fill(node, share)
        if self.collection and not self.pending:
            for node in self.nodes:
                if not node.shutting_down:
                    node.shutdown()  # when it has run what it was given: it waits for the item after its last one

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Hand out items to a worker that has few."""
        super().check_schedule(node, duration)
        self._fill(node, self._share)

    @property
    def _share(self) -> int:
        return -(-len(self.pending) // max(1, len(self.node2pending)))

    def _fill(self, node: Any, share: int) -> None:
        """Queue cases at a worker: half of its share of what is left, and at least its supply."""
        supply = self._supply(node)
        queued, wanted = len(self.node2pending[node]), max(supply, share // 2)
        if supply and queued < wanted * 3 // 4:  # several at a time, since each message takes a while
            next_items = self.pending[: min(wanted - queued, share)]
            self._send_tests(node, sum(1 for _ in takewhile(self._is_case, next_items)))

    def _is_case(self, index: int) -> bool:
        assert self.collection is not None
        return _may_be_eval(self.collection[index])


class _ScopesSupplying(_Supplying, KnowsBegunOfScopes):
    """Hands out whole files, classes or groups.

    A worker starts an item when it has the next one, or when no more will come. After another worker died, xdist hands
    out its scopes again, those that are done as well, and may leave a worker with one item for ever. A worker that
    replaces a dead one may still collect its items while xdist hands out work; it gets its part when it has them.
    """

    workqueue: dict[str, dict[str, bool]]
    assigned_work: dict[Any, dict[str, dict[str, bool]]]

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._collecting: set[Any] = set()

    def add_node(self, node: Any) -> None:
        super().add_node(node)  # type: ignore[misc]
        self._collecting.add(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self._collecting.discard(node)
        if node in self.assigned_work:  # else there were fewer scopes than workers, and it was told to end
            super().add_node_collection(node, collection)  # type: ignore[misc]

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self._collecting:
            super()._assign_work_unit(node)  # type: ignore[misc]

    def _reschedule(self, node: Any) -> None:
        """Hand out scopes to a worker that has few items."""
        if node in self._collecting and self.workqueue:
            return
        super()._reschedule(node)  # type: ignore[misc]
        while not node.shutting_down and self._queued(node) < 2:
            super()._reschedule(node)  # type: ignore[misc]
        supply = self._supply(node)
        if not supply:
            return
        queued = self._queued(node)
        share = -(-sum(map(len, self.workqueue.values())) // len(self.assigned_work))
        while share > 0 and self.workqueue and queued < supply:
            unit = next(iter(self.workqueue.values()))
            if not all(map(_may_be_eval, unit)):
                return
            share -= len(unit)
            queued += list(unit.values()).count(False)  # those of a worker that died may be done in part
            self._assign_work_unit(node)

    def _queued(self, node: Any) -> int:
        return int(self._pending_of(self.assigned_work[node]))  # type: ignore[attr-defined]


class LoadScopeScheduling(_ScopesSupplying, scheduler.LoadScopeScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadscope`."""


class LoadFileScheduling(_ScopesSupplying, scheduler.LoadFileScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadfile`."""


class LoadGroupScheduling(_ScopesSupplying, scheduler.LoadGroupScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadgroup`."""


class WorkStealingScheduling(KnowsBegunOfQueue, scheduler.WorkStealingScheduling):  # type: ignore[misc]
    """The scheduling of `--dist worksteal`, as xdist has it.

    If a worker dies while all collect, xdist finds the others idle and tells them that no items will come.
    """

    def check_schedule(self) -> None:
        """Hand out items, once all workers have collected."""
        if self.collection is not None:
            super().check_schedule()


_OURS: Final[Mapping[type, Callable[[pytest.Config, Any], object]]] = {
    scheduler.LoadScheduling: LoadScheduling,
    scheduler.LoadScopeScheduling: LoadScopeScheduling,
    scheduler.LoadFileScheduling: LoadFileScheduling,
    scheduler.LoadGroupScheduling: LoadGroupScheduling,
    scheduler.WorkStealingScheduling: WorkStealingScheduling,
}


def fitting(chosen: object, config: pytest.Config, log: Any) -> object:
    """Return the scheduling for a run, in place of one of xdist's own. One that somebody else chose stays."""
    create = _OURS.get(type(chosen))
    if create is None or config.getoption("maxschedchunk", None):
        return chosen
    ours = create(config, log)
    config.pluginmanager.register(ours)
    return ours


def _may_be_eval(node_id: str) -> bool:
    from pytest_agentv.session.names import may_be_eval  # noqa: PLC0415 - for runs with evals

    return may_be_eval(node_id)
