"""What a target did on its way to an answer, and what that cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record

TraceEventType = Literal["model_step", "tool_call", "tool_result", "message", "error"]


@dataclass(frozen=True, slots=True)
class TraceEvent(Record):
    """One step of a target's work. Order is the order of the list, not of the timestamps."""

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
    """Counts over a trace, and the metrics the provider reported."""

    event_count: int
    tool_names: tuple[str, ...]
    """Sorted, each once."""
    tool_calls_by_name: Mapping[str, int]
    """In the order of first use; names are user data and keep their spelling."""
    error_count: int
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutionMetrics(Record):
    """What an answer cost; a field is None where it is not known."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    tool_durations: Mapping[str, tuple[float, ...]] | None = None
    """Milliseconds of each call, by tool."""
    exploration_ratio: float | None = None
    """Calls of exploring tools (read, grep, …) / all calls; 0 to 1."""
    tokens_per_tool: float | None = None
    """Output tokens / tool calls."""
