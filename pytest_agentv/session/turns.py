"""Gives each item its result when its turn comes, and lets the items behind it run ahead."""

from pytest_agentv.engine.batching import Batch, BatchMember
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.eval_session import Begun, EvalSession
from pytest_agentv.session.items import EvalItem
from pytest_agentv.session.lookahead import Lookahead
from pytest_agentv.session.preparing import PreparedCase

LOG_SECTION = "agentv log"
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
        self._taken: set[EvalItem] = set()

    def take(self, item: EvalItem) -> EvalResult:
        """Return the result of an item's case. A rerun of the item is a case of its own."""
        if item not in self._begun:
            self._begin(item)
        self._taken.add(item)
        begun = self._begun.pop(item)
        self._session.urge(begun)
        self._run_ahead(item, begun.limit)
        try:
            return self._session.finish_case(begun)
        finally:
            if begun.log.lines:
                item.add_report_section("setup", LOG_SECTION, begun.log.text)

    def _begin(self, item: EvalItem) -> None:
        prepared = self._prepare(item)
        job = prepared.job
        if not isinstance(job, EvalResult) and self._session.pace(job).is_batched and item not in self._taken:
            self._begin_batch({item: prepared} | self._followers(item, job.identity.target), self._session.limit(job))
        else:
            self._begun[item] = self._session.begin(prepared)

    def _run_ahead(self, item: EvalItem, limit: int) -> None:
        if limit == 1 or self._session.stop_reason is not None:
            return
        count = limit if self._session.max_failures else _LOOKAHEAD * limit
        for following in self._lookahead.after(item, count):
            if not self._is_known(following):
                self._begun[following] = self._session.begin(self._prepare(following))

    def _begin_batch(self, cases: dict[EvalItem, PreparedCase], limit: int) -> None:
        batch = Batch(len(cases), limit)
        for place, (item, prepared) in enumerate(cases.items()):
            self._begun[item] = self._session.begin(prepared, BatchMember(batch, place))

    def _followers(self, item: EvalItem, target: str) -> dict[EvalItem, PreparedCase]:
        """Return the cases that go into one batch with an item's: those of its folder with the same target."""
        folder = item.path.parent
        candidates = (
            following
            for following in self._lookahead.after(item, None)
            if following.path.parent == folder and not self._is_known(following)
        )
        prepared = {following: self._prepare(following) for following in candidates}
        return {
            following: case
            for following, case in prepared.items()
            if not isinstance(case.job, EvalResult) and case.job.identity.target == target
        }

    def _is_known(self, item: EvalItem) -> bool:
        return item in self._begun or item in self._taken

    def _prepare(self, item: EvalItem) -> PreparedCase:
        return self._session.preparer.prepare(item.suite, item.entry, item.nodeid)
