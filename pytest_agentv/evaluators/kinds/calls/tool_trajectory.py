"""`tool_trajectory`: which tools were called, how often and in what order.

Scores are those of the requirement "Tool Trajectory Evaluator": `any_order` gives the share of the minimums that were
met; `in_order` and `exact` are all or nothing, with a hit or a miss for each expected call. If the target does not
report calls, they cannot be judged: that is an error, and says nothing about the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.comparing.expected_calls import ExpectedCall, call_fault
from pytest_agentv.evaluators.comparing.reported_calls import (
    NAMELESS,
    all_calls,
    call_counts,
    no_trace,
    reported_calls,
    with_silent_calls,
)
from pytest_agentv.models.kind import NOT_EMPTY, Amount, Items, Text, spelled
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import counted, format_number
from pytest_agentv.models.traces import traced_calls

_MOST: TypeAlias = Annotated[int, Field(ge=0)]
_LIMITS = ("forbidden", "maximums", "no_tools", "max_calls")


class ToolTrajectory(Evaluator):
    """Which tools were called, how often and in what order (agentv-formats 6.7)."""

    kind = "tool_trajectory"
    short_key = None
    reads_answer = False

    mode: Literal["any_order", "in_order", "exact"] | None = Field(
        default=None,
        description="how the calls are compared; optional if there are limits",
        examples=["in_order"],
    )
    minimums: dict[str, Amount] | None = Field(
        default=None, description="with `any_order`: least calls by tool", examples=[{"search": 1}]
    )
    expected: Items[ExpectedCall] | None = Field(
        default=None,
        description="with `in_order` (others may be between) and `exact` (no others): the calls",
        examples=[[{"tool": "search"}, {"tool": "read"}]],
    )
    maximums: dict[str, Amount] | None = Field(
        default=None, description="a limit: most calls by tool", examples=[{"search": 3}]
    )
    forbidden: Annotated[Items[Text], NOT_EMPTY] | None = Field(
        default=None, description="a limit: tools that are not called", examples=[["delete"]]
    )
    max_calls: _MOST | None = spelled(
        "max_calls", "maxCalls", default=None, description="a limit: the most calls in all", examples=[10]
    )
    no_tools: Literal[True] | None = spelled(
        "no_tools", "noTools", default=None, description="a limit: `true` if no tool may be called", examples=[True]
    )

    @model_validator(mode="after")
    def _needs_what_its_mode_reads(self) -> Self:
        if self.mode is None:
            if all(getattr(self, key) is None for key in _LIMITS):
                raise ValueError(f"tool_trajectory needs a mode, or a limit: {', '.join(_LIMITS)}")
            return self
        needed = "minimums" if self.mode == "any_order" else "expected"
        has_limit = self.mode == "any_order" and any(getattr(self, key) is not None for key in _LIMITS)
        if getattr(self, needed) is None and not has_limit:
            raise ValueError(f"mode {self.mode} needs the key '{needed}'")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        if self.mode is None:
            for key in ("minimums", "expected"):
                if getattr(self, key) is not None:
                    yield key, f"write mode: {'any_order' if key == 'minimums' else 'in_order'} beside it"
            return
        needed, other = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, other) is not None:
            yield other, f"mode {self.mode} reads '{needed}' only"

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return score_trajectory(self, context)


def score_trajectory(config: ToolTrajectory, context: Context) -> Score:
    """Score the tool calls of an answer. A limit that is not met makes the score 0.

    Limits count the calls that only the trace reports as well. If the target does not report its calls, the score is 0
    with `error`. Raises `EvaluatorError` if a call does not report the values to compare.
    """
    calls, limited = reported_calls(context), all_calls(context)
    counts, limited_counts = call_counts(context, calls), call_counts(context, limited)
    by_order = config.mode in ("in_order", "exact")
    if counts is None or limited_counts is None or (by_order and calls is None):
        return no_trace(context)
    kept, broken = _score_limits(config, limited_counts)
    if (config.forbidden or config.maximums) and not broken and any(map(limited_counts.get, NAMELESS)):
        raise EvaluatorError("A call does not report the name of its tool: nobody knows whether it counts", "config")
    if not by_order and config.minimums is None and (kept or broken):
        score = Score(1.0)
    else:
        score = _score_mode(config, calls or (), counts, context.target)
        if len(limited or ()) > len(calls or ()):
            score = _with_trace(score, config, tuple(traced_calls(context.trace or ())), context.target)
    found = score.replace(hits=(*score.hits, *kept), misses=(*score.misses, *broken))
    return found.replace(value=0.0, unknown=None, unchecked=None) if broken else found


def _score_mode(config: ToolTrajectory, calls: Sequence[ToolCall], counts: Mapping[str, int], target: str) -> Score:
    """Score the calls by the mode, without the limits."""
    if config.mode not in ("in_order", "exact"):
        return with_silent_calls(_score_counts(config.minimums or {}, counts), [], calls)
    compare = _compare_exactly if config.mode == "exact" else _find_in_order
    score = compare(config.expected or (), calls, target)
    for item in config.expected or ():
        same = [call for call in calls if call.tool in (item.tool, *NAMELESS)]
        score = with_silent_calls(score, [item.args, item.input], same)
    return score


def _with_trace(score: Score, config: ToolTrajectory, traced: Sequence[ToolCall], target: str) -> Score:
    """Keep a negated check from passing on the score of the messages, if the trace reports what it forbids."""
    with suppress(EvaluatorError):  # a call of the trace does not report what is compared
        by_trace = _score_mode(config, traced, Counter(call.tool for call in traced), target)
        if by_trace.value > score.value:
            return score.replace(unchecked="The trace reports these calls, the messages do not")
    return score


def _score_limits(config: ToolTrajectory, counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return the limits that are met, and those that are not."""
    kept: list[str] = []
    broken: list[str] = []
    for tool in config.forbidden or ():
        count = counts.get(tool, 0)
        (broken if count else kept).append(f"{tool} called {counted(count, 'time')} (forbidden)")
    for tool, most in (config.maximums or {}).items():
        count = counts.get(tool, 0)
        text = f"{tool} called {counted(count, 'time')} (maximum: {format_number(most)})"
        (kept if count <= most else broken).append(text)
    total = sum(counts.values())
    if config.max_calls is not None:
        found = kept if total <= config.max_calls else broken
        found.append(f"{counted(total, 'tool call')} (maximum: {config.max_calls})")
    if config.no_tools:
        names = f": {', '.join(counts)}" if counts else ""
        (broken if total else kept).append(f"{counted(total, 'tool call')} (none is allowed){names}")
    return kept, broken


def _score_counts(minimums: Mapping[str, float], counts: Mapping[str, int]) -> Score:
    if not minimums:
        return Score(1.0, hits=("No tool requirements specified",))
    hits: list[str] = []
    misses: list[str] = []
    for tool, minimum in minimums.items():
        count = counts.get(tool, 0)
        found = hits if count >= minimum else misses
        found.append(f"{tool} called {counted(count, 'time')} (minimum: {format_number(minimum)})")
    return Score(len(hits) / len(minimums), hits=tuple(hits), misses=tuple(misses))


def _find_in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], target: str) -> Score:
    """Search forward: a call of the right tool with other arguments is consumed; a missing tool consumes no call."""
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
    # AgentV's rule about other arguments must not hide a sequence that a negated check forbids.
    hidden = "The calls came in this order, after one with other arguments" if misses else None
    return _all_or_nothing(hits, misses).replace(unchecked=hidden if _came(expected, calls, target) else None)


def _came(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], target: str) -> bool:
    """Whether the expected calls came in this order, whatever was called between them."""
    rest = iter(calls)
    with suppress(EvaluatorError):  # a call does not report what is compared
        return all(any(_fault(item, call, target) is None for call in rest) for item in expected)
    return False


def _not_found(tool: str, calls: Sequence[ToolCall], used: set[int]) -> str:
    """Describe a missing tool, and whether it was called too early."""
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
    """Describe the fault of the call at an expected call's position; None if there is none."""
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
