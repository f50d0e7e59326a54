"""The steps of a target towards its answer, and their cost."""

from collections.abc import Mapping
from typing import Literal

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record
from pytest_agentv.models.records import record

TraceEventType = Literal["model_step", "tool_call", "tool_result", "message", "error"]
"""What kind of step it is."""


@record
class TraceEvent(Record):
    """One step of a target's work. The order is that of the list; timestamps do not change it."""

    type: TraceEventType
    """What kind of step it is."""
    timestamp: str | None = None
    """When it happened, as the target wrote it."""
    id: str | None = None
    """The id that the target gave to the step."""
    name: str | None = None
    """The name of the tool, where there is one."""
    input: Json = ABSENT
    """What went in, any JSON; `ABSENT`: not reported."""
    output: Json = ABSENT
    """What came out, any JSON; `ABSENT`: not reported."""
    text: str | None = None
    """The text of a message or an error."""
    metadata: JsonObject | None = None
    """Whatever else the target reported."""


@record
class TokenUsage(Record):
    """Tokens of one answer, as the target reported them."""

    input: float
    """Tokens of the prompt."""
    output: float
    """Tokens of the answer."""
    cached: float | None = None
    """Tokens that the API had cached; None: not reported."""
    reasoning: float | None = None
    """Those of the output tokens that were spent on reasoning; None: not reported."""

    @property
    def total(self) -> float:
        """Return the sum of all tokens."""
        return self.input + self.output + (self.cached or 0)


@record
class TraceSummary(Record):
    """Counts over the steps to an answer, and the metrics that the target reported."""

    event_count: int
    """The number of steps."""
    tool_names: tuple[str, ...]
    """The names of the tools that were called, sorted, each once."""
    tool_calls_by_name: Mapping[str, int]
    """The number of calls of each tool, in the order of first use."""
    error_count: int
    """The number of errors among them."""
    token_usage: TokenUsage | None = None
    """Tokens; None: not reported."""
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    """Milliseconds; None: not reported."""


@record
class ExecutionMetrics(Record):
    """Duration, tokens and cost of an answer. None means unknown."""

    token_usage: TokenUsage | None = None
    """Tokens."""
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    """Milliseconds that the target took."""
    tool_durations: Mapping[str, tuple[float, ...]] | None = None
    """Milliseconds of each call by tool."""
    exploration_ratio: float | None = None
    """Calls of exploring tools (read, grep, …) / all calls; 0 to 1."""
    tokens_per_tool: float | None = None
    """Output tokens / tool calls."""
