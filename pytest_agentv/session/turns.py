"""Gives each item its result when its turn comes, and lets the items behind it run ahead."""

from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.eval_session import Begun, EvalSession
from pytest_agentv.session.items import EvalItem
from pytest_agentv.session.lookahead import Lookahead

_LOOKAHEAD = 2
"""How many times the limit may be begun ahead: enough to keep every place busy behind a slow case."""


class Turns:
    """Feeds the engine from the items of the run.

    An item whose turn has come is begun after its fixtures are set up; then those that follow it are begun, as far
    as they may run ahead. What pytest sees stays sequential: each item waits for its own case.
    """

    def __init__(self, session: EvalSession, lookahead: Lookahead) -> None:
        self._session = session
        self._lookahead = lookahead
        self._begun: dict[EvalItem, Begun] = {}

    def take(self, item: EvalItem) -> EvalResult:
        """Return the result of an item's case. A rerun of the item is a case of its own."""
        begun = self._begun.pop(item, None) or self._begin(item)
        self._session.urge(begun)
        self._run_ahead(item, begun.limit)
        return self._session.finish_case(begun)

    def _run_ahead(self, item: EvalItem, limit: int) -> None:
        if limit == 1 or self._session.stop_reason is not None:
            return
        count = limit if self._session.max_failures else _LOOKAHEAD * limit
        for following in self._lookahead.after(item, count):
            if following not in self._begun and following.result is None:
                self._begun[following] = self._begin(following)

    def _begin(self, item: EvalItem) -> Begun:
        return self._session.begin(item.suite, item.entry, item.nodeid)
