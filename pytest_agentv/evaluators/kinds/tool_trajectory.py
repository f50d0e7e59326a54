"""`tool_trajectory`: which tools were called, how often and in what order.

Scores are those of the requirement "Tool Trajectory Evaluator": `any_order` gives the share of the minimums that were
met; `in_order` and `exact` are all or nothing, with a hit or a miss for each expected call. What the target does not
report cannot be judged: that is an error, and says nothing about the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.evaluators.comparing.expected_calls import DOCS, ExpectedCall, call_fault
from pytest_agentv.models.base import ABSENT
from pytest_agentv.models.kind import Amount, Items
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number
from pytest_agentv.models.traces import TraceEvent

NO_TRACE: Final = "No trace available for evaluation"
UNNAMED: Final = "(unnamed tool)"


class ToolTrajectory(Evaluator):
    """Which tools were called, how often and in what order (agentv-formats 6.7)."""

    kind = "tool_trajectory"

    mode: Literal["any_order", "in_order", "exact"] = Field(description="what is held against the calls")
    minimums: dict[str, Amount] | None = Field(default=None, description="with `any_order`: least calls by tool")
    expected: Items[ExpectedCall] | None = Field(
        default=None, description="with `in_order` (others may be between) and `exact` (no others): the calls"
    )

    @model_validator(mode="after")
    def _needs_what_its_mode_reads(self) -> Self:
        needed = "minimums" if self.mode == "any_order" else "expected"
        if getattr(self, needed) is None:
            raise ValueError(f"mode {self.mode} needs the key '{needed}'")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        needed, other = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, other) is not None:
            yield other, f"mode {self.mode} reads '{needed}' only"

    async def evaluate(self, context: Context) -> Score:
        return score_trajectory(self, context)


def score_trajectory(config: ToolTrajectory, context: Context) -> Score:
    """Score the tool calls of an answer.

    A target that tells nothing of its calls gives a score of 0 with `error`. Raises `EvaluatorError` when a call does
    not report what an expected call is to be held against.
    """
    if config.mode == "any_order":
        counts = call_counts(context)
        return _no_trace(context) if counts is None else _score_counts(config.minimums or {}, counts)
    calls = reported_calls(context)
    if calls is None:
        return _no_trace(context)
    compare = _compare_exactly if config.mode == "exact" else _find_in_order
    return compare(config.expected or (), calls, context.target)


def _no_trace(context: Context) -> Score:
    """Return the score of an answer whose tool calls are not known; the mock of a dry run never tells of any."""
    error = (
        f"{NO_TRACE}: target {context.target!r} reported neither messages nor a trace. "
        f"Let it report its tool calls, as {DOCS} shows"
    )
    return Score(0.0, misses=(NO_TRACE,), error=None if context.dry_run else error, error_kind="config")


def reported_calls(context: Context) -> tuple[ToolCall, ...] | None:
    """Return the calls in order: those of the output messages, else the trace's; None when there is neither."""
    told = tuple(call for message in context.output_messages or () for call in message.tool_calls)
    if told:
        return told
    if not context.trace and not context.reports_calls:
        return None
    if context.trace is None and context.output_messages is None:
        return None
    return tuple(_traced_calls(context.trace or ()))


def _traced_calls(events: Sequence[TraceEvent]) -> Iterator[ToolCall]:
    """Yield the calls of a trace, each with the output and the duration that it or its result reports."""
    results = {event.id: event for event in reversed(events) if event.type == "tool_result"}
    for event in events:
        if event.type == "tool_call":
            result = results.get(event.id) if event.id else None
            parts = [event] if result is None else [event, result]
            output = next((part.output for part in parts if part.output is not ABSENT), ABSENT)
            duration = next((found for part in parts if (found := _duration(part)) is not None), None)
            yield ToolCall(event.name or UNNAMED, input=event.input, output=output, duration_ms=duration)


def _duration(event: TraceEvent) -> float | None:
    """Return the milliseconds that the metadata of an event tell."""
    metadata = event.metadata or {}
    value = metadata.get("duration_ms", metadata.get("durationMs"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def call_counts(context: Context) -> Mapping[str, int] | None:
    """Return the number of calls by tool; where no call is listed, the trace summary's numbers.

    A summary without events holds metrics only, and says nothing of calls.
    """
    calls = reported_calls(context)
    if not calls and context.trace_summary is not None and context.trace_summary.event_count:
        return context.trace_summary.tool_calls_by_name
    return None if calls is None else Counter(call.tool for call in calls)


def _score_counts(minimums: Mapping[str, float], counts: Mapping[str, int]) -> Score:
    if not minimums:
        return Score(1.0, hits=("No tool requirements specified",))
    hits: list[str] = []
    misses: list[str] = []
    for tool, minimum in minimums.items():
        count = counts.get(tool, 0)
        times = "1 time" if count == 1 else f"{count} times"
        found = hits if count >= minimum else misses
        found.append(f"{tool} called {times} (minimum: {format_number(minimum)})")
    return Score(len(hits) / len(minimums), hits=tuple(hits), misses=tuple(misses))


def _find_in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], target: str) -> Score:
    """Walk forward: a call of the right tool with other arguments is used up; a missing tool uses up nothing."""
    hits: list[str] = []
    misses: list[str] = []
    used: set[int] = set()
    for position, item in enumerate(expected):
        after = max(used, default=-1) + 1
        found = next((index for index in range(after, len(calls)) if calls[index].tool == item.tool), None)
        if found is None:
            misses.append(f"Expected {item.tool} at position {position}, {_not_found(item.tool, calls, used)}")
            continue
        used.add(found)
        fault = call_fault(item, calls[found], target)
        if fault is None:
            hits.append(f"Found {item.tool} at position {found}")
        else:
            misses.append(f"Expected {item.tool} at position {position}: tool found at {found} but {fault}")
    return _all_or_nothing(hits, misses)


def _not_found(tool: str, calls: Sequence[ToolCall], used: set[int]) -> str:
    """Say that a tool is missing, and whether it was called too early."""
    early = next((index for index, call in enumerate(calls) if call.tool == tool and index not in used), None)
    hint = "" if early is None else f"; it was called too early, at position {early}"
    return f"not found in remaining trace{hint}"


def _compare_exactly(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], target: str) -> Score:
    hits: list[str] = []
    misses: list[str] = []
    if len(expected) != len(calls):
        misses.append(f"Expected {len(expected)} tool calls, got {len(calls)}")
    for position, item in enumerate(expected):
        fault = _fault(item, calls[position] if position < len(calls) else None, target)
        if fault is None:
            hits.append(f"Position {position}: {item.tool}")
        else:
            misses.append(f"Position {position}: {fault}")
    extra = enumerate(calls[len(expected) :], start=len(expected))
    misses.extend(f"Position {position}: unexpected {call.tool}" for position, call in extra)
    return _all_or_nothing(hits, misses)


def _fault(expected: ExpectedCall, call: ToolCall | None, target: str) -> str | None:
    """Say what is wrong with the call at an expected one's position; None when nothing is."""
    if call is None:
        return f"expected {expected.tool}, got nothing"
    if call.tool != expected.tool:
        return f"expected {expected.tool}, got {call.tool}"
    fault = call_fault(expected, call, target)
    return None if fault is None else f"{expected.tool} {fault}"


def _all_or_nothing(hits: Sequence[str], misses: Sequence[str]) -> Score:
    if not hits and not misses:
        return Score(1.0, hits=("No tool sequence specified",))
    return Score(0.0 if misses else 1.0, hits=tuple(hits), misses=tuple(misses))
