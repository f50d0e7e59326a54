"""Cases on their way through the engine."""

from concurrent.futures import Future
from dataclasses import dataclass

from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.logs import CaseLog
from pytest_agentv.session.preparing import PreparedCase


@dataclass(frozen=True, slots=True)
class Begun:
    """A case that was handed to the engine."""

    future: "Future[EvalResult]"
    """Done when the result is written, and hooks were told of it."""
    limit: int
    """How many cases of its group may be in flight."""
    prepared: PreparedCase
    log: CaseLog
