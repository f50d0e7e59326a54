"""Gives the workers of pytest-xdist as many cases as they may have in flight, and replaces those that die."""

import errno
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import SimpleNamespace
from typing import Any, Final

import pytest
from xdist import scheduler

from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import may_be_eval
from pytest_agentv.session.workers import AHEAD, PLACES

# Makes xdist's controller replace workers that die while they start.

RESTARTS: Final = 4
"""How many workers may die at their start, for each requested worker. xdist has the same limit for `-n`."""
_SIGNS_OF_DEATH: Final = {None, errno.EPIPE, errno.ECONNRESET}
"""Error codes of a connection whose other end is gone. execnet's own errors have none."""


def tolerate_deaths(config: pytest.Config) -> None:
    """Make xdist replace workers that die while they start, like those that die later.

    Otherwise the error of the broken connection would end the whole run, with the cases of other workers.
    """
    manager = getattr(config.pluginmanager.get_plugin("dsession"), "nodemanager", None)
    if manager is not None:
        manager.setup_node = _Starts(manager, config).start


def limits_restarts(config: pytest.Config) -> bool:
    """Whether xdist ends the run when too many workers have died. It does with `-n`, but not with `--tx` alone."""
    return bool(config.getoption("numprocesses", None) or config.getoption("maxworkerrestart", None))


class _Starts:
    """Starts workers in place of xdist's node manager."""

    def __init__(self, manager: Any, config: pytest.Config) -> None:
        self._manager = manager
        self._config = config
        self._start = manager.setup_node
        self._deaths = 0

    def start(self, spec: Any, putevent: Callable[[tuple[str, dict[str, object]]], None]) -> Any:
        """Return a new worker. If it died already, report its death to xdist before any other event."""
        try:
            return self._start(spec, putevent)
        except (EOFError, OSError) as error:
            if not spec.popen or not (isinstance(error, EOFError) or error.errno in _SIGNS_OF_DEATH):
                raise
            node = self._dead_node(spec)
        self._deaths += 1
        if self._deaths > RESTARTS * len(self._manager.specs) and not limits_restarts(self._config):
            pytest.exit(f"{self._deaths} workers of pytest-xdist died while they were started", 1)
        putevent(("errordown", {"node": node, "error": "it died while it was started"}))
        return node

    def _dead_node(self, spec: Any) -> Any:
        from xdist.workermanage import WorkerController  # noqa: PLC0415 - only for workers that died

        gateway = next((each for each in self._manager.group if each.id == spec.id), None)
        node = getattr(gateway, "node", None)
        if node is None:
            stand_in = gateway or SimpleNamespace(id=spec.id, spec=spec)
            node = WorkerController(self._manager, stand_in, self._config, None)
        node._down = True  # keeps xdist from sending to it
        return node


# Gives cases to another xdist worker if their worker died before it began them.


class KnowsBegun:
    """A scheduling that knows which cases a worker had begun when it died.

    xdist assumes that a worker died on the first item in its queue.
    """

    collection: list[str] | None

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)  # type: ignore[call-arg]
        self._begun: set[str] = set()
        self._given_away: Counter[str] = Counter()
        self._is_endless = not limits_restarts(config)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if may_be_eval(nodeid):
            self._begun.add(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note that a worker finished an item."""
        if self.collection is not None:
            self._begun.discard(self.collection[item_index])
        super().mark_test_complete(node, item_index, duration)  # type: ignore[misc]

    def _is_not_begun(self, node: Any, item: str) -> bool:
        """Whether a worker died before it began a case, so that another worker may run it."""
        is_dead = not hasattr(node, "workeroutput")
        if not is_dead or item in self._begun or not may_be_eval(item):
            return False
        self._given_away[item] += 1  # the run must end even if every worker dies
        return not self._is_endless or self._given_away[item] <= RESTARTS


class KnowsBegunOfQueue(KnowsBegun):
    """A scheduling that queues single items for its workers."""

    node2pending: dict[Any, list[int]]

    def remove_node(self, node: Any) -> str | None:
        """Return the item that a worker died on, and give its other items to other workers."""
        queued = self.node2pending.get(node)
        if not queued or self.collection is None or not self._is_not_begun(node, self.collection[queued[0]]):
            died_on: str | None = super().remove_node(node)  # type: ignore[misc]
            return died_on
        queued.insert(0, queued[0])  # because xdist removes the first one
        super().remove_node(node)  # type: ignore[misc]
        return None


class KnowsBegunOfScopes(KnowsBegun):
    """A scheduling that assigns whole files, classes or groups. xdist assigns those of a dead worker to others."""

    assigned_work: dict[Any, dict[str, dict[str, bool]]]

    def remove_node(self, node: Any) -> str | None:
        """Return the item that a worker died on, and give its other items to other workers.

        xdist gives them that item as well: it was paid for again, and was shown both as failed and as passed.
        """
        units = self.assigned_work[node].values()
        left = next(((unit, item) for unit in units for item, is_done in unit.items() if not is_done), None)
        died_on = None
        if left is not None and not self._is_not_begun(node, left[1]):
            unit, died_on = left
            unit[died_on] = True
        super().remove_node(node)  # type: ignore[misc]
        return died_on


# Gives the workers of pytest-xdist as many cases as they may have in flight.
#
# xdist gives a worker with slow tests two tests at a time, or one file. Cases are slow because they wait, and a worker
# could run many of them at once. So each worker gets twice as many cases queued as it may have in flight. That number
# comes from `--agentv-workers`, and later from the worker's reports. Other tests, and cases that run one at a time, are
# scheduled as by xdist.
#
# All this runs in the controller, in one thread. The classes have the names of their bases, because xdist shows them
# under `-v`.


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
        """How many cases each worker may have in flight, by its own reports."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        places = getattr(report, PLACES, None)
        if places is not None:
            self._places[report.node] = places

    def _supply(self, node: Any) -> int:
        """Return how many cases a worker should have queued at least; 0: xdist decides."""
        places = self._places.get(node, self._expected)
        return 0 if places < 2 or node.shutting_down else AHEAD * places


class LoadScheduling(_Supplying, KnowsBegunOfQueue, scheduler.LoadScheduling):  # type: ignore[misc]
    """The scheduling of `--dist load`."""

    def schedule(self) -> None:
        """Send each worker its share of the first items."""
        super().schedule()
        share = self._share
        for node in self.nodes:
            self._fill(node, share)
        if self.collection and not self.pending:
            for node in self.nodes:
                if not node.shutting_down:
                    node.shutdown()  # A worker runs its last item only when it gets another one or the shutdown.

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Send items to a worker that has few."""
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
            self._send_tests(node, sum(1 for _ in takewhile(self._is_case, next_items)))

    def _is_case(self, index: int) -> bool:
        assert self.collection is not None
        return _may_be_eval(self.collection[index])


class _ScopesSupplying(_Supplying, KnowsBegunOfScopes):
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

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self._collecting:
            super()._assign_work_unit(node)  # type: ignore[misc]

    def _reschedule(self, node: Any) -> None:
        """Assign scopes to a worker that has few items."""
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


class WorkStealingScheduling(KnowsBegunOfQueue, scheduler.WorkStealingScheduling):  # type: ignore[misc]
    """The scheduling of `--dist worksteal`, as in xdist.

    If a worker dies during collection, xdist would find the others idle and tell them that no items will come.
    """

    def check_schedule(self) -> None:
        """Send items once all workers have collected."""
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
    """Return our scheduling in place of one of xdist's own. A scheduling of another plugin stays."""
    create = _OURS.get(type(chosen))
    if create is None or config.getoption("maxschedchunk", None):
        return chosen
    ours = create(config, log)
    config.pluginmanager.register(ours)
    return ours


def _may_be_eval(node_id: str) -> bool:

    return may_be_eval(node_id)
