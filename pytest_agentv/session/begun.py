"""Cases on their way through the engine."""

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass

from pytest_agentv.engine.asking_hooks import tell
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.logs import CaseLog
from pytest_agentv.session.preparing import PreparedCase


@dataclass(frozen=True, slots=True)
class Judged:
    """A case that is done. Its place is free already: the next case does not wait for a line to be written."""

    result: EvalResult
    written: "Future[None]"
    """Done when the line is written, and hooks were told of it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A case that was handed to the engine."""

    future: "Future[Judged]"
    limit: int
    """How many cases of its group may be in flight."""
    prepared: PreparedCase
    log: CaseLog


def nothing_to_write() -> "Future[None]":
    done: Future[None] = Future()
    done.set_result(None)
    return done


async def tell_of(written: "Future[None]", prepared: PreparedCase, result: EvalResult) -> None:
    """Tell the hooks of a result when its line is written."""
    await asyncio.wrap_future(written)
    await tell(prepared.hooks, prepared.case, result)
