"""`tool_trajectory`: which tools were called, how often and in what order.

Scores are those of the requirement "Tool Trajectory Evaluator": `any_order` gives the share of the minimums that were
met; `in_order` and `exact` are all or nothing, with a hit or a miss for each expected call. What the target does not
report cannot be judged: that is an error, and says nothing about the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.evaluators.equality import json_equal
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.kind import Amount, Items, Part, Text, expected, spelled
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number
from pytest_agentv.models.traces import TraceEvent

NO_TRACE: Final = "No trace available for evaluation"
DOCS: Final = "docs/evaluators.md#tool_trajectory"
UNNAMED: Final = "(unnamed tool)"


def _arguments(value: Json) -> Json:
    if value is None:
        return ABSENT
    if value is not ABSENT and value != "any" and not isinstance(value, Mapping):
        raise expected("a mapping of arguments or the word any")
    return value


_ANY_OR_MAPPING: Final = {"anyOf": [{"const": "any"}, {"type": "object"}]}


class ExpectedCall(Part):
    """One expected tool call."""

    tool: Text = Field(description="name of the tool")
    args: Annotated[Any, BeforeValidator(_arguments), WithJsonSchema(_ANY_OR_MAPPING)] = Field(
        default=ABSENT, description="arguments that the call must have; it may have more. `any`: all calls fit"
    )
    input: Annotated[Any, BeforeValidator(_arguments), WithJsonSchema(_ANY_OR_MAPPING)] = Field(
        default=ABSENT, description="another word for `args`"
    )
    output: Any = Field(
        default=ABSENT,
        description="what the call's `output` holds at every depth: listed keys of mappings, listed elements of lists "
        "from the start",
    )
    max_duration_ms: Amount | None = spelled(
        "max_duration_ms", "maxDurationMs", default=None, description="the most milliseconds the call may take"
    )


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


def args_match(expected: ExpectedCall, call: ToolCall) -> bool:
    """Return whether each expected argument is in the call's input with an equal value; more arguments are fine."""
    return _args_match(expected.args, call) and _args_match(expected.input, call)


def _args_match(wanted: Json, call: ToolCall) -> bool:
    if wanted is ABSENT or wanted is None or wanted == "any":
        return True
    if not isinstance(wanted, Mapping):
        return json_equal(wanted, call.input)
    if not isinstance(call.input, Mapping):
        return False
    return all(key in call.input and json_equal(value, call.input[key]) for key, value in wanted.items())


def holds(wanted: Json, given: Json) -> bool:
    """Return whether a value holds what is wanted, at every depth.

    A mapping holds the listed keys and may have more; a list begins with the listed elements and may go on.
    """
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            key in given and holds(value, given[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        is_list = isinstance(given, list | tuple) and len(given) >= len(wanted)
        return is_list and all(map(holds, wanted, given))
    return json_equal(wanted, given)


def call_fault(expected: ExpectedCall, call: ToolCall, target: str) -> str | None:
    """Return what is wrong with a call of the right tool; None when nothing is.

    Raises `EvaluatorError` when the call does not report what it is to be held against.
    """
    if not args_match(expected, call):
        return "args mismatch"
    if expected.output is not ABSENT:
        _require_reported(call.output is not ABSENT, "output", "output", call, target)
        if not holds(expected.output, call.output):
            return "output mismatch"
    if expected.max_duration_ms is not None:
        _require_reported(call.duration_ms is not None, "duration_ms", "max_duration_ms", call, target)
        if call.duration_ms is not None and call.duration_ms > expected.max_duration_ms:
            took, limit = format_number(call.duration_ms), format_number(expected.max_duration_ms)
            return f"took {took} ms, at most {limit} ms were expected"
    return None


def _require_reported(is_reported: bool, field: str, key: str, call: ToolCall, target: str) -> None:
    if not is_reported:
        message = (
            f"`{key}` of the expected call {call.tool!r} cannot be checked: target {target!r} does not report the "
            f"`{field}` of its tool calls. {DOCS} shows how a target reports it"
        )
        raise EvaluatorError(message, kind="config")


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
