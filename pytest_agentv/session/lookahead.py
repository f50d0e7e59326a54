"""Which items may be begun before their turn."""

from collections.abc import Container, Iterator
from itertools import islice
from typing import Any

import pytest

from pytest_agentv.session.compat import is_free_to_run_ahead, queued_items
from pytest_agentv.session.items import EvalItem

_FOREIGN_ITEMS = 200
"""Other people's tests that are passed over in search of eval items."""


class Lookahead:
    """Knows the items that follow the current one: those this process was really given, under xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._items: list[pytest.Item] = []
        self._positions: dict[pytest.Item, int] = {}
        self._next: pytest.Item | None = None
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        self._is_worker = bool(worker)
        # Items are taken back from a worker there, even after they were begun: only the very next one is certain.
        self._only_next = self._is_worker and worker.get("agentv_dist") == "worksteal"
        self._is_off = bool(config.getoption("usepdb", default=False))

    def remember(self, items: list[pytest.Item]) -> None:
        """Learn the items of the run, in their final order."""
        self._items = items
        self._positions = {item: position for position, item in enumerate(items)}

    def begin(self, next_item: pytest.Item | None) -> None:
        """Learn which item comes after the one that begins now."""
        self._next = next_item

    def after(
        self, item: pytest.Item, known: Container[EvalItem], *, reach: int | None = None, count: int | None = None
    ) -> Iterator[EvalItem]:
        """Yield those of the items behind one that see nothing of another item's set-up.

        Among the next `reach` eval items, the first `count` that are not known are looked at; None: all.
        """
        if self._is_off:
            return
        nearby = islice(self._following(item), reach and reach + _FOREIGN_ITEMS)
        following = islice((following for following in nearby if isinstance(following, EvalItem)), reach)
        new = islice((following for following in following if following not in known), count)
        yield from (following for following in new if _may_run_ahead(following))

    def _following(self, item: pytest.Item) -> Iterator[pytest.Item]:
        if self._is_worker:
            queued = None if self._only_next else queued_items(self._config, self._items)
            fallback = iter(() if self._next is None else (self._next,))
            return fallback if queued is None else queued
        start = self._positions.get(item, len(self._items)) + 1
        return map(self._items.__getitem__, range(start, len(self._items)))


def _may_run_ahead(item: EvalItem) -> bool:
    has_condition = any(item.get_closest_marker(name) for name in ("skip", "skipif", "xfail"))
    return not has_condition and is_free_to_run_ahead(item)
