"""Gives each evaluation of a test an id of its own."""

import re
import threading
from collections.abc import Callable, Sequence

import pytest

from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.models.base import Json
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.running.items import EvalItem
from pytest_agentv.session.running.preparing import PreparedCase


class EvalIds:
    """The ids of the evaluations of one item, which may evaluate in several threads.

    An evaluation has the id that its test gives it, or the name of its test. Further ones get numbers in the order in
    which they begin. That order is not the same in each run if threads begin them. So a resumed run gives each
    evaluation the id that the same case has in the earlier run.
    """

    def __init__(self, item: pytest.Item, find_earlier: Callable[[str], Sequence[EvalResult]]) -> None:
        """`find_earlier` returns the results that an earlier run has for a node id."""
        self._item = item
        self._find_earlier = find_earlier
        # A fixture of a case in an eval file may evaluate. The result of the case has the id of the case.
        own = {item.name, item.entry.eval_id or item.name} if isinstance(item, EvalItem) else set[str]()
        self._numbered, self._claimed = {*own}, {*own}
        self._own = own
        self._thread = threading.get_ident()
        self._choosing = threading.Lock()

    @property
    def has_any(self) -> bool:
        """Whether the item has evaluated."""
        return self._numbered != self._own

    def number(self, given: Json) -> Json:
        """Return an id with the next free number. The loader reports an id that is not a text."""
        with self._choosing:
            return _add_free(self._numbered, given, given) if isinstance(given, str) else given

    def claim(self, given: Json, prepared: PreparedCase) -> PreparedCase:
        """Return a case that was prepared under its numbered id, under the id that it has in the earlier run."""
        job = prepared.job
        earlier = self._find_earlier(self._item.nodeid)
        if not earlier or not isinstance(given, str):
            return prepared
        if isinstance(job, EvalResult):
            return prepared.replace(job=job.replace(eval_id=self._claim_free(given, job.eval_id, earlier)))
        identity = job.identity.replace(
            target=effective_target_name(job.identity.target, dry_run=job.options.dry_run),
        )
        name = self._claim_same(given, identity, earlier) or self._claim_free(given, identity.eval_id, earlier)
        named = job.replace(identity=job.identity.replace(eval_id=name), case=job.case.replace(eval_id=name))
        return prepared.replace(job=named)

    def _claim_same(self, given: str, identity: CaseIdentity, earlier: Sequence[EvalResult]) -> str | None:
        """Claim the id of an earlier result of the same case; None: there is none that is free."""
        numbers = re.compile(f"{re.escape(given)}(?:-([0-9]+))?")
        wanted = identity.case_hash, identity.target
        found = [numbers.fullmatch(each.eval_id) for each in earlier if (each.case_hash, each.target) == wanted]
        with self._choosing:
            free = [match for match in found if match is not None and match[0] not in self._claimed]
            if not free:
                return None
            name = min(free, key=lambda match: int(match[1] or 1))[0]
            self._claimed.add(name)
            return name

    def _claim_free(self, given: str, name: str, earlier: Sequence[EvalResult]) -> str:
        """Claim an id for a case that is new or has changed: its own one, if no other evaluation has claimed it.

        In the thread of the test, evaluations come in order, and a changed case replaces its earlier result. In other
        threads, the id may be that of a case that comes later.
        """
        is_in_order = threading.get_ident() == self._thread
        with self._choosing:
            later = set[str]() if is_in_order else {each.eval_id for each in earlier}
            free = _add_free(self._claimed | later, given, name)
            self._claimed.add(free)
            return free


def _add_free(taken: set[str], given: str, name: str) -> str:
    """Return a name, or the given one with the first number that makes it free. Adds it to `taken`."""
    copy = 1
    while name in taken:
        copy += 1
        name = f"{given}-{copy}"
    taken.add(name)
    return name
