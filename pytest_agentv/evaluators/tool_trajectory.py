"""`tool_trajectory`: which tools were called, how often and in what order.

Scores are those of the requirement "Tool Trajectory Evaluator": `any_order` gives the share of the minimums that were
met; `in_order` and `exact` are all or nothing, with a hit or a miss for each expected call.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.evaluators.base import EvaluationContext
from pytest_agentv.evaluators.equality import json_equal
from pytest_agentv.models.base import ABSENT
from pytest_agentv.models.evaluator_configs import ExpectedCall, ToolTrajectoryConfig
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number

NO_TRACE: Final = Score(0.0, misses=("No trace available for evaluation",))
UNNAMED: Final = "(unnamed tool)"


@dataclass(frozen=True, slots=True)
class ToolTrajectoryEvaluator:
    """Holds the tool calls of an answer against those that were expected (agentv-formats 6.7)."""

    config: ToolTrajectoryConfig

    async def evaluate(self, context: EvaluationContext) -> Score:
        return score_trajectory(self.config, context)


def score_trajectory(config: ToolTrajectoryConfig, context: EvaluationContext) -> Score:
    """Score the tool calls of an answer; an answer that tells nothing of its calls scores 0."""
    if config.mode == "any_order":
        counts = call_counts(context)
        return NO_TRACE if counts is None else _score_counts(config.minimums or {}, counts)
    calls = reported_calls(context)
    if calls is None:
        return NO_TRACE
    compare = _compare_exactly if config.mode == "exact" else _find_in_order
    return compare(config.expected or (), calls)


def reported_calls(context: EvaluationContext) -> tuple[ToolCall, ...] | None:
    """Return the calls in order: those of the output messages, else the trace's; None when there is neither."""
    if context.output_messages is None and context.trace is None:
        return None
    told = tuple(call for message in context.output_messages or () for call in message.tool_calls)
    return told or tuple(
        ToolCall(event.name or UNNAMED, input=event.input) for event in context.trace or () if event.type == "tool_call"
    )


def call_counts(context: EvaluationContext) -> Mapping[str, int] | None:
    """Return the number of calls by tool; where no call is listed, the trace summary's numbers.

    A summary without events holds metrics only, and says nothing of calls.
    """
    calls = reported_calls(context)
    if not calls and context.trace_summary is not None and context.trace_summary.event_count:
        return context.trace_summary.tool_calls_by_name
    return None if calls is None else Counter(call.tool for call in calls)


def args_match(expected: ExpectedCall, call: ToolCall) -> bool:
    """Return whether each expected argument is in the call's input with an equal value; more arguments are fine."""
    if expected.args is ABSENT or expected.args is None or expected.args == "any":
        return True
    if not isinstance(expected.args, Mapping):
        return json_equal(expected.args, call.input)
    if not isinstance(call.input, Mapping):
        return False
    return all(key in call.input and json_equal(value, call.input[key]) for key, value in expected.args.items())


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


def _find_in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Score:
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
        if args_match(item, calls[found]):
            hits.append(f"Found {item.tool} at position {found}")
        else:
            misses.append(f"Expected {item.tool} at position {position}: tool found at {found} but args mismatch")
    return _all_or_nothing(hits, misses)


def _not_found(tool: str, calls: Sequence[ToolCall], used: set[int]) -> str:
    """Say that a tool is missing, and whether it was called too early."""
    early = next((index for index, call in enumerate(calls) if call.tool == tool and index not in used), None)
    hint = "" if early is None else f"; it was called too early, at position {early}"
    return f"not found in remaining trace{hint}"


def _compare_exactly(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Score:
    hits: list[str] = []
    misses: list[str] = []
    if len(expected) != len(calls):
        misses.append(f"Expected {len(expected)} tool calls, got {len(calls)}")
    for position, item in enumerate(expected):
        fault = _fault(item, calls[position] if position < len(calls) else None)
        if fault is None:
            hits.append(f"Position {position}: {item.tool}")
        else:
            misses.append(f"Position {position}: {fault}")
    extra = enumerate(calls[len(expected) :], start=len(expected))
    misses.extend(f"Position {position}: unexpected {call.tool}" for position, call in extra)
    return _all_or_nothing(hits, misses)


def _fault(expected: ExpectedCall, call: ToolCall | None) -> str | None:
    """Say what is wrong with the call at an expected one's position; None when nothing is."""
    if call is None:
        return f"expected {expected.tool}, got nothing"
    if call.tool != expected.tool:
        return f"expected {expected.tool}, got {call.tool}"
    return None if args_match(expected, call) else f"{expected.tool} args mismatch"


def _all_or_nothing(hits: Sequence[str], misses: Sequence[str]) -> Score:
    if not hits and not misses:
        return Score(1.0, hits=("No tool sequence specified",))
    return Score(0.0 if misses else 1.0, hits=tuple(hits), misses=tuple(misses))
