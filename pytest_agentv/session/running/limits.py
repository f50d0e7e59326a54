"""How many failures end a run."""

import pytest


class FailureLimit:
    """Whether the run is about to stop at `-x`, `--maxfail` or `--stepwise`.

    pytest counts the failures that it has reported. A case that failed ahead of its turn counts as well, but only until
    its turn is over: pytest may see it in another way (xfail, reruns, hooks that change reports).
    """

    def __init__(self, config: pytest.Config) -> None:
        self.maximum = _max_failures(config)
        """0: any number may fail."""
        self._session: pytest.Session | None = None
        self._current = ""
        self._ahead: set[str] = set()
        """Node ids of cases that failed before their turn. Only the event loop adds, only pytest's thread removes."""

    def begin(self, item: pytest.Item) -> None:
        """Learn whose turn it is."""
        self._session, self._current = item.session, item.nodeid

    def end(self, item: pytest.Item) -> None:
        """Learn that an item's turn is over: pytest has counted its failure, if it is one."""
        self._current = ""
        self._ahead.discard(item.nodeid)

    def note(self, node_id: str | None) -> None:
        """Learn of a case that did not pass."""
        if self.maximum and node_id is not None and node_id != self._current:
            self._ahead.add(node_id)

    @property
    def is_reached(self) -> bool:
        reported = self._session.testsfailed if self._session is not None else 0
        return 0 < self.maximum <= reported + len(self._ahead)


def _max_failures(config: pytest.Config) -> int:
    if config.getoption("stepwise", default=False):
        return 2 if config.getoption("stepwise_skip", default=False) else 1
    return int(config.getoption("maxfail", default=0) or 0)
