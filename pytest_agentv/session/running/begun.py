"""Cases that were handed to the engine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.prints import CaseLog
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.showing.asked import Asked


class Ending:
    """Ends a running case. pytest's thread asks for it, and the event loop cancels the case's task.

    The running task may be cancelled within its `with` block. It is cancelled at once if that was requested before.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.reason: str | None = None
        """The reason in the case's result; None: the case gets no result."""
        self.is_too_late = False
        """Whether the case was judged before it was cancelled."""
        self._task: asyncio.Task[object] | None = None

    def note_judged(self) -> None:
        """Note that the case is judged. If its target swallowed a cancellation, the cancellation was not too late."""
        self.is_too_late = self._task is not None and self._task.cancelling() == 0

    def ask(self, loop: LoopThread, reason: str | None) -> None:
        """Cancel the case. Its future is done when its processes have ended."""
        self.reason, self.is_asked = reason, True
        loop.call(self._cancel)

    def __enter__(self) -> None:
        if self.is_asked:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        self._task = None

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A case that was handed to the engine."""

    future: "Future[EvalResult]"
    """Done when the result is written and hooks have seen it."""
    limit: int
    """How many cases of its group may be in flight."""
    problems: tuple[Problem, ...]
    """Warnings about the case's file."""
    asked: Asked
    """The question and the expected outcome of the case."""
    log: CaseLog = field(default_factory=CaseLog)
    ending: Ending = field(default_factory=Ending)
    hurry: Callable[[], None] | None = None
    """Starts the answers of a repeated case before all others; None: the case is one job of the scheduler."""

    @property
    def result(self) -> EvalResult | None:
        """The result of the case; None: it has none yet, or was cancelled."""
        future = self.future
        return future.result() if future.done() and not future.cancelled() and future.exception() is None else None

    @staticmethod
    def of(
        future: "Future[EvalResult]",
        limit: int,
        prepared: PreparedCase,
        log: CaseLog,
        ending: Ending | None = None,
        *,
        hurry: Callable[[], None] | None = None,
    ) -> "Begun":
        """Keep only what the item shows, so that the case, with the texts of its files, is freed when it is done."""
        return Begun(future, limit, prepared.problems, Asked.of(prepared.case), log, ending or Ending(), hurry)
