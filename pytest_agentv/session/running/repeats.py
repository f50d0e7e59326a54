"""Runs cases with several answers, from a job to the one result that its answers make."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.judging import rejudged
from pytest_agentv.engine.repeats import RepeatPlan, combine_answers, confirmed_by, is_set_up_error
from pytest_agentv.engine.results import effective_threshold
from pytest_agentv.engine.scheduler import BatchMember, Leave, Queuer, Scheduler
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.recording.resume import AnswerJournal, FinishedCases, Kept, current_names_and_rules

# Asks for the answers of one case, through the scheduler of all cases.

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, EvalResult]]
"""Asks for the answer of a number, 0-based, journals it and returns its result. Raises only for a cancellation."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The queue of the answers of a case."""

    scheduler: Scheduler[EvalResult]
    group: str
    limit: int
    """How many answers and cases of the group may be in flight."""
    is_batched: bool = False
    """Whether each answer goes into a call with those of other cases."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers of a case."""

    results: tuple[EvalResult, ...]
    """In the order of the answers."""
    together: bool
    """Whether all were asked at once, without waiting for the verdict on others."""


class Answers:
    """The answers of one case. Each is a job of the scheduler, and counts as one in flight.

    First, the answers that the verdict needs in any case are asked at once; then those that it still needs, until it is
    certain. If there are free places for all answers, all are asked at once, because nobody else needs these places.
    """

    def __init__(
        self, lane: Lane, plan: RepeatPlan, ask: Ask, numbers: Iterable[int], known: Mapping[int, EvalResult]
    ) -> None:
        """Prepare the answers of a case.

        Args:
            lane: Where they queue.
            plan: How many are wanted.
            ask: Asks for one.
            numbers: The numbers of the answers, in order.
            known: Answers that need not be asked, by their numbers.
        """
        self._lane = lane
        self._plan = plan
        self._ask = ask
        self._numbers = tuple(numbers)
        self._results = dict(known)
        self._queuer = Queuer()
        self._queued: set[Future[EvalResult]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done: asyncio.Queue[int] = asyncio.Queue()
        self._is_over = False

    def hurry(self) -> None:
        """Start the answers before all others, even in a run that starts nothing new. Any thread may call it."""
        self._lane.scheduler.hurry(self._queuer)

    async def ask(self) -> Asked:
        """Ask until no further answer is needed. When cancelled, wait for the answers in flight to end."""
        together = False
        try:
            while wanted := self._wanted():
                missing = [number for number in self._numbers if number not in self._results]
                if not self._results and self._has_room(len(missing)):
                    together, wanted = True, len(missing)
                await self._ask_for(missing[:wanted])
        finally:
            await self._end()
        return Asked(tuple(self._sorted()), together)

    def _wanted(self) -> int:
        """Return how many answers to ask now; 0 after an answer whose set-up failed."""
        results = self._sorted()
        return 0 if any(map(is_set_up_error, results)) else self._plan.wanted(results)

    def _has_room(self, count: int) -> bool:
        lane = self._lane
        return not lane.is_batched and lane.scheduler.free_places(lane.group, lane.limit) >= count

    def _sorted(self) -> list[EvalResult]:
        return [self._results[number] for number in sorted(self._results)]

    async def _ask_for(self, numbers: Iterable[int]) -> None:
        lane, expected = self._lane, set(numbers)
        for number in sorted(expected):
            start = partial(self._run, number)
            self._queued.add(lane.scheduler.submit(start, group=lane.group, limit=lane.limit, queuer=self._queuer))
        while expected:
            expected.discard(await self._done.get())

    async def _run(self, number: int, _leave: Leave) -> EvalResult:
        if self._is_over:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            result = self._results[number] = await self._ask(number)
            self._done.put_nowait(number)
            return result
        finally:
            self._tasks.discard(task)

    async def _end(self) -> None:
        """Remove waiting answers, cancel those in flight, and wait for their end."""
        self._is_over = True
        for future in self._queued:
            self._lane.scheduler.drop(future)
        tasks = list(self._tasks)
        for task in tasks:
            if not task.cancelling():  # a second cancellation would interrupt the clean-up after the first
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


AskOnce: TypeAlias = Callable[[CaseJob, BatchMember | None], Coroutine[Any, Any, EvalResult]]
"""Asks for one answer of a job, and returns its result. Raises only for a cancellation."""


@dataclass(frozen=True, slots=True)
class Request(Record):
    """A request for answers of a case."""

    job: CaseJob
    plan: RepeatPlan
    first: int = 0
    """The number of the first answer; lower numbers were asked already."""
    members: Sequence[BatchMember] = ()
    """The places of the answers in batches, from the first on."""
    reruns: int = 0
    """How often the case was asked before in this run."""

    @property
    def numbers(self) -> range:
        """The numbers of the answers."""
        return range(self.first, self.first + self.plan.answers)

    def member(self, number: int) -> BatchMember | None:
        """Return the place of an answer in its batch."""
        place = number - self.first
        return self.members[place] if place < len(self.members) else None


class RepeatedCase:
    """One case and its answers."""

    def __init__(
        self,
        request: Request,
        lane: Lane,
        ask: AskOnce,
        journal: AnswerJournal | None,
        carried: Kept,
        *,
        keeps_carried: bool,
        settle: Callable[[EvalResult, int], None],
    ) -> None:
        self._request = request
        self._ask_once = ask
        self._journal = journal
        self._carried = carried
        self._keeps_carried = keeps_carried
        self._settle = settle
        self._answers = Answers(lane, request.plan, self._ask, request.numbers, carried.answers)

    def hurry(self) -> None:
        """Start its answers before all others. Any thread may call it."""
        self._answers.hurry()

    async def results(self) -> tuple[tuple[EvalResult, ...], bool]:
        """Return the results of the answers, and whether all were asked at once."""
        for number, answer in self._carried.answers.items():
            if self._keeps_carried or number in self._carried.unwritten:
                await self._keep(number, answer)
            if (member := self._request.member(number)) is not None:
                member.leave()
        asked = await self._answers.ask()
        return asked.results, asked.together

    async def result(self) -> EvalResult:
        """Return the result of the case."""
        results, together = await self.results()
        request = self._request
        return combine_answers(
            results,
            request.plan,
            together=together,
            reruns=request.reruns or self._carried.reruns,
            carried=len(self._carried.answers),
            lost=self._carried.lost,
            with_answers=request.job.options.include_answers,
        )

    async def confirmed(self, result: EvalResult) -> EvalResult:
        """Return a result of the case with the figures of these answers."""
        fresh, _ = await self.results()
        return confirmed_by(result, fresh, self._request.plan)

    async def _ask(self, number: int) -> EvalResult:
        request = self._request
        result = await self._ask_once(request.job.replace(answer=number), request.member(number))
        if not is_set_up_error(result):
            await self._keep(number, result)
            self._settle(result, number)
        return result

    async def _keep(self, number: int, result: EvalResult) -> None:
        if self._journal is not None:
            await self._journal.keep(number, result)


class Repeats:
    """Makes the repeated cases of a run, with their answers from earlier runs."""

    def __init__(
        self,
        scheduler: Scheduler[EvalResult],
        journal: AnswerJournal | None,
        finished: FinishedCases,
        tell: Callable[[EvalResult], None],
        warn: Callable[[Problem], None],
        *,
        settle: Callable[[EvalResult, int], None],
    ) -> None:
        """Prepare.

        Args:
            scheduler: Where all answers queue.
            journal: Keeps single answers; None: they are not kept, because the run's files are on another machine.
            finished: The results of earlier runs.
            tell: Called with each answer that is carried over.
            warn: Shows a warning with the next item.
            settle: Called with each answer when the journal has its result.
        """
        self._scheduler = scheduler
        self._journal = journal
        self._finished = finished
        self._tell = tell
        self._warn = warn
        self._settle = settle
        self._told_of_reruns = False

    def open(
        self, job: CaseJob, ask: AskOnce, members: Sequence[BatchMember], *, reruns: int, group: str, limit: int
    ) -> RepeatedCase:
        """Return a case that is asked as often as its file or the run says.

        Args:
            job: The case.
            ask: Asks for one of its answers.
            members: The places of the answers in batches.
            reruns: How often the case was asked before in this run.
            group: Its group of the scheduler.
            limit: How many of that group may be in flight.
        """
        if reruns:
            self._warn_of_reruns(job)
        request = Request(job, RepeatPlan.of(job, job.repeat), members=members, reruns=reruns)
        return self._open(request, ask, group, limit)

    def open_again(
        self, job: CaseJob, ask: AskOnce, answers: int, members: Sequence[BatchMember], *, group: str, limit: int
    ) -> RepeatedCase:
        """Return a case that is asked for further answers. All of them are asked, even if the verdict is certain."""
        plan = RepeatPlan.of(job, answers).replace(stops_early=False)
        return self._open(Request(job, plan, first=job.repeat, members=members), ask, group, limit)

    def _warn_of_reruns(self, job: CaseJob) -> None:
        if not self._told_of_reruns:
            self._told_of_reruns = True
            message = f"all {job.repeat} answers are asked anew, as often as a plugin reruns the case until it passes"
            hint = "`min_pass_rate` says how many may fail"
            self._warn(Problem(Path(job.case.path), job.case.line, job.case.eval_id, message, hint, level="warning"))

    def _open(self, request: Request, ask: AskOnce, group: str, limit: int) -> RepeatedCase:
        """Called by pytest's thread: it may read files."""
        carried = Kept() if request.reruns else self._carried(request)
        for answer in carried.answers.values():
            self._tell(answer)
        journal = self._journal
        keeps = journal is not None and journal.is_elsewhere(self._finished)
        lane = Lane(self._scheduler, group, limit, is_batched=bool(request.members))
        return RepeatedCase(request, lane, ask, journal, carried, keeps_carried=keeps, settle=self._settle)

    def _carried(self, request: Request) -> Kept:
        """Return the answers that need not be asked, with the current threshold and names."""
        if self._journal is None:
            return Kept()
        job, identity = request.job, request.job.identity
        threshold = effective_threshold(job.options, job.case)
        names = {**current_names_and_rules(identity), "run_id": identity.run_id}
        kept = self._journal.take(job, self._finished, request.numbers)
        found = ((number, rejudged(answer, job.case, threshold)) for number, answer in kept.answers.items())
        answers = {number: answer.replace(**names) for number, answer in found if answer is not None}
        return Kept(answers, kept.lost, kept.unwritten.intersection(answers), kept.replaced)
