"""Gives cases to another xdist worker if their worker died before it began them."""

from collections import Counter
from typing import Any

from pytest_agentv.session.names import may_be_eval
from pytest_agentv.session.workers.starts import RESTARTS, limits_restarts


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
