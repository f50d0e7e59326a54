"""Hands the workers of pytest-xdist as many cases as they may have in flight."""

from itertools import takewhile
from typing import Any

import pytest
from xdist import scheduler

from pytest_agentv.session.options import run_options
from pytest_agentv.session.workers.shares import AHEAD, PLACES


class LoadScheduling(scheduler.LoadScheduling):  # type: ignore[misc]
    """The scheduling of `--dist load`, for items that wait for a model.

    xdist gives a worker whose tests take long two tests at a time. A case takes long because it waits, and the worker
    could ask for many others meanwhile. So each worker has twice as many cases queued as it may have in flight. How
    many these are is known from `--agentv-workers`, and later from what the worker says with its reports. Other tests,
    and cases that run one at a time, are handed out as xdist does.

    Runs in the controller, on its one thread. The class has the name of its base, which xdist shows under `-v`.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
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

    def schedule(self) -> None:
        """Hand out the first items, to each worker its share of those that are left."""
        super().schedule()
        share = self._share()
        for node in self.nodes:
            self._fill(node, share)
        if self.collection and not self.pending:
            for node in self.nodes:
                if not node.shutting_down:
                    node.shutdown()  # when it has run what it was given: it waits for the item after its last one

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Hand out items to a worker that has few."""
        super().check_schedule(node, duration)
        self._fill(node, self._share())

    def _share(self) -> int:
        return -(-len(self.pending) // max(1, len(self.node2pending)))

    def _fill(self, node: Any, share: int) -> None:
        """Queue cases at a worker: half of its share of what is left, and at least what fills its places."""
        places = self._places.get(node, self._expected)
        if places < 2 or node.shutting_down:
            return
        queued, wanted = len(self.node2pending[node]), max(AHEAD * places, share // 2)
        if queued < wanted * 3 // 4:  # several at a time, since each message takes a while
            next_items = self.pending[: min(wanted - queued, share)]
            self._send_tests(node, sum(1 for _ in takewhile(self._is_eval, next_items)))

    def _is_eval(self, index: int) -> bool:
        from pytest_agentv.session.names import may_be_eval  # noqa: PLC0415 - for runs with evals

        assert self.collection is not None
        return may_be_eval(self.collection[index])


def fitting(chosen: object, config: pytest.Config, log: Any) -> object:
    """Return the scheduling for a run, in place of that of `--dist load`. One that somebody else chose stays."""
    if type(chosen) is not scheduler.LoadScheduling or config.getoption("maxschedchunk", None):
        return chosen
    ours = LoadScheduling(config, log)
    config.pluginmanager.register(ours)
    return ours
