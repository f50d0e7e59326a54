"""The records of judge scripts: what they are given, and what they give back.

Every judge pays for what is imported here. That is why these are named tuples: importing `dataclasses` would
double a judge's start-up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = Any
"""A plain JSON value."""


class ToolCall(NamedTuple):
    """A call of a tool by what is judged."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    timestamp: str | None = None
    duration_ms: float | None = None


class Message(NamedTuple):
    """One message. Its content is a text, a list of parts or a mapping; None: it has none."""

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


class TraceSummary(NamedTuple):
    """What was done on the way to the answer, in numbers."""

    event_count: int
    tool_names: tuple[str, ...]
    tool_calls_by_name: Mapping[str, int]
    """Names are in snake_case here, as AgentV writes all keys of the payload."""
    error_count: int
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None


class ExecutionMetrics(NamedTuple):
    """What the answer cost; None where it is not known."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    tool_durations: Mapping[str, Sequence[float]] | None = None
    """Milliseconds of each call, by tool; names are in snake_case."""
    exploration_ratio: float | None = None
    tokens_per_tool: float | None = None


class TraceEvent(NamedTuple):
    """One step on the way to the answer."""

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
    """The case and the answer to judge. Source: requirement "Canonical Code Judge Wire Schema"."""

    question: str
    expected_outcome: str
    candidate_answer: str
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    output_messages: tuple[Message, ...] | None = None
    """None: the target reported none."""
    guideline_files: tuple[str, ...] = ()
    """Absolute paths, as are the next ones."""
    input_files: tuple[str, ...] = ()
    input_messages: tuple[Message, ...] = ()
    trace_summary: TraceSummary | None = None
    config: Mapping[str, Json] | None = None
    """The keys of the evaluator that are the judge's own, in snake_case."""
    execution_metrics: ExecutionMetrics | None = None
    trace: tuple[TraceEvent, ...] | None = None


class Result(NamedTuple):
    """What a judge says of an answer."""

    score: float
    """Clamped to 0..1; True is 1."""
    hits: Sequence[str] = ()
    misses: Sequence[str] = ()
    reasoning: str | None = None
    details: Mapping[str, Json] | None = None
    """Structured findings, handed on to the results file as they are."""
