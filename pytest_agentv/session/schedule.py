"""Gives the workers of pytest-xdist as many cases as they may have in flight."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

import pytest
from xdist import scheduler

from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import may_be_eval
from pytest_agentv.session.workers import AHEAD, PLACES

# xdist gives a worker with slow tests two tests at a time, or one file. Cases are slow because they wait, and a worker
# could run many of them at once. So each worker gets twice as many cases queued as it may have in flight. That number
# comes from `--agentv-workers`, and later from the worker's reports. Other tests, and cases that run one at a time, are
# scheduled as by xdist. The classes have the names of their bases, because xdist shows them under `-v`.


class _Supplying:
    """Knows how many cases a worker should have queued."""

    numnodes: int

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)  # type: ignore[call-arg]
        try:
            workers = run_options(config).workers or 0
        except pytest.UsageError:  # the workers report the error
            workers = 0
        self._expected = -(-workers // self.numnodes)
        self._places: dict[Any, int] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        places = getattr(report, PLACES, None)
        if places is not None:
            self._places[report.node] = places

    def _supply(self, node: Any) -> int:
        """Return how many cases a worker should have queued at least; 0: xdist decides."""
        places = self._places.get(node, self._expected)
        return 0 if places < 2 or node.shutting_down else AHEAD * places


class LoadScheduling(_Supplying, scheduler.LoadScheduling):  # type: ignore[misc]
    """The scheduling of `--dist load`."""

    def schedule(self) -> None:
        super().schedule()
        share = self._share
        for node in self.nodes:
            self._fill(node, share)
        if self.collection and not self.pending:
            for node in self.nodes:
                if not node.shutting_down:
                    node.shutdown()  # A worker runs its last item only when it gets another one or the shutdown.

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        super().check_schedule(node, duration)
        self._fill(node, self._share)

    @property
    def _share(self) -> int:
        return -(-len(self.pending) // max(1, len(self.node2pending)))

    def _fill(self, node: Any, share: int) -> None:
        """Queue cases for a worker: half of its share of the pending ones, but at least its supply."""
        supply = self._supply(node)
        queued, wanted = len(self.node2pending[node]), max(supply, share // 2)
        if supply and queued < wanted * 3 // 4:  # several at a time, because each message takes a while
            next_items = self.pending[: min(wanted - queued, share)]
            names = self.collection or ()
            self._send_tests(node, sum(1 for _ in takewhile(lambda index: may_be_eval(names[index]), next_items)))


class _ScopesSupplying(_Supplying):
    """Assigns whole files, classes or groups.

    A worker starts an item only when it has the next one, or when no more will come. After a worker died, xdist assigns
    its finished scopes again, and may leave a worker with one item for ever. A worker that replaces a dead one may
    still collect its items while xdist assigns work. It gets work when it has collected.
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
        if node in self.assigned_work:  # without a scope for it, the worker was told to shut down
            super().add_node_collection(node, collection)  # type: ignore[misc]

    def remove_node(self, node: Any) -> str | None:
        """Return the item that a worker died on, and give its other items to other workers.

        xdist gives them that item as well: it was paid for again, and was shown both as failed and as passed.
        """
        left = ((unit, item) for unit in self.assigned_work[node].values() for item in unit if not unit[item])
        unit, died_on = next(left, ({}, None))
        if died_on is not None:
            unit[died_on] = True
        super().remove_node(node)  # type: ignore[misc]
        return died_on

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self._collecting:
            super()._assign_work_unit(node)  # type: ignore[misc]

    def _reschedule(self, node: Any) -> None:
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
            if not all(map(may_be_eval, unit)):
                return
            share -= len(unit)
            queued += list(unit.values()).count(False)  # a scope of a dead worker may be finished in part
            self._assign_work_unit(node)

    def _queued(self, node: Any) -> int:
        return int(self._pending_of(self.assigned_work[node]))  # type: ignore[attr-defined]


class LoadScopeScheduling(_ScopesSupplying, scheduler.LoadScopeScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadscope`."""


class LoadFileScheduling(_ScopesSupplying, scheduler.LoadFileScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadfile`."""


class LoadGroupScheduling(_ScopesSupplying, scheduler.LoadGroupScheduling):  # type: ignore[misc]
    """The scheduling of `--dist loadgroup`."""


_OURS: Final = (LoadScheduling, LoadScopeScheduling, LoadFileScheduling, LoadGroupScheduling)


def fitting(chosen: object, config: pytest.Config, log: Any) -> object:
    """Return our scheduling in place of one of xdist's own. A scheduling of another plugin stays."""
    create = next((each for each in _OURS if type(chosen) in each.__bases__), None)
    if create is None or config.getoption("maxschedchunk", None):
        return chosen
    ours = create(config, log)
    config.pluginmanager.register(ours)
    return ours
