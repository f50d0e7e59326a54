"""Gives each item its result when its turn comes, and decides which items may begin before theirs."""

import os
import unittest
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import wait
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from pytest_agentv.engine.scheduler import Batch, BatchMember
from pytest_agentv.errors import ErrorKind, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.compat import has_same_fixtures, queued_items
from pytest_agentv.session.outcomes import RUN_ENDS, ended_text, kind_of_break, text_of_break
from pytest_agentv.session.running.case_runs import Begun
from pytest_agentv.session.running.cases import Cases
from pytest_agentv.session.running.items import OWN_FIXTURES, EvalItem
from pytest_agentv.session.running.preparing import CasePreparer, PreparedCase
from pytest_agentv.session.running.session import EvalSession
from pytest_agentv.session.showing.item_outcomes import NOTHING_ASKED, shows_answers
from pytest_agentv.session.user_hooks import bound_by, fixtures_per_case, hook_around, is_free_to_run_ahead
from pytest_agentv.session.workers import AHEAD

# Decides which items may begin before their turn.

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
        self._position = 0
        """The position of the last item that was searched for."""
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

    @property
    def _is_off(self) -> bool:
        """Whether no case may begin before its turn: nor may it in a process that ends with the current item."""
        return self._has_debugger or os.getpid() != self._process

    def remember(self, items: list[pytest.Item]) -> None:
        """Learn the items of the run, in their final order."""
        self.items = items
        self._position = self._first_new = 0

    def begin(self, next_item: pytest.Item | None) -> None:
        """Learn which item comes after the one that begins now."""
        self._next = next_item

    def after(
        self,
        item: pytest.Item,
        known: Container[object],
        *,
        reach: int | None = None,
        count: int | None = None,
    ) -> Iterator[EvalItem]:
        """Yield the following eval items that may run ahead of their turn.

        Checks the first `count` unknown items among the next `reach` items; None: all. Stops at a test in Python, and
        at an item with a hook or a fixture of its own: a case behind it must not see what it patches.
        """
        if self._is_off:
            return
        following = self._queue(reach) if self._is_worker else self._behind(item, known, reach)
        new = (case for case in _cases_until_a_test(following) if case not in known)
        for number, each in enumerate(islice(new, count)):
            if (hook := hook_around(each)) is not None:
                self.held[hook] = None
                return
            if not is_free_to_run_ahead(each) or (number == 0 and not leaves_others_alone(item)):
                return
            if _may_run_ahead(each, item):
                yield each

    def of_batch(self, item: pytest.Item, known: Container[object]) -> Iterator[EvalItem]:
        """Yield all following eval items that may run ahead, also behind tests in Python: one call answers all."""
        if self._is_off:
            return
        following = self._queue(None) if self._is_worker else self._behind(item, known, None)
        for each in following:
            if not isinstance(each, EvalItem) or each in known:
                continue
            if leaves_others_alone(each) and _may_run_ahead(each, item):
                yield each

    def _queue(self, reach: int | None) -> Iterator[pytest.Item]:
        queued = None if self._only_next else queued_items(self._config, self.items)
        if queued is None:
            queued = iter(() if self._next is None else (self._next,))
        return islice(queued, reach)

    def _find(self, item: pytest.Item) -> int:
        """Return the position of an item. It is usually near the last one, because pytest runs items in order."""
        for start in (self._position, 0):
            try:
                self._position = self.items.index(item, start)
            except ValueError:
                continue
            return self._position
        return len(self.items)

    def _behind(self, item: pytest.Item, known: Container[object], reach: int | None) -> Iterator[pytest.Item]:
        items = self.items
        start = self._find(item) + 1
        end = len(items) if reach is None else min(len(items), start + reach)
        if reach is not None and end < len(items):
            # The reach grows by steps: beginning many cases together costs a tenth less than one by one.
            end -= end % max(1, reach // _STEPS)
        start = max(start, self._first_new)
        while start < end and items[start] in known:
            start += 1
        self._first_new = start
        return map(items.__getitem__, range(start, end))


def _cases_until_a_test(items: Iterable[pytest.Item]) -> Iterator[EvalItem]:
    for item in items:
        if not isinstance(item, EvalItem):
            return
        yield item


def leaves_others_alone(item: pytest.Item) -> bool:
    """Whether an item is a case, and no hook and no fixture around it can change what other cases see."""
    return isinstance(item, EvalItem) and hook_around(item) is None and is_free_to_run_ahead(item)


def _may_run_ahead(item: EvalItem, current: pytest.Item) -> bool:
    if item.own_fixtures and not (
        isinstance(current, EvalItem) and has_same_fixtures(item, current, item.own_fixtures)
    ):
        return False
    return not any(mark.name in _CONDITIONS for mark in item.iter_markers())


# Tells which cases share a call of a target with `provider_batching`. No batch has the same id twice.


class Batches:
    """Begins the cases of such targets, each together with the following ones."""

    def __init__(
        self,
        cases: Cases,
        lookahead: Lookahead,
        preparer: CasePreparer,
        prepare: Callable[[EvalItem, EvalItem], PreparedCase],
        is_unasked: Callable[[PreparedCase], bool],
    ) -> None:
        """Take the engine's cases.

        `prepare` loads the case of an item, seen from another one, and `is_unasked` tells whether nobody asked to pay.
        """
        self._cases = cases
        self._lookahead = lookahead
        self._preparer = preparer
        self._prepare = prepare
        self._is_unasked = is_unasked

    def checked(self, item: EvalItem, prepared: PreparedCase) -> PreparedCase:
        """Return a case, or its error if the answers of its target cannot be told apart.

        A target that answers by id would answer two questions at once. It does not know which cases a process was
        given, so all items count, not only those of the batch.
        """
        other = self._namesake(item, prepared) if self._cases.paces.answers_by_id(prepared) else None
        if other is None or isinstance(prepared.job, EvalResult):
            return prepared
        identity = prepared.job.identity
        reason = (
            f"{locate(Path(other.location[0]), other.entry.line)} has the id {identity.eval_id!r} as well. Target "
            f"{identity.target!r} has `provider_batching` and answers by id, so in one folder each of its cases needs "
            "an id of its own"
        )
        broken = self._preparer.broken(item.suite, item.entry, item.nodeid, "config", reason)
        return prepared.replace(job=broken.job, folder=broken.folder)

    def begin(self, item: EvalItem, prepared: PreparedCase) -> Iterator[Begun]:
        """Begin the cases that share calls. Repeated cases share one call per answer."""
        cases = {item: prepared} | self._followers(item, prepared)
        for each, members in zip(cases, _members([*cases.values()], self._cases.paces.limit(prepared)), strict=True):
            yield self._cases.begin(each, cases[each], members)

    def _followers(self, item: EvalItem, prepared: PreparedCase) -> dict[EvalItem, PreparedCase]:
        """Return the other cases of an item's batch: those in its folder with the same target."""
        assert not isinstance(prepared.job, EvalResult)
        identity, folder = prepared.job.identity, item.path.parent
        candidates = [each for each in self._lookahead.of_batch(item, self._cases) if each.path.parent == folder]
        ids = {identity.eval_id}
        found: dict[EvalItem, PreparedCase] = {}
        for following in candidates:
            case = self._prepare(following, item)
            if isinstance(case.job, EvalResult) or case.job.identity.target != identity.target:
                continue
            eval_id = case.job.identity.eval_id
            if case.own.replace_target or self._is_unasked(case):
                continue
            if eval_id in ids or self.checked(following, case) is not case:
                continue  # of those with the same id, the second goes into the next batch
            ids.add(eval_id)
            found[following] = case
        return found

    def _namesake(self, item: EvalItem, prepared: PreparedCase) -> EvalItem | None:
        """Return another case in the folder with the same id and the same target."""
        assert not isinstance(prepared.job, EvalResult)
        target = prepared.job.identity.target
        same = self._by_id[item.path.parent, item.entry.eval_id]
        others = (each for each in same if each is not item)
        return next((each for each in others if self._preparer.target_of(each.suite, each.entry) == target), None)

    @cached_property
    def _by_id(self) -> dict[tuple[Path, str | None], list[EvalItem]]:
        """The items of each folder and id that are to run."""
        items: dict[tuple[Path, str | None], list[EvalItem]] = defaultdict(list)
        for item in self._lookahead.items:
            if isinstance(item, EvalItem) and item.get_closest_marker("skip") is None:
                items[item.path.parent, item.entry.eval_id].append(item)
        return items


def _members(cases: Sequence[PreparedCase], limit: int) -> list[tuple[BatchMember, ...]]:
    """Return the places of each case in the calls for its answers."""
    counts = [prepared.repeat for prepared in cases]
    batches = [Batch(sum(count > number for count in counts), limit) for number in range(max(counts))]
    return [tuple(BatchMember(batch, place) for batch in batches[:count]) for place, count in enumerate(counts)]


# Gives each item its result when its turn comes, and begins the cases of the following items ahead.

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
        is_shown = result.status == "fail" or shows_answers(item.config)
        item.asked = begun.asked if is_shown else NOTHING_ASKED
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
