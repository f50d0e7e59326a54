"""Gives cases to another worker of xdist if the one that had them died before it began them."""

from collections import Counter
from typing import Any

from pytest_agentv.session.names import may_be_eval
from pytest_agentv.session.workers.starts import RESTARTS, limits_restarts


class KnowsBegun:
    """A scheduling that tells cases which a dead worker had begun from those that only waited for their turn.

    xdist takes the first item that a dead worker had left for the one on which it died.
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
        """Learn that a worker is done with an item."""
        if self.collection is not None:
            self._begun.discard(self.collection[item_index])
        super().mark_test_complete(node, item_index, duration)  # type: ignore[misc]

    def _is_not_begun(self, node: Any, item: str) -> bool:
        """Whether a worker died before it began a case, which others may run then."""
        is_dead = not hasattr(node, "workeroutput")
        if not is_dead or item in self._begun or not may_be_eval(item):
            return False
        self._given_away[item] += 1  # a run in which each worker dies must come to its end
        return not self._is_endless or self._given_away[item] <= RESTARTS


class KnowsBegunOfQueue(KnowsBegun):
    """A scheduling that queues single items at its workers."""

    node2pending: dict[Any, list[int]]

    def remove_node(self, node: Any) -> str | None:
        """Return the item on which a worker died, and give its other items to others."""
        queued = self.node2pending.get(node)
        if not queued or self.collection is None or not self._is_not_begun(node, self.collection[queued[0]]):
            died_on: str | None = super().remove_node(node)  # type: ignore[misc]
            return died_on
        queued.insert(0, queued[0])  # xdist takes it out
        super().remove_node(node)  # type: ignore[misc]
        return None


class KnowsBegunOfScopes(KnowsBegun):
    """A scheduling that gives whole files, classes or groups to its workers. xdist gives all of them to others."""

    def remove_node(self, node: Any) -> str | None:
        """Return the item on which a worker died."""
        item: str | None = super().remove_node(node)  # type: ignore[misc]
        return None if item is not None and self._is_not_begun(node, item) else item
