"""The records of judge scripts: their input and their result.

Every import here delays each judge. So these are named tuples: importing `dataclasses` would double a judge's
start-up time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = Any
"""A plain JSON value."""


class ToolCall(NamedTuple):
    """A tool call of the target under test."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    timestamp: str | None = None
    duration_ms: float | None = None


class Message(NamedTuple):
    """One message. Its content is a text, a list of parts, a mapping or None."""

    role: str
    content: Json = None
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    timestamp: str | None = None
    metadata: Mapping[str, Json] | None = None


class TokenUsage(NamedTuple):
    """Tokens of one answer."""

    input: float
    output: float
    cached: float | None = None
    reasoning: float | None = None


class TraceSummary(NamedTuple):
    """Counts over the trace of the answer."""

    event_count: int
    tool_names: tuple[str, ...]
    tool_calls_by_name: Mapping[str, int]
    """Names are in snake_case, because AgentV converts all keys of the payload."""
    error_count: int
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None


class ExecutionMetrics(NamedTuple):
    """Duration, tokens and cost of the answer; None if unknown."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    tool_durations: Mapping[str, Sequence[float]] | None = None
    """Milliseconds of each call by tool. Names are in snake_case."""
    exploration_ratio: float | None = None
    tokens_per_tool: float | None = None


class TraceEvent(NamedTuple):
    """One step of the trace."""

    type: str
    """`model_step`, `tool_call`, `tool_result`, `message` or `error`."""
    timestamp: str | None = None
    id: str | None = None
    name: str | None = None
    input: Json = None
    output: Json = None
    text: str | None = None
    metadata: Mapping[str, Json] | None = None


class CodeJudgeInput(NamedTuple):
    """The case and the answer to judge."""

    question: str
    expected_outcome: str
    candidate_answer: str
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    output_messages: tuple[Message, ...] | None = None
    """None: the target reported no messages."""
    guideline_files: tuple[str, ...] = ()
    """Absolute paths, like the next field."""
    input_files: tuple[str, ...] = ()
    input_messages: tuple[Message, ...] = ()
    trace_summary: TraceSummary | None = None
    config: Mapping[str, Json] | None = None
    """The evaluator's custom keys, in snake_case."""
    execution_metrics: ExecutionMetrics | None = None
    trace: tuple[TraceEvent, ...] | None = None
    vars: Mapping[str, Json] | None = None
    """The variables of the case. None: it has none."""
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up; None: not reported."""


class Result(NamedTuple):
    """A judge's result for an answer."""

    score: float
    """0 to 1. The run clamps other scores, with a warning. True counts as 1."""
    hits: Sequence[str] = ()
    misses: Sequence[str] = ()
    reasoning: str | None = None
    details: Mapping[str, Json] | None = None
    """Structured findings, copied to the results file unchanged."""
