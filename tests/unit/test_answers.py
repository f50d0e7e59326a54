"""The answers of one case in the scheduler: side by side, before others, and taken back."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future

import pytest

from pytest_agentv.engine.repeats import RepeatPlan
from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.model.results import ErrorDetail, EvalResult
from pytest_agentv.runtime.loop import LoopThread, wait_for
from pytest_agentv.session.running.repeats import RepeatedCase


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


def result(status: str = "pass", stage: str | None = None) -> EvalResult:
    plain = EvalResult("2026-11-22", "case", "d", 1.0, (), (), "text", "default")
    return plain.replace(status=status, error_detail=ErrorDetail(stage, "config") if stage else None)  # type: ignore[arg-type]


class Agent:
    """Answers when it is told to, and notes what it was asked for."""

    def __init__(self, verdicts: str = "ppppp", *, waits: bool = False) -> None:
        self.asked: list[int] = []
        self.ended: list[int] = []
        self.most = 0
        self._running = 0
        self._verdicts = verdicts
        self._go: asyncio.Event | None = None
        self._waits = waits

    async def ask(self, number: int) -> EvalResult:
        self.asked.append(number)
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await (asyncio.sleep(3600) if self._waits else asyncio.sleep(0))
            return result({"p": "pass", "f": "fail"}[self._verdicts[number]])
        finally:
            self._running -= 1
            self.ended.append(number)


def ask(
    loop: LoopThread, agent: Agent, scheduler: Scheduler[EvalResult], limit: int, **plan: object
) -> tuple[RepeatedCase, "Future[tuple[tuple[EvalResult, ...], bool]]"]:
    wanted = RepeatPlan(5, 0.8, "file", stops_early=True).replace(**plan)
    case = RepeatedCase(scheduler, wanted, agent.ask, group="", limit=limit)
    return case, loop.submit(case.answers())


@pytest.mark.parametrize(
    ("limit", "asked", "most"), [(1, [0, 1], 1), (2, [0, 1], 2), (4, [0, 1], 2), (5, [0, 1, 2, 3, 4], 5)]
)
def test_idle_workers_ask_all_answers_at_once_and_others_only_what_is_needed(
    loop: LoopThread, limit: int, asked: list[int], most: int
) -> None:
    agent = Agent("fffff")
    _, future = ask(loop, agent, Scheduler(loop), limit)
    results, together = wait_for(future)
    assert sorted(agent.asked) == asked
    assert (len(results), agent.most, together) == (len(asked), most, len(asked) == 5)


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_without_a_stop_all_answers_run_side_by_side_up_to_the_limit(loop: LoopThread, limit: int) -> None:
    agent = Agent("fffff")
    _, future = ask(loop, agent, Scheduler(loop), limit, stops_early=False)
    assert len(wait_for(future)[0]) == 5
    assert agent.most == min(limit, 5)


def test_answers_of_a_case_whose_turn_has_come_start_whatever_keeps_others_from_it(loop: LoopThread) -> None:
    agent = Agent()
    answers, future = ask(loop, agent, Scheduler(loop, may_start=lambda: False), 2)
    loop.run(asyncio.sleep(0.01))
    assert agent.asked == []
    answers.hurry()
    assert len(wait_for(future)[0]) == 4


def test_answers_that_are_due_come_before_those_of_other_cases(loop: LoopThread) -> None:
    first, last, scheduler = Agent(), Agent(), Scheduler[EvalResult](loop, may_start=lambda: False)
    _, waiting = ask(loop, first, scheduler, 1)
    answers, due = ask(loop, last, scheduler, 1)
    answers.hurry()
    assert len(wait_for(due)[0]) == 4
    assert first.asked == []
    waiting.cancel()


def test_a_cancelled_case_ends_its_answers_and_takes_back_what_waits(loop: LoopThread) -> None:
    agent, scheduler = Agent(waits=True), Scheduler[EvalResult](loop)
    _, future = ask(loop, agent, scheduler, 1, stops_early=False)
    while not agent.asked:
        loop.run(asyncio.sleep(0))
    assert scheduler.unfinished == 5
    future.cancel()
    with pytest.raises(CancelledError):
        future.result(5)
    while scheduler.unfinished:  # it is told after the task's end
        loop.run(asyncio.sleep(0))
    assert agent.asked == agent.ended == [0]


def test_stored_answers_come_first_so_that_an_early_stop_asks_for_no_others(loop: LoopThread) -> None:
    agent = Agent()
    plan = RepeatPlan(5, 0.8, "file", stops_early=True)
    case = RepeatedCase(Scheduler(loop), plan, agent.ask, group="", limit=1, stored=lambda: frozenset({2, 4}))
    assert len(loop.run(case.answers())[0]) == 4
    assert agent.asked == [2, 4, 0, 1]


def test_after_a_set_up_that_fails_nothing_more_is_asked(loop: LoopThread) -> None:
    asked: list[int] = []

    async def fail(number: int) -> EvalResult:
        asked.append(number)
        return result("error", "setup")

    plan = RepeatPlan(5, 0.2, "file", stops_early=True)
    case = RepeatedCase(Scheduler(loop), plan, fail, group="", limit=1)
    assert len(loop.run(case.answers())[0]) == len(asked) == 1
