"""Cases on their way through the engine."""

from concurrent.futures import Future
from dataclasses import dataclass

from pytest_agentv.loading.problems import Problem
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
    problems: tuple[Problem, ...]
    """What is odd about the case's file."""
    reference_answer: str
    log: CaseLog

    @staticmethod
    def of(future: "Future[EvalResult]", limit: int, prepared: PreparedCase, log: CaseLog) -> "Begun":
        """Keep of a case what its item shows. The case itself, with the texts of its files, goes when it is done."""
        reference_answer = prepared.case.reference_answer if prepared.case else ""
        return Begun(future, limit, prepared.problems, reference_answer, log)
