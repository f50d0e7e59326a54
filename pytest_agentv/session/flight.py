"""Hands the cases of items to the engine, waits for them and ends them. No other module does.

Three threads take part in a process that runs evals:

- pytest's thread owns items, `Flight`, `Lookahead` and the terminal. Threads that a test starts may call
  `Flight.begin`, `wait` and `end` as well, through the fixture `agentv`.
- The thread `agentv` runs the event loop of `LoopThread`. It owns targets, providers and the coroutines of `CaseRuns`,
  and must never block: code of users that may block runs in threads of its own.
- The thread `agentv-results` belongs to `Recorder` and alone writes to the results file.

Other threads reach the loop through `LoopThread.submit`, `run` and `call` only. The loop's own thread must not wait for
cases: `LoopThread.refuse_own_thread` raises there. `Scheduler` may be used from any thread; it has a lock.

A cancellation goes from the item to the process:

1. Something ends the item while it waits: a time-out, `pytest.exit`, Ctrl-C. `Flight.take` sees the exception.
2. `Flight.end` asks the case's `Ending`, which calls `task.cancel()` on the loop. When the run ends, all tasks are
   cancelled at the same time.
3. `CancelledError` rises through `run_case` to the provider, and there to `run_process`, which ends the process group.
4. `CaseRuns.run` records the case as an error of the kind `cancelled`. Its future is done, and pytest's thread goes on.

A case that was begun ahead and whose item is skipped takes the same way through `Flight._give_up`, but gets no result.
"""

import sys
import threading
import unittest
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent.futures import CancelledError, wait
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.scheduler import Batch, BatchMember, Scheduler
from pytest_agentv.errors import ErrorKind, LoopStartError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.options import MAX_WORKERS
from pytest_agentv.model.results import EvalResult
from pytest_agentv.runtime.loop import STOP_SECONDS, wait_for
from pytest_agentv.session.case_runs import Begun, Ending, lost_text
from pytest_agentv.session.items import OWN_FIXTURES, EvalItem
from pytest_agentv.session.lookahead import Lookahead, leaves_others_alone
from pytest_agentv.session.outcomes import (
    NOTHING_ASKED,
    RUN_ENDS,
    ended_text,
    kind_of_break,
    shows_answers,
    text_of_break,
)
from pytest_agentv.session.plan import PreparedCase
from pytest_agentv.session.session import EvalSession
from pytest_agentv.session.user_hooks import bound_by, fixtures_per_case
from pytest_agentv.session.workers import AHEAD

if TYPE_CHECKING:
    from pytest_agentv.session.repeats import RepeatedCase

LOG_SECTION: Final = "agentv log"
_SKIPPED: Final = (pytest.skip.Exception, unittest.SkipTest, pytest.xfail.Exception)
_REACH = 1000
"""How many items after the current one may be begun. So a slow case blocks only one place, and memory is limited."""
_LOOK_SECONDS: Final = 0.1
"""How often a wait looks whether the run stops."""
_ALL_TARGETS: Final = ""
"""The group of all cases when `--agentv-workers` counts them together."""
_BATCHES: Final = "batches"
_NO_CALLS: Final = "no calls"
"""The group of cases without calls: broken ones and carried-over ones."""


class Flight:
    """What is in flight: starts cases, waits for them and cancels them.

    The current item's case is begun after its fixtures are set up. Then the cases of the following items are begun, if
    they may run ahead. pytest still sees a sequence: each item waits for its own case.
    """

    def __init__(self, session: EvalSession, lookahead: Lookahead) -> None:
        self._session = session
        self._lookahead = lookahead
        self._loop = session.loop
        self._planner = session.planner
        self._recorder = session.recorder
        self._stopping = session.stopping
        self._progress = session.progress
        self._runs = session.runs
        self.scheduler: Scheduler[EvalResult] = Scheduler(self._loop, may_start=lambda: self._stopping.runs_on)
        self._beginning = threading.Lock()  # one test may begin cases in several threads
        self.ahead: dict[Hashable, Begun] = {}
        """Cases that were begun and not awaited yet. Others only look."""
        self._known: Counter[Hashable] = Counter()
        """How often each case was begun in this run."""
        self._widest = 1
        """The highest limit so far. The targets of following items may have a higher limit."""
        self.places = 1
        """How many cases may be in flight here; 1 until a case is begun ahead of its turn."""

    def __contains__(self, key: object) -> bool:
        """Whether a case was begun in this run at least once."""
        return key in self._known

    # The turn of an item.

    def let_others_end(self, item: pytest.Item) -> None:
        """Wait for the cases in flight before an item that may patch what they use: those of a batch are behind it."""
        ahead = tuple(self.ahead.values())
        if not ahead or item in self or leaves_others_alone(item):
            return
        for begun in ahead:
            while self._stopping.runs_on and not begun.future.done():
                self._stopping.end_without_parent()
                wait((begun.future,), timeout=_LOOK_SECONDS)

    def take(self, item: EvalItem) -> EvalResult:
        """Return the result of an item's case. A rerun of the item runs its case again."""
        begun = self.ahead.pop(item, None) or self._begin_now(item)
        result = self._wait_for(item, begun)
        if self._session.options.baseline is not None:
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
            self._begin_item(item, prepared)
        except pytest.fail.Exception as error:  # of pytest-timeout: no user code runs in this thread
            item.was_ended = True
            self._give_up(item, error, "cancelled", ended_text(error))
            raise
        return self.ahead.pop(item)

    def _confirmed(self, item: EvalItem, result: EvalResult) -> EvalResult:
        """Return the result with fresh answers, if it looks broken."""
        again = self.confirm(result, lambda: self._prepare(item, item))
        if again is None:
            return result
        try:
            item.result = self.wait(again, lambda: self._run_ahead(item, again))
        except BaseException as error:  # the case is judged already
            self.end(again, ended_text(error), is_run_ending=isinstance(error, RUN_ENDS))
            if not isinstance(error, pytest.fail.Exception):
                raise
        finally:
            if again.log.lines:
                item.add_report_section("setup", LOG_SECTION, again.log.text)
        return item.result or result

    def _wait_for(self, item: EvalItem, begun: Begun) -> EvalResult:
        """Wait for an item's case, and begin the following cases meanwhile."""
        try:
            item.result = self.wait(begun, lambda: self._run_ahead(item, begun))
        except BaseException as error:
            item.was_ended = True  # a second Ctrl-C may come while the case ends
            item.result = self._end_item(item, begun, error)
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
        """Record a case whose item does not wait for it. One that ran ahead keeps its result if the whole run ends."""
        begun, is_run_ending = self.ahead.pop(item, None), isinstance(error, RUN_ENDS)
        if begun is not None:
            if is_run_ending and begun.result is not None:
                item.result = begun.result
                return
            self._stopping.is_ending |= is_run_ending  # so that no other case takes its place
            if not self.scheduler.drop(begun.future):
                begun.ending.ask(self._loop, None)
        if not isinstance(error, _SKIPPED):
            item.result = self._record_broken(item, kind, reason)

    def _end_item(self, item: EvalItem, begun: Begun, error: BaseException) -> EvalResult | None:
        """Cancel the case of an item that was ended while it waited.

        A judged case keeps its result if a time-out comes too late, or if the whole run ends.
        """
        reason, is_run_ending = ended_text(error), isinstance(error, RUN_ENDS)
        known = begun.result
        result = known or self.end(begun, reason, is_run_ending=is_run_ending)
        is_too_late = isinstance(error, pytest.fail.Exception) and (known is not None or begun.ending.is_too_late)
        if result is not None and (is_run_ending or is_too_late or result.status == "error"):
            return result
        return self._record_broken(item, "cancelled", reason)

    def _record_broken(self, item: EvalItem, kind: ErrorKind, reason: str) -> EvalResult | None:
        """Write the result of a case that cannot be run and return it; None: the run has ended."""
        prepared = self._session.preparer.broken(item.suite, item.entry, item.nodeid, kind, reason)
        begun = self._submit(prepared.replace(hooks=self._session.user_hooks.of(item)), (), reruns=1)
        self.scheduler.start_now(begun.future)
        return _result_soon(begun)

    def _prepare(self, item: EvalItem, current: EvalItem) -> PreparedCase:
        """Load an item's case. An exception becomes an error of this item, not of the current one."""
        hooks, preparer = self._session.user_hooks, self._session.preparer
        try:
            prepared = preparer.prepare(item.suite, item.entry, item.nodeid, lambda case: hooks.adjust(item, case))
        except Exception as error:  # noqa: BLE001 - whatever it is, its case reports it
            self._session.learn_secrets(folder_of(item.path))
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

    # Items whose cases begin before their turn.

    def _begin_ahead(self, item: EvalItem, current: EvalItem) -> None:
        prepared = self._prepare(item, current)
        if self._session.is_unasked(prepared):
            item.add_marker(pytest.mark.skip(reason=self._session.asking.reason))
            return
        self.places = self._widest
        self._begin_item(item, prepared)

    def _begin_item(self, item: EvalItem, prepared: PreparedCase) -> None:
        """Begin an item's case, together with those that share its call."""
        planned = self._planner.plan(prepared)
        if planned.pace is not None and planned.pace.is_batched:
            planned = self._checked(item, planned)
            if not isinstance(planned.job, EvalResult) and item not in self:
                cases = {item: planned} | self._followers(item, planned)
                members = _members([*cases.values()], self._planner.limit(planned))
                for each, places in zip(cases, members, strict=True):
                    self._widest = max(self._widest, self.begin(each, cases[each], places).limit)
                return
        self._widest = max(self._widest, self.begin(item, planned).limit)

    def _run_ahead(self, item: EvalItem, begun: Begun) -> None:
        """Begin the cases after an item. Called at its turn, and repeatedly while it waits."""
        if begun.limit == 1 or not self._stopping.runs_on:
            return
        reach = self._widest if self._stopping.failures.maximum else _REACH
        free = AHEAD * self._widest - self.scheduler.unfinished
        for following in self._lookahead.after(item, self, reach=reach, count=max(0, free)):
            self._begin_ahead(following, item)

    # Cases that share a call of a target with `provider_batching`. No batch has the same id twice.

    def _checked(self, item: EvalItem, prepared: PreparedCase) -> PreparedCase:
        """Return a case, or its error if the answers of its target cannot be told apart.

        A target that answers by id would answer two questions at once. It does not know which cases a process was
        given, so all items count, not only those of the batch.
        """
        if isinstance(prepared.job, EvalResult) or prepared.pace is None or not prepared.pace.is_by_id:
            return prepared
        identity, preparer = prepared.job.identity, self._session.preparer
        same = (each for each in self._by_id[item.path.parent, item.entry.eval_id] if each is not item)
        other = next((each for each in same if preparer.target_of(each.suite, each.entry) == identity.target), None)
        if other is None:
            return prepared
        reason = (
            f"{locate(Path(other.location[0]), other.entry.line)} has the id {identity.eval_id!r} as well. Target "
            f"{identity.target!r} has `provider_batching` and answers by id, so in one folder each of its cases needs "
            "an id of its own"
        )
        broken = preparer.broken(item.suite, item.entry, item.nodeid, "config", reason)
        return prepared.replace(job=broken.job)

    def _followers(self, item: EvalItem, prepared: PreparedCase) -> dict[EvalItem, PreparedCase]:
        """Return the other cases of an item's batch: those in its folder with the same target."""
        assert not isinstance(prepared.job, EvalResult)
        identity, folder = prepared.job.identity, item.path.parent
        candidates = [each for each in self._lookahead.of_batch(item, self) if each.path.parent == folder]
        ids = {identity.eval_id}
        found: dict[EvalItem, PreparedCase] = {}
        for following in candidates:
            case = self._planner.plan(self._prepare(following, item))
            if isinstance(case.job, EvalResult) or case.job.identity.target != identity.target:
                continue
            eval_id = case.job.identity.eval_id
            if case.own.replace_target or self._session.is_unasked(case):
                continue
            if eval_id in ids or self._checked(following, case) is not case:
                continue  # of those with the same id, the second goes into the next batch
            ids.add(eval_id)
            found[following] = case
        return found

    @cached_property
    def _by_id(self) -> dict[tuple[Path, str | None], list[EvalItem]]:
        """The items of each folder and id that are to run."""
        items: dict[tuple[Path, str | None], list[EvalItem]] = defaultdict(list)
        for item in self._lookahead.items:
            if isinstance(item, EvalItem) and item.get_closest_marker("skip") is None:
                items[item.path.parent, item.entry.eval_id].append(item)
        return items

    # Cases of items, of tests that evaluate, and of runs that confirm a result.

    def begin(self, key: Hashable, prepared: PreparedCase, members: Sequence[BatchMember] = ()) -> Begun:
        """Hand a case to the engine, which starts it when a place is free. A case that was begun before is asked again.

        `members` are its places in batches, one for each answer.
        """
        with self._beginning:
            begun = self.ahead[key] = self._submit(prepared, members, reruns=self._known[key])
            self._known[key] += 1  # only now: a time-out may end `_submit`, and the case has not begun then
        if members:
            self._start_now(begun)  # the other cases of its batch wait for each member
        return begun

    def confirm(self, result: EvalResult, prepare: Callable[[], PreparedCase]) -> Begun | None:
        """Start to ask a case again whose result looks broken; None: it does not, or nobody judges."""
        judged = self._session.judged
        if judged is None or result.status == "error":
            return None
        answers = judged.fresh_answers(result, self._stopping.failures.maximum)
        planned = self._planner.plan(prepare()) if answers else None
        if planned is None or isinstance(planned.job, EvalResult):
            return None
        ending, again = Ending(), self._repeated(planned, planned.job, (), more=answers)
        running = self._loop.submit(self._runs.confirm(lambda: again.confirmed(result), planned, ending))
        return Begun.of(running, self._planner.limit(planned), planned, ending, hurry=again.hurry)

    def wait(self, begun: Begun, while_waiting: Callable[[], None] = lambda: None) -> EvalResult:
        """Start a case now, ignoring the limit, because its turn has come. Wait for its result."""
        self._loop.refuse_own_thread()
        self._stopping.end_without_parent()
        self._start_now(begun)
        while_waiting()
        if not begun.future.done():
            self._progress.show_again(self.scheduler.in_flight)

        def look_around() -> None:
            self._stopping.end_without_parent()
            while_waiting()
            self._progress.show(self.scheduler.in_flight)

        try:
            result = wait_for(begun.future, look_around)
        finally:
            self._progress.clear()
            begun.log.print_again()
        return result

    def end(self, begun: Begun, reason: str, *, is_run_ending: bool = False) -> EvalResult | None:
        """Cancel a case whose item was ended, and return its result; None: it did not end in time.

        If the whole run ends, all cases are cancelled together, because each may take a moment.
        """
        self._loop.refuse_own_thread()
        self._stopping.is_ending |= is_run_ending
        begun.ending.ask(self._loop, reason)
        if is_run_ending:
            self._loop.cancel_all()
        self._progress.clear()
        return _result_soon(begun)

    def _start_now(self, begun: Begun) -> None:
        if begun.hurry is None:
            self.scheduler.start_now(begun.future)
        else:
            begun.hurry()

    def _submit(self, prepared: PreparedCase, members: Sequence[BatchMember], *, reruns: int) -> Begun:
        self._recorder.probe()
        try:
            self._loop.running_loop()
        except LoopStartError as error:
            return self._runs.give_up_here(prepared, str(error))
        planned = self._planner.plan(prepared)
        if self._recorder.error is not None and not members:  # the other cases of a batch wait for each member
            planned = planned.replace(job=planned.given_up(lost_text(self._recorder.error)))
        runs, job, ending = self._runs, planned.job, Ending()
        if isinstance(job, EvalResult):
            return self._submit_plain(partial(runs.give_up, job, planned), planned)
        job = job.replace(reruns=reruns) if reruns else job
        carried = None if reruns else self._session.finished.take(job, planned.repeat)
        if carried is not None:
            return self._submit_plain(partial(runs.carry_over, carried, planned, members), planned)
        limit = self._planner.limit(planned)
        if planned.repeat > 1:
            repeated = self._repeated(planned, job, members)
            answers = partial(repeated.result, with_answers=job.options.include_answers)
            running = self._loop.submit(runs.run(job, planned, ending, members=members, answers=answers))
            return Begun.of(running, limit, planned, ending, hurry=repeated.hurry)
        group, places = self._place(planned, members)
        future = self.scheduler.submit(
            lambda leave: runs.run(job, planned, ending, members=members, leave=leave),
            group=group,
            limit=places,
        )
        return Begun.of(future, limit, planned, ending)

    def _submit_plain(self, start: Callable[[], Coroutine[Any, Any, EvalResult]], planned: PreparedCase) -> Begun:
        """Begin a case without calls: a broken one, or one that is carried over."""
        future = self.scheduler.submit(lambda _: start(), group=_NO_CALLS, limit=MAX_WORKERS)
        return Begun.of(future, 1, planned)

    def _repeated(
        self, planned: PreparedCase, job: CaseJob, members: Sequence[BatchMember], *, more: int = 0
    ) -> "RepeatedCase":
        """Return the answers that judge a case, or `more` answers of it. `members` are their places in batches."""
        from pytest_agentv.session.repeats import RepeatedCase  # noqa: PLC0415 - only for repeated cases

        if job.reruns:
            message = f"all {job.repeat} answers are asked anew, as often as a plugin reruns the case until it passes"
            hint = "`min_pass_rate` says how many may fail"
            problem = Problem(Path(job.case.path), job.case.line, job.case.eval_id, message, hint, level="warning")
            self._session.pool.warn_once(problem, "reruns")
        store, identity = self._session.store, job.identity

        def ask(number: int) -> Coroutine[Any, Any, EvalResult]:
            member = members[number] if number < len(members) else None
            return self._runs.answer(job.replace(answer=number), planned, member)

        def stored() -> frozenset[int]:
            if store is None or job.reruns:
                return frozenset()
            return store.numbers(identity.node_id, identity.eval_id)

        return RepeatedCase(self.scheduler, job, ask, *self._place(planned, members), more, bool(members), stored)

    def _place(self, planned: PreparedCase, members: Sequence[BatchMember]) -> tuple[str, int]:
        """Return where a case queues, with the limit there: with its target's cases, unless it is a part of batches."""
        if members:
            return _BATCHES, sys.maxsize
        job = planned.job
        assert not isinstance(job, EvalResult)
        group = _ALL_TARGETS if job.options.workers else job.identity.target
        return group, self._planner.limit(planned)


def _result_soon(begun: Begun) -> EvalResult | None:
    try:
        return begun.future.result(timeout=STOP_SECONDS)
    except (TimeoutError, CancelledError):
        return None
    finally:
        begun.log.print_again()


def _members(cases: Sequence[PreparedCase], limit: int) -> list[tuple[BatchMember, ...]]:
    """Return the places of cases in batches. Repeated cases share one call per answer."""
    counts = [prepared.repeat for prepared in cases]
    batches = [Batch(sum(count > number for count in counts), limit) for number in range(max(counts))]
    return [tuple(BatchMember(batch, place) for batch in batches[:count]) for place, count in enumerate(counts)]
