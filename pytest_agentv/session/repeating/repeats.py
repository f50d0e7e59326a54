"""Runs cases with several answers, from a job to the one result that its answers make."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.engine.batching import BatchMember
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.repeating.combining import combine_answers, confirmed_by, is_set_up_error
from pytest_agentv.engine.repeating.plan import RepeatPlan
from pytest_agentv.engine.requirements import rejudged
from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.engine.scoring import effective_threshold
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.recording.answers import AnswerJournal, Kept
from pytest_agentv.session.recording.journal import FinishedCases, current_names_and_rules
from pytest_agentv.session.repeating.answers import Answers, Lane

AskOnce: TypeAlias = Callable[[CaseJob, BatchMember | None], Coroutine[Any, Any, EvalResult]]
"""Asks for one answer of a job, and returns its result. Raises only for a cancellation."""


@record
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
