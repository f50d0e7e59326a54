"""The steps of a target towards its answer, and their cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record

TraceEventType = Literal["model_step", "tool_call", "tool_result", "message", "error"]


@dataclass(frozen=True, slots=True)
class TraceEvent(Record):
    """One step of a target. The order of the list counts, not that of the timestamps."""

    type: TraceEventType
    timestamp: str | None = None
    id: str | None = None
    name: str | None = None
    input: Json = ABSENT
    output: Json = ABSENT
    text: str | None = None
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage(Record):
    """Tokens of one answer."""

    input: float
    output: float
    cached: float | None = None

    @property
    def total(self) -> float:
        return self.input + self.output + (self.cached or 0)


@dataclass(frozen=True, slots=True)
class TraceSummary(Record):
    """Counts over a trace, and the metrics that the provider reported."""

    event_count: int
    tool_names: tuple[str, ...]
    """Sorted, each once."""
    tool_calls_by_name: Mapping[str, int]
    """In the order of first use. Names are user data and keep their spelling."""
    error_count: int
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutionMetrics(Record):
    """Duration, tokens and cost of an answer. None means unknown."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    tool_durations: Mapping[str, tuple[float, ...]] | None = None
    """Milliseconds of each call by tool."""
    exploration_ratio: float | None = None
    """Calls of exploring tools (read, grep, …) / all calls; 0 to 1."""
    tokens_per_tool: float | None = None
    """Output tokens / tool calls."""
