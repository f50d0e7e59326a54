"""What an evaluator is, and what it is shown."""

from dataclasses import dataclass
from typing import Protocol

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import Message
from pytest_agentv.models.scores import Score
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary
from pytest_agentv.prompts.prompt import Prompt


@dataclass(frozen=True, slots=True)
class EvaluationContext(Record):
    """The one argument of every evaluator: the case, the answer and how it came about."""

    case: EvalCase
    prompt: Prompt
    candidate_answer: str
    output_messages: tuple[Message, ...] | None = None
    """None: the target reported none."""
    trace: tuple[TraceEvent, ...] | None = None
    trace_summary: TraceSummary | None = None
    metrics: ExecutionMetrics | None = None
    attempt: int = 0
    """0-based."""
    timeout_seconds: float | None = None
    """The longest a judge may take; None: no limit."""


class Evaluator(Protocol):
    """Judges an answer.

    A bad answer is a low `Score`. `EvaluatorError` says that it could not be judged: the case becomes an error.
    """

    async def evaluate(self, context: EvaluationContext) -> Score: ...
