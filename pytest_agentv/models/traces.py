"""The steps of a target towards its answer, and their cost."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeGuard

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record, is_amount, is_number, mapping
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.records import record

UNNAMED: Final = "(unnamed tool)"

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


@record
class JudgeMetrics(Record):
    """Usage of the models that judged an answer: judges, calls of judge scripts, and embeddings."""

    calls: int
    """The calls that were made for it. They may have been paid for even if they failed."""
    cached: int | None = None
    """How many replies came from the cache instead, and cost nothing; None: none."""
    token_usage: TokenUsage | None = None
    """Tokens of the calls; None: not reported."""
    cost_usd: float | None = None
    """US dollars of the calls; None: not reported."""
    metered: int | None = None
    """How many of the calls report their tokens; None: all of them, or none."""
    priced: int | None = None
    """How many of the calls report their US dollars; None: all of them, or none."""

    @property
    def known_tokens(self) -> int:
        """Return how many of the calls report their tokens."""
        return 0 if not is_known(self.token_usage) else self.calls if self.metered is None else self.metered

    @property
    def known_costs(self) -> int:
        """Return how many of the calls report their US dollars."""
        return 0 if not is_amount(self.cost_usd) else self.calls if self.priced is None else self.priced


def traced_calls(events: Sequence[TraceEvent]) -> Iterator[ToolCall]:
    """Yield the calls of a trace, each once, with the output and the duration that its events report."""
    calls: list[list[TraceEvent]] = []
    latest: dict[str, list[TraceEvent]] = {}
    for event in events:
        known = latest.get(event.id) if event.id else None
        is_call = event.type == "tool_call"
        if is_call and (known is None or _is_another(event, known)):
            calls.append([event])
            if event.id:
                latest[event.id] = calls[-1]
        elif known is not None and (is_call or event.type == "tool_result"):
            known.append(event)
    return map(_joined, calls)


def _is_another(event: TraceEvent, known: Sequence[TraceEvent]) -> bool:
    """Whether an event begins another call of the same id. Some targets count from 1 again in each turn.

    It does after a result, and if it names another tool. No call must escape a limit because of its id.
    """
    names = {part.name for part in (*known, event) if part.type == "tool_call" and part.name}
    return known[-1].type == "tool_result" or len(names) > 1


def _joined(parts: Sequence[TraceEvent]) -> ToolCall:
    """Return the call of some events: of its start, of updates, which may know more, and of its result."""
    told = [part for part in reversed(parts) if part.type == "tool_call"]
    name = next((part.name for part in told if part.name), UNNAMED)
    given = next((part.input for part in told if part.input is not ABSENT and part.input is not None), told[-1].input)
    ends = [*told, *(part for part in parts if part.type == "tool_result")]
    output = next((part.output for part in ends if part.output is not ABSENT), ABSENT)
    duration = next((found for part in ends if (found := _duration(part)) is not None), None)
    return ToolCall(name, input=given, output=output, id=told[0].id, duration_ms=duration)


def _duration(event: TraceEvent) -> float | None:
    """Return the milliseconds in the metadata of an event."""
    metadata = mapping(event.metadata)
    value = metadata.get("duration_ms", metadata.get("durationMs"))
    return value if is_number(value) else None


def added_usage(usages: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """Add up the tokens that are known; None if none are."""
    known = [usage for usage in usages if usage is not None and is_known(usage)]
    if not known:
        return None
    return TokenUsage(
        input=math.fsum(usage.input for usage in known),
        output=math.fsum(usage.output for usage in known),
        cached=_sum(usage.cached for usage in known),
        reasoning=_sum(usage.reasoning for usage in known),
    )


def is_known(usage: TokenUsage | None) -> TypeGuard[TokenUsage]:
    """Whether tokens are reported, and are amounts."""
    return usage is not None and all(map(is_amount, (usage.input, usage.output, usage.cached or 0)))


def added_judge_metrics(parts: Iterable[JudgeMetrics | None]) -> JudgeMetrics | None:
    """Add up what models took that judged; None if none was asked."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    calls = sum(part.calls for part in known)
    metered, priced = sum(part.known_tokens for part in known), sum(part.known_costs for part in known)
    return JudgeMetrics(
        calls,
        cached=sum(part.cached or 0 for part in known) or None,
        token_usage=added_usage(part.token_usage for part in known),
        cost_usd=_sum(part.cost_usd for part in known),
        metered=metered if 0 < metered < calls else None,
        priced=priced if 0 < priced < calls else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if is_amount(value)]
    return math.fsum(known) if known else None
