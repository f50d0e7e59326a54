"""Gives each item its result when its turn comes, and begins the cases of the following items ahead."""

import unittest
from concurrent.futures import wait
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from pytest_agentv.errors import ErrorKind
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.conftests import bound_by, fixtures_per_case
from pytest_agentv.session.outcomes import RUN_ENDS, ended_text, kind_of_break, text_of_break
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.eval_session import EvalSession
from pytest_agentv.session.running.items import EvalItem
from pytest_agentv.session.running.lookahead import Lookahead, leaves_others_alone
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.running.target_caller import OWN_FIXTURES
from pytest_agentv.session.showing.asked import NOTHING_ASKED
from pytest_agentv.session.workers.shares import AHEAD

if TYPE_CHECKING:  # only for batches
    from pytest_agentv.session.running.batches import Batches

LOG_SECTION: Final = "agentv log"
_SKIPPED: Final = (pytest.skip.Exception, unittest.SkipTest, pytest.xfail.Exception)
_REACH = 1000
"""How many items after the current one may be begun. So a slow case blocks only one place, and memory is limited."""
_LOOK_SECONDS: Final = 0.1
"""How often a wait looks whether the run stops."""
_Target: TypeAlias = tuple[Path, str]
"""The folder of eval files, and the name of a target there."""


class Turns:
    """Hands the cases of the run's items to the engine.

    The current item's case is begun after its fixtures are set up. Then the cases of the following items are begun, if
    they may run ahead. pytest still sees a sequence: each item waits for its own case.
    """

    def __init__(self, session: EvalSession, lookahead: Lookahead) -> None:
        self._session = session
        self._cases = session.cases
        self._lookahead = lookahead
        self._widest = 1
        """The highest limit so far. The targets of following items may have a higher limit."""
        self.places = 1
        """How many cases may be in flight here; 1 until a case is begun ahead of its turn."""
        self._limits: dict[_Target, int] = {}
        """The limits of the targets in matrices."""
        self._matrices: dict[Path, frozenset[_Target]] = {}
        """The targets of eval files with a matrix."""

    def let_others_end(self, item: pytest.Item) -> None:
        """Wait for the cases in flight before an item that may patch what they use: those of a batch are behind it."""
        ahead = tuple(self._cases.ahead.values())
        if not ahead or item in self._cases or leaves_others_alone(item):
            return
        for begun in ahead:
            while self._session.stopping.runs_on and not begun.future.done():
                self._session.stopping.end_without_parent()
                wait((begun.future,), timeout=_LOOK_SECONDS)

    def take(self, item: EvalItem) -> EvalResult:
        """Return the result of an item's case. A rerun of the item runs its case again."""
        begun = self._cases.take(item)
        if begun is None:
            begun = self._begin_now(item)
        result = self._wait(item, begun)
        if self._session.options.baseline is not None and (item.own_fixtures or bound_by(item)):
            result = self._confirmed(item, result)
        item.asked = begun.asked if result.status == "fail" else NOTHING_ASKED
        self._session.show_warnings(begun)
        return result

    def _begin_now(self, item: EvalItem) -> Begun:
        """Begin the case of the current item. A time-out during this call has the same effect as one while it runs."""
        prepared = self._prepare(item, item)
        if self._session.is_unasked(prepared):
            raise pytest.skip.Exception(self._session.asking.reason, _use_item_location=True)
        try:
            self._begin(item, prepared)
        except pytest.fail.Exception as error:  # of pytest-timeout: no user code runs in this thread
            item.was_ended = True
            self._give_up(item, error, "cancelled", ended_text(error))
            raise
        begun = self._cases.take(item)
        assert begun is not None
        return begun

    def _confirmed(self, item: EvalItem, result: EvalResult) -> EvalResult:
        """Return the result with fresh answers, if it looks broken. Other cases get fresh answers after their items."""
        again = self._session.begin_again(item.config, result, lambda: self._prepare(item, item))
        if again is None:
            return result
        try:
            item.result = self._cases.wait(again, lambda: self._run_ahead(item, again))
        except BaseException as error:  # the case is judged already
            self._cases.end(again, ended_text(error), is_run_ending=isinstance(error, RUN_ENDS))
            if not isinstance(error, pytest.fail.Exception):
                raise
        finally:
            if again.log.lines:
                item.add_report_section("setup", LOG_SECTION, again.log.text)
        return item.result or result

    def _wait(self, item: EvalItem, begun: Begun) -> EvalResult:
        """Wait for an item's case, and begin the following cases meanwhile."""
        try:
            item.result = self._cases.wait(begun, lambda: self._run_ahead(item, begun))
        except BaseException as error:
            item.was_ended = True  # a second Ctrl-C may come while the case ends
            item.result = self._end(item, begun, error)
            if item.result is None or item.result.status == "error" or not isinstance(error, pytest.fail.Exception):
                raise
            item.was_ended = False
        finally:
            if begun.log.lines:
                item.add_report_section("setup", LOG_SECTION, begun.log.text)
        return item.result

    def break_off(self, item: EvalItem, error: BaseException) -> None:
        """Record the case of an item whose set-up failed before its case ran, unless the item is skipped."""
        if item.result is None and not item.was_ended:
            self._give_up(item, error, kind_of_break(error), text_of_break(error))

    def _give_up(self, item: EvalItem, error: BaseException, kind: ErrorKind, reason: str) -> None:
        """Record a case whose item does not wait for it.

        If the whole run ends, a case that ran ahead keeps its result: pytest reports nothing about the item.
        """
        begun, is_run_ending = self._cases.take(item), isinstance(error, RUN_ENDS)
        if begun is not None:
            if is_run_ending and begun.result is not None:
                item.result = begun.result
                return
            self._cases.drop(begun, is_run_ending=is_run_ending)
        if not isinstance(error, _SKIPPED):
            item.result = self._record_broken(item, kind, reason)

    def _end(self, item: EvalItem, begun: Begun, error: BaseException) -> EvalResult | None:
        """Cancel the case of an item that was ended while it waited.

        The result is an error, like the item. A judged case keeps its result if a time-out comes too late, or if the
        whole run ends: pytest reports nothing about the item then.
        """
        reason, is_run_ending = ended_text(error), isinstance(error, RUN_ENDS)
        known = begun.result
        result = known or self._cases.end(begun, reason, is_run_ending=is_run_ending)
        is_too_late = isinstance(error, pytest.fail.Exception) and (known is not None or begun.ending.is_too_late)
        if result is not None and (is_run_ending or is_too_late or result.status == "error"):
            return result
        return self._record_broken(item, "cancelled", reason)

    def _record_broken(self, item: EvalItem, kind: ErrorKind, reason: str) -> EvalResult | None:
        prepared = self._session.preparer.broken(item.suite, item.entry, item.nodeid, kind, reason)
        return self._cases.record(prepared.replace(hooks=self._session.user_hooks.of(item)))

    @cached_property
    def _batches(self) -> "Batches":
        """What only targets that take batches need."""
        from pytest_agentv.session.running.batches import Batches  # noqa: PLC0415

        return Batches(self._cases, self._lookahead, self._session.preparer, self._prepare, self._session.is_unasked)

    def _begin_ahead(self, item: EvalItem, current: EvalItem) -> None:
        prepared = self._prepare(item, current)
        if self._session.is_unasked(prepared):
            item.add_marker(pytest.mark.skip(reason=self._session.asking.reason))
            return
        self.places = self._widest
        self._begin(item, prepared)

    def _begin(self, item: EvalItem, prepared: PreparedCase) -> None:
        """Begin an item's case."""
        if self._cases.paces.is_batched(prepared):
            prepared = self._batches.checked(item, prepared)
            if not isinstance(prepared.job, EvalResult) and item not in self._cases:
                for begun in self._batches.begin(item, prepared):
                    self._note(begun)
                return
        self._note(self._cases.begin(item, prepared))

    def _run_ahead(self, item: EvalItem, begun: Begun) -> None:
        """Begin the cases after an item. Called at its turn, and repeatedly while it waits."""
        if not self._session.stopping.runs_on:
            return
        if begun.limit == 1:
            self._run_wider_targets(item)
            return
        reach = self._widest if self._session.failures.maximum else _REACH
        free = AHEAD * self._widest - self._cases.unfinished
        for following in self._lookahead.after(item, self._cases, reach=reach, count=max(0, free)):
            self._begin_ahead(following, item)

    def _run_wider_targets(self, item: EvalItem) -> None:
        """Begin cases of a matrix whose targets allow several cases, while a target with one place is busy."""
        others = self._targets_of(item)
        if len(others) < 2 or all(self._limits.get(target, 2) == 1 for target in others):
            return
        reach = self._widest if self._session.failures.maximum else _REACH
        for following in self._lookahead.after(item, self._cases, reach=reach):
            if self._is_wide(following, item):
                if self._cases.unfinished >= AHEAD * self._widest:
                    return
                self._begin_ahead(following, item)

    def _targets_of(self, item: EvalItem) -> frozenset[_Target]:
        """Return the targets of the item's matrix."""
        if item.matrix_target is None:
            return frozenset()
        if item.path not in self._matrices:
            combinations = (entry.combination for entry in item.suite.entries)
            names = {each.target for each in combinations if each is not None and each.target is not None}
            self._matrices[item.path] = frozenset((item.path.parent, name) for name in names)
        return self._matrices[item.path]

    def _is_wide(self, item: EvalItem, current: EvalItem) -> bool:
        """Whether the target of a combination allows several cases at a time. Asked once per target."""
        target = item.matrix_target
        if target is None:
            return False
        if target not in self._limits:
            prepared = self._prepare(item, current)
            if isinstance(prepared.job, EvalResult):
                return False
            self._limits[target] = self._cases.paces.limit(prepared)
            self._widest = max(self._widest, self._limits[target])
        return self._limits[target] > 1

    def _note(self, begun: Begun) -> None:
        self._widest = max(self._widest, begun.limit)

    def _prepare(self, item: EvalItem, current: EvalItem) -> PreparedCase:
        """Load an item's case. An exception becomes an error of this item, not of the current one."""
        hooks, preparer = self._session.user_hooks, self._session.preparer
        try:
            prepared = preparer.prepare(item.suite, item.entry, item.nodeid, lambda case: hooks.adjust(item, case))
        except Exception as error:  # noqa: BLE001 - whatever it is, its case reports it
            text = f"the case cannot be loaded: {text_of_break(error)}"
            prepared = preparer.broken(item.suite, item.entry, item.nodeid, kind_of_break(error), text)
        if prepared.repeat > 1 and (names := [each for each in fixtures_per_case(item) if each not in OWN_FIXTURES]):
            message = (
                f"fixtures are set up once per case, so an answer finds what earlier ones left: {', '.join(names)}"
            )
            warning = Problem(item.path, None, "", message, level="warning")  # names no case: it is shown once
            prepared = prepared.replace(problems=(*prepared.problems, warning))
        bound = None if self._session.away is None else bound_by(item)  # nobody asks without an executor
        own = current.overrides(item.own_fixtures)
        return prepared.marked(item).replace(hooks=hooks.of(item), own=own, bound_by=bound)
