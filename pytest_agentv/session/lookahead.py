"""Decides which of the following items may begin before their turn."""

import os
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import pytest

from pytest_agentv.session.compat import has_same_fixtures, queued_items
from pytest_agentv.session.items import EvalItem
from pytest_agentv.session.user_hooks import hook_around, is_free_to_run_ahead

_CONDITIONS: Final = frozenset({"skip", "skipif", "xfail"})
"""Marks that decide only at an item's turn whether it runs."""


_STEPS: Final = 10
"""The reach grows by a tenth at a time."""


class Lookahead:
    """Knows the items that follow the current one. Under xdist, these are the items that this process was given."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.items: list[pytest.Item] = []
        """The items of the run, in their final order."""
        self._positions: dict[pytest.Item, int] = {}
        self._first_new = 0
        """Items before this position cannot be begun, so they are not checked again."""
        self._next: pytest.Item | None = None
        self.held: dict[str, None] = {}
        """The hooks that kept cases from running ahead of their turn."""
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        self._is_worker = bool(worker)
        # `worksteal` takes back items that are begun already. Only the next item is certain.
        self._only_next = self._is_worker and worker.get("agentv_dist") == "worksteal"
        self._has_debugger = bool(config.getoption("usepdb", default=False))
        self._process = os.getpid()

    def remember(self, items: list[pytest.Item]) -> None:
        """Learn the items of the run, in their final order."""
        self.items = items
        self._positions = {item: position for position, item in enumerate(items)}
        self._first_new = 0

    def begin(self, next_item: pytest.Item | None) -> None:
        """Learn which item comes after the one that begins now."""
        self._next = next_item

    def after(self, item: pytest.Item, known: Container[object], *, reach: int, count: int) -> Iterator[EvalItem]:
        """Yield the following eval items that may run ahead of their turn.

        Checks the first `count` unknown items among the next `reach` items. Stops at a test in Python, and
        at an item with a hook or a fixture of its own: a case behind it must not see what it patches.
        """
        new = (each for each in self._following(item, known, reach) if each not in known)
        for number, each in enumerate(islice(new, count)):
            if not isinstance(each, EvalItem):
                return
            if (hook := hook_around(each)) is not None:
                self.held[hook] = None
                return
            if not is_free_to_run_ahead(each) or (number == 0 and not leaves_others_alone(item)):
                return
            if _may_run_ahead(each, item):
                yield each

    def of_batch(self, item: pytest.Item, known: Container[object]) -> Iterator[EvalItem]:
        """Yield all following eval items that may run ahead, also behind tests in Python: one call answers all."""
        for each in self._following(item, known, None):
            if not isinstance(each, EvalItem) or each in known:
                continue
            if leaves_others_alone(each) and _may_run_ahead(each, item):
                yield each

    def _following(self, item: pytest.Item, known: Container[object], reach: int | None) -> Iterable[pytest.Item]:
        if self._has_debugger or os.getpid() != self._process:  # a process of its own ends with its item
            return ()
        return self._queue(reach) if self._is_worker else self._behind(item, known, reach)

    def _queue(self, reach: int | None) -> Iterator[pytest.Item]:
        queued = None if self._only_next else queued_items(self._config, self.items)
        if queued is None:
            queued = iter(() if self._next is None else (self._next,))
        return islice(queued, reach)

    def _behind(self, item: pytest.Item, known: Container[object], reach: int | None) -> Iterator[pytest.Item]:
        items = self.items
        start = self._positions.get(item, len(items)) + 1
        end = len(items) if reach is None else min(len(items), start + reach)
        if reach is not None and end < len(items):
            # The reach grows by steps: beginning many cases together costs a tenth less than one by one.
            end -= end % max(1, reach // _STEPS)
        start = max(start, self._first_new)
        while start < end and items[start] in known:
            start += 1
        self._first_new = start
        return map(items.__getitem__, range(start, end))


def leaves_others_alone(item: pytest.Item) -> bool:
    """Whether an item is a case, and no hook and no fixture around it can change what other cases see."""
    return isinstance(item, EvalItem) and hook_around(item) is None and is_free_to_run_ahead(item)


def _may_run_ahead(item: EvalItem, current: pytest.Item) -> bool:
    if item.own_fixtures and not (
        isinstance(current, EvalItem) and has_same_fixtures(item, current, item.own_fixtures)
    ):
        return False
    return not any(mark.name in _CONDITIONS for mark in item.iter_markers())
