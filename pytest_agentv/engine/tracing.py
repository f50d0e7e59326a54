"""Reads the trace and the metrics of a response, checks them and summarizes the trace."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import Record, is_amount, is_measure
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.models.records import record
from pytest_agentv.models.text import json_fault
from pytest_agentv.models.traces import ExecutionMetrics, TokenUsage, TraceEvent, TraceSummary, traced_calls
from pytest_agentv.providers.base import ProviderResponse

_UNKNOWN: Final = ExecutionMetrics()


@record
class ReportedMetrics(Record):
    """The valid metrics of a response, and a text for each invalid one."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """US dollars."""
    duration_ms: float | None = None
    tool_durations: dict[str, tuple[float, ...]] | None = None
    """Milliseconds of each call, by tool."""
    warnings: tuple[str, ...] = ()


def extract_trace(response: ProviderResponse) -> tuple[TraceEvent, ...] | None:
    """Return the trace of a response; None without a trace and without messages, or if it is only a text.

    Uses the provider's own trace, which may come from a file (`with_trace`), else the tool calls of its messages.
    Source: evaluation-2026-01, "Explicit trace takes precedence" and "Trace extraction maps tool call fields".
    """
    if response.trace is not None:
        return response.trace
    if response.output_messages is not None and not response.is_text_only:
        return tuple(_call_event(message, call) for message, call in _tool_calls(response.output_messages))
    return None


def summarize_trace(events: Sequence[TraceEvent] | None, metrics: ReportedMetrics) -> TraceSummary | None:
    """Summarize a trace and its metrics; None without a trace.

    Every event counts, so each tool call of a message counts as one event.
    Source: evaluation-2026-01, "TraceSummary computation" and "TraceSummary from outputMessages".
    """
    if events is None:
        return None
    names = [name for name in _called_tools(events) if name is not None]
    calls = Counter(names) if names else {}
    return TraceSummary(
        event_count=len(events),
        tool_names=tuple(sorted(calls)),
        tool_calls_by_name=dict(calls),
        error_count=sum(event.type == "error" for event in events),
        token_usage=metrics.token_usage,
        cost_usd=metrics.cost_usd,
        duration_ms=metrics.duration_ms,
    )


def validated_metrics(response: ProviderResponse, measured_ms: float | None = None) -> ReportedMetrics:
    """Return the valid metrics of a response. Leaves out negative, infinite and non-number values with a warning.

    `measured_ms` takes the place of an invalid duration.
    Source: evaluation-2026-01, "Metrics schema validation".
    """
    warnings: list[str] = []
    duration_ms = _checked("duration_ms", response.duration_ms, warnings)
    is_invalid = duration_ms is None and response.duration_ms is not None
    return ReportedMetrics(
        token_usage=_checked_usage(response.token_usage, warnings),
        cost_usd=_checked("cost_usd", response.cost_usd, warnings),
        duration_ms=measured_ms if is_invalid else duration_ms,
        tool_durations=_tool_durations(response, warnings) or None,
        warnings=tuple(warnings),
    )


def execution_metrics(
    metrics: ReportedMetrics,
    events: Sequence[TraceEvent] | None,
    *,
    exploration_tools: Sequence[str],
    measured_ms: float | None = None,
) -> ExecutionMetrics | None:
    """Return duration, tokens and cost of the answer; None if all are unknown.

    Args:
        metrics: What the provider reported.
        events: The trace. The ratios refer to its tool calls.
        exploration_tools: Names of the tools that explore, by default those of the run options.
        measured_ms: Wall time of the call in milliseconds, used if the provider reports no duration.
    """
    tools = _called_tools(events or ())
    usage = metrics.token_usage
    known = ExecutionMetrics(
        token_usage=usage,
        cost_usd=metrics.cost_usd,
        duration_ms=measured_ms if metrics.duration_ms is None else metrics.duration_ms,
        tool_durations=metrics.tool_durations,
        exploration_ratio=sum(tool in exploration_tools for tool in tools) / len(tools) if tools else None,
        tokens_per_tool=usage.output / len(tools) if usage and tools else None,
    )
    return known if known != _UNKNOWN else None


def _tool_calls(messages: Sequence[Message]) -> Iterator[tuple[Message, ToolCall]]:
    return ((message, call) for message in messages for call in message.tool_calls)


def _called_tools(events: Sequence[TraceEvent]) -> list[str | None]:
    return [event.name for event in events if event.type == "tool_call"]


def _call_event(message: Message, call: ToolCall) -> TraceEvent:
    return TraceEvent(
        "tool_call",
        timestamp=call.timestamp or message.timestamp,
        id=call.id,
        name=call.tool,
        input=call.input,
        output=call.output,
    )


def _checked(name: str, value: float | None, warnings: list[str]) -> float | None:
    # Checked at run time too, because Python targets and plugins can return values of any type.
    if value is None or is_amount(value):
        return value
    shown = "a number that is too long" if json_fault(value) else repr(value)
    warnings.append(f"{name} is {shown} and was left out: expected a finite number of 0 or more")
    return None


def _checked_usage(usage: TokenUsage | None, warnings: list[str]) -> TokenUsage | None:
    if not isinstance(usage, TokenUsage | None):  # as above
        warnings.append(f"token_usage is {masked(str(usage))[:80]!r} and was left out: expected a TokenUsage")
        return None
    if usage is None:
        return None
    tokens_in = _checked("token_usage.input", usage.input, warnings)
    tokens_out = _checked("token_usage.output", usage.output, warnings)
    cached = _checked("token_usage.cached", usage.cached, warnings)
    if tokens_in is None or tokens_out is None:
        return None
    return TokenUsage(tokens_in, tokens_out, cached, _checked("token_usage.reasoning", usage.reasoning, warnings))


def without_odd_durations(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return messages without durations of calls that are no numbers, which no record can hold."""
    if all(_is_duration(call) for _, call in _tool_calls(messages or ())):
        return messages
    return tuple(
        message.replace(
            tool_calls=tuple(
                call if _is_duration(call) else call.replace(duration_ms=None) for call in message.tool_calls
            )
        )
        for message in messages or ()
    )


def _is_duration(call: ToolCall) -> bool:
    return call.duration_ms is None or is_measure(call.duration_ms)


def _tool_durations(response: ProviderResponse, warnings: list[str]) -> dict[str, tuple[float, ...]]:
    """Return the milliseconds of each call by tool: those of the messages, else those of the trace."""
    told = _durations((call for _, call in _tool_calls(response.output_messages or ())), warnings)
    if response.trace is None:
        return told
    return {**_durations((call for call in traced_calls(response.trace) if call.tool not in told), warnings), **told}


def _durations(calls: Iterable[ToolCall], warnings: list[str]) -> dict[str, tuple[float, ...]]:
    durations: dict[str, list[float]] = {}
    for call in calls:
        duration = _checked(f"duration_ms of the tool {call.tool!r}", call.duration_ms, warnings)
        if duration is not None:
            durations.setdefault(call.tool, []).append(duration)
    return {tool: tuple(values) for tool, values in durations.items()}
