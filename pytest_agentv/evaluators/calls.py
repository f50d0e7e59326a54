"""Checks of what an agent did: its tool calls, their order and inputs, and the limits of time, cost and tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_equal, parse_json
from pytest_agentv.evaluators.base import Evaluator, ExpectedData, finite
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import SLACK
from pytest_agentv.evaluators.text import all_or_nothing, check_pattern, search_now, share, verdict
from pytest_agentv.model.base import (
    ABSENT,
    Json,
    JsonObject,
    compact_json,
    counted,
    digits_apart,
    format_fixed,
    format_number,
    is_amount,
)
from pytest_agentv.model.kind import NOT_EMPTY, Amount, Items, Part, Text, expected, spelled
from pytest_agentv.model.messages import UNNAMED, ExecutionMetrics, ToolCall, TraceSummary, traced_calls
from pytest_agentv.model.results import Score

# `tool-called` and `tool_trajectory`: which tools were called, how often and in what order, as the target reports.

DOCS: Final = "docs/evaluators.md#tool_trajectory"


def _arguments(value: Json) -> Json:
    if value is None:
        return ABSENT
    if value is not ABSENT and value != "any" and not isinstance(value, Mapping):
        raise expected("a mapping of arguments or the word any")
    for name, wanted in value.items() if isinstance(value, Mapping) else ():
        pattern = _rule(wanted, "regex")
        fault = check_pattern(pattern) if isinstance(pattern, str) else "a regex is a text"
        if pattern is not ABSENT and fault:
            raise ValueError(f"{name}: {fault}")
    return finite(value)


def _rule(wanted: Json, word: str) -> Json:
    """Return the value of an expected argument of the form `{word: value}`; else `ABSENT`."""
    return wanted[word] if isinstance(wanted, Mapping) and len(wanted) == 1 and word in wanted else ABSENT


Arguments: TypeAlias = Annotated[
    Any, BeforeValidator(_arguments), WithJsonSchema({"anyOf": [{"const": "any"}, {"type": "object"}]})
]
"""The arguments that a call must have; `any`: every call matches; ABSENT: nothing is expected."""


class ExpectedCall(Part):
    """One expected tool call."""

    tool: Text = Field(description="name of the tool")
    args: Arguments = Field(
        default=ABSENT,
        description="arguments that the call must have; it may have more. An argument may be `{regex: …}`, or "
        "`{any: true}`: it is there. `any`: every call matches",
        examples=[{"query": {"regex": "tents?"}}],
    )
    input: Arguments = Field(default=ABSENT, description="another word for `args`", examples=["any"])
    output: ExpectedData = Field(
        default=ABSENT,
        description="what the call's `output` holds at every depth: listed keys of mappings, listed elements of lists "
        "from the start",
    )
    max_duration_ms: Amount | None = spelled(
        "max_duration_ms", "maxDurationMs", default=None, description="the most milliseconds the call may take"
    )


class ToolCalled(Evaluator):
    """A tool was called, with some arguments, or some number of times."""

    kind = "tool-called"
    is_graded = False
    reads_answer = False
    examples = (
        {
            "answer": "The tent costs 120 euros.",
            "assert": [
                {"tool-called": "search"},
                {"tool-called": "search", "args": {"query": {"regex": "^tent"}}, "times": 1},
                {"not-tool-called": "delete"},
            ],
        },
    )

    value: Text = spelled("value", "tool", description="the name of the tool", examples=["search"])
    args: Arguments = Field(
        default=ABSENT,
        description="arguments of the calls that count: as in `tool_trajectory`, with `{regex: …}` and `{any: true}`",
        examples=[{"query": "tent"}],
    )
    times: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="how often it was called; default: at least once", examples=[1]
    )

    @classmethod
    def keys_of(cls, value: Json) -> JsonObject:
        """In the short form, `name` is the tool's name: `{tool-called: {name: search, args: …}}`."""
        return {"value" if key == "name" else key: item for key, item in super().keys_of(value).items()}

    async def evaluate(self, context: Context) -> Score:
        calls, counts = calls_of(context)
        if counts is None or (self.args is not ABSENT and calls is None):
            return no_trace(context)
        fitting = [call for call in calls or () if call.tool == self.value and call_fits(self.args, call)]
        count = counts.get(self.value, 0) if self.args is ABSENT else len(fitting)
        wanted = "at least once" if self.times is None else f"expected: {self.times}"
        arguments = "" if self.args is ABSENT else " with these arguments"
        what = f"{self.value} called {counted(count, 'time')}{arguments} ({wanted})"
        found = verdict(self._is_enough(count), what, what)
        silent = silences(self.value, [self.args], calls or ())
        if len({self._is_enough(count + more) for more in range(len(silent) + 1)}) == 1:
            return found
        if found.value:
            raise EvaluatorError(f"{silent[0]}: nobody knows whether it counts", kind="config")
        return found.replace(unknown=silent[0])

    def _is_enough(self, count: int) -> bool:
        return count > 0 if self.times is None else count == self.times


_LIMITS: Final = ("forbidden", "maximums", "no_tools", "max_calls")
_READS: Final = {"any_order": "minimums", "in_order": "expected", "exact": "expected"}
"""The key that each mode reads."""
_ORDERS: Final = ("in_order", "exact")


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
    max_calls: Annotated[int, Field(ge=0)] | None = spelled(
        "max_calls", "maxCalls", default=None, description="a limit: the most calls in all", examples=[10]
    )
    no_tools: Literal[True] | None = spelled(
        "no_tools", "noTools", default=None, description="a limit: `true` if no tool may be called", examples=[True]
    )

    @model_validator(mode="after")
    def _needs_what_its_mode_reads(self) -> Self:
        has_limit = any(getattr(self, key) is not None for key in _LIMITS)
        if self.mode is None and not has_limit:
            raise ValueError(f"tool_trajectory needs a mode, or a limit: {', '.join(_LIMITS)}")
        key = _READS.get(self.mode or "")
        if key and getattr(self, key) is None and not (has_limit and self.mode == "any_order"):
            raise ValueError(f"mode {self.mode} needs the key '{key}'")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        for key, mode in (("minimums", "any_order"), ("expected", "in_order")):
            if getattr(self, key) is not None and self.mode is None:
                yield key, f"write mode: {mode} beside it"
            elif getattr(self, key) is not None and self.mode is not None and _READS[self.mode] != key:
                yield key, f"mode {self.mode} reads '{_READS[self.mode]}' only"

    async def evaluate(self, context: Context) -> Score:
        """A limit that is not met makes the score 0. Source: the requirement "Tool Trajectory Evaluator"."""
        calls, counts = calls_of(context)
        if counts is None or (self.mode in _ORDERS and calls is None):
            return no_trace(context)
        limits = all_or_nothing(_limit_findings(self, counts))
        if (self.forbidden or self.maximums) and limits.value and any(map(counts.get, NAMELESS)):
            raise EvaluatorError(f"{_NAMELESS_CALL}: nobody knows whether it counts", "config")
        if self.mode not in _ORDERS and self.minimums is None and (limits.hits or limits.misses):
            score = Score(1.0)
        else:
            score = _score_mode(self, calls or (), counts)
        found = score.replace(hits=(*score.hits, *limits.hits), misses=(*score.misses, *limits.misses))
        return found if limits.value else found.replace(value=0.0, unknown=None, unchecked=None)


def _limit_findings(config: ToolTrajectory, counts: Mapping[str, int]) -> Iterator[tuple[bool, str]]:
    """Yield for each limit whether it is met, and what was counted."""
    for tool in config.forbidden or ():
        count = counts.get(tool, 0)
        yield not count, f"{tool} called {counted(count, 'time')} (forbidden)"
    for tool, most in (config.maximums or {}).items():
        count = counts.get(tool, 0)
        yield count <= most, f"{tool} called {counted(count, 'time')} (maximum: {format_number(most)})"
    total = sum(counts.values())
    if config.max_calls is not None:
        yield total <= config.max_calls, f"{counted(total, 'tool call')} (maximum: {config.max_calls})"
    if config.no_tools:
        names = f": {', '.join(counts)}" if counts else ""
        yield not total, f"{counted(total, 'tool call')} (none is allowed){names}"


def _score_mode(config: ToolTrajectory, calls: Sequence[ToolCall], counts: Mapping[str, int]) -> Score:
    """Score the calls by the mode, without the limits. A score of 0 is unknown if a call does not report enough."""
    if config.mode not in _ORDERS:
        score, unsure = _score_counts(config.minimums or {}, counts), silences(None, [], calls)
    else:
        expected = config.expected or ()
        if not expected and (config.mode == "in_order" or not calls):
            return Score(1.0, hits=("No tool sequence specified",))
        compare = _compare_exactly if config.mode == "exact" else _find_in_order
        score = all_or_nothing(compare(expected, calls))
        if config.mode == "in_order" and not score.value and _may_have_come(expected, calls):
            # AgentV's rule about other arguments must not hide a sequence that a negated check forbids.
            score = score.replace(unchecked="An earlier call had other arguments, and the sequence may stand behind it")
        unsure = [silence for item in expected for silence in silences(item.tool, [item.args, item.input], calls)]
    return score.replace(unknown=unsure[0]) if unsure and not score.value else score


def _score_counts(minimums: Mapping[str, float], counts: Mapping[str, int]) -> Score:
    if not minimums:
        return Score(1.0, hits=("No tool requirements specified",))
    return share(
        (
            counts.get(tool, 0) >= minimum,
            f"{tool} called {counted(counts.get(tool, 0), 'time')} (minimum: {format_number(minimum)})",
        )
        for tool, minimum in minimums.items()
    )


def _find_in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Iterator[tuple[bool, str]]:
    """Search forward: a call of the right tool with other arguments is consumed; a missing tool consumes no call."""
    used: set[int] = set()
    for position, item in enumerate(expected):
        after = max(used, default=-1) + 1
        same = [index for index, call in enumerate(calls) if call.tool == item.tool and index not in used]
        found = next((index for index in same if index >= after), None)
        if found is None:
            hint = f"; it was called too early, at position {same[0]}" if same else ""
            yield False, f"Expected {item.tool} at position {position}, not found in remaining trace{hint}"
            continue
        used.add(found)
        if fault := call_fault(item, calls[found]):
            yield False, f"Expected {item.tool} at position {position}: tool found at {found} but {fault}"
        else:
            yield True, f"Found {item.tool} at position {found}"


def _may_have_come(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> bool:
    """Whether the calls came in this order, whatever came between them, or one does not report what is compared."""
    rest = iter(calls)
    try:
        return all(any(call.tool == item.tool and not call_fault(item, call) for call in rest) for item in expected)
    except EvaluatorError:
        return True


def _compare_exactly(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Iterator[tuple[bool, str]]:
    if len(expected) != len(calls):
        yield False, f"Expected {len(expected)} tool calls, got {len(calls)}"
    for position, (item, call) in enumerate(zip_longest(expected, calls)):
        if item is None:
            yield False, f"Position {position}: unexpected {call.tool}"
        else:
            if call is None or call.tool != item.tool:
                fault: str | None = f"expected {item.tool}, got {'nothing' if call is None else call.tool}"
            elif fault := call_fault(item, call):
                fault = f"{item.tool} {fault}"
            yield fault is None, f"Position {position}: {fault or item.tool}"


def call_fits(wanted: Json, call: ToolCall) -> bool:
    """Return whether a call has the expected arguments."""
    if wanted is ABSENT or wanted is None or wanted == "any":
        return True
    given = arguments_of(call)
    return given is not None and all(
        key in given and _argument_fits(value, given[key]) for key, value in wanted.items()
    )


def arguments_of(call: ToolCall) -> JsonObject | None:
    """Return the arguments of a call, which OpenAI's API reports as JSON in a text; None: it has no mapping."""
    given = parse_json(call.input.strip() or "{}") if isinstance(call.input, str) else call.input
    return given if isinstance(given, Mapping) else None


def _argument_fits(wanted: Json, given: Json) -> bool:
    """Whether an argument is the expected one. Raises `EvaluatorError` for a pattern that takes too long."""
    if _rule(wanted, "any") is True:
        return True
    pattern = _rule(wanted, "regex")
    if not isinstance(pattern, str):
        return json_equal(wanted, given)
    try:
        return search_now(pattern, given if isinstance(given, str) else compact_json(given)) is not None
    except TimeoutError as error:
        raise EvaluatorError(str(error), kind="timeout") from None


def holds(wanted: Json, given: Json) -> bool:
    """Whether a value has all expected keys of mappings and, from the start, elements of lists, at every depth."""
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return all(key in given and holds(value, given[key]) for key, value in wanted.items())
    if isinstance(wanted, list | tuple) and isinstance(given, list | tuple):
        return len(given) >= len(wanted) and all(map(holds, wanted, given))
    return json_equal(wanted, given)


def call_fault(expected: ExpectedCall, call: ToolCall) -> str | None:
    """Return the fault of a call of the right tool. Raises `EvaluatorError` if it does not report what is compared."""
    if not (call_fits(expected.args, call) and call_fits(expected.input, call)):
        return "args mismatch"
    most, took = expected.max_duration_ms, call.duration_ms
    lacks_output = expected.output is not ABSENT and call.output is ABSENT
    if lacks_output or (most is not None and not is_amount(took)):
        key = "output" if lacks_output else "max_duration_ms"
        lacking = f"the target does not report the `{key.removeprefix('max_')}` of its tool calls"
        message = f"`{key}` of the expected call {call.tool!r} cannot be checked: {lacking}"
        raise EvaluatorError(f"{message}. {DOCS} shows how a target reports it", kind="config")
    if expected.output is not ABSENT and not holds(expected.output, call.output):
        return "output mismatch"
    if most is not None and took is not None and took > most:
        return f"took {format_number(took)} ms, at most {format_number(most)} ms were expected"
    return None


NO_TRACE: Final = "No trace available for evaluation"
NAMELESS: Final = ("", UNNAMED)
"""The names of calls that do not report their tool. Such a call may be one of any tool."""
_NAMELESS_CALL: Final = "A call does not report the name of its tool"


def no_trace(context: Context) -> Score:
    """Return the score of an answer with unknown tool calls. The mock of a dry run never reports any."""
    error = None if context.dry_run else why_unknown(context)
    return Score(0.0, misses=(NO_TRACE,), error=error, error_kind="config")


def why_unknown(context: Context) -> str:
    """Return why nobody knows the tool calls of an answer, and what to do."""
    said = f"target {context.target!r} reported neither messages nor a trace"
    return f"{NO_TRACE}: {said}. Let it report its tool calls, as {DOCS} shows"


def silences(tool: str | None, wanted: Sequence[Json], calls: Iterable[ToolCall]) -> list[str]:
    """Return of each call that may be an expected one of a tool, but does not report enough, what it lacks."""
    found: list[str] = []
    for call in calls:
        if call.tool in NAMELESS:
            found.append(_NAMELESS_CALL)
        elif call.tool == tool and arguments_of(call) is None and not all(call_fits(args, call) for args in wanted):
            told = "does not report its arguments" if call.input is ABSENT else "reports arguments that are no JSON"
            found.append(f"A call of {call.tool!r} {told}")
    return found


def calls_of(context: Context) -> tuple[Sequence[ToolCall] | None, Mapping[str, int] | None]:
    """Return the calls in order, and their number by tool; None: unknown. A trace summary tells the numbers alone.

    The calls are those of the output messages, or of the trace if that has more of them, with those of tools that only
    the other one names: none escapes a limit because one of the two leaves it out.
    """
    told = tuple(call for message in context.output_messages or () for call in message.tool_calls)
    traced = tuple(traced_calls(context.trace or ()))
    calls, others = (traced, told) if len(traced) > len(told) else (told, traced)
    names, ids = {*NAMELESS, *(call.tool for call in calls)}, {call.id for call in calls if call.id}
    calls += tuple(call for call in others if call.tool not in names and call.id not in ids)
    summary = context.trace_summary
    if not calls and summary is not None and summary.event_count:  # without events it holds metrics only
        return (None if any(summary.tool_calls_by_name.values()) else ()), summary.tool_calls_by_name
    is_reported = context.reports_calls and (context.trace is not None or context.output_messages is not None)
    if not calls and not context.trace and not is_reported:
        return None, None
    return calls, Counter(call.tool for call in calls)


# `latency`, `cost` and `token_usage`: amounts that are compared with limits (agentv-formats 6.9).


class Limit(Evaluator):
    """A limit on figures that the target reports."""

    is_graded = False
    reads_answer = False

    async def evaluate(self, context: Context) -> Score:
        score = self.check(context.metrics or context.trace_summary or ExecutionMetrics())
        # The mock of a dry run reports less than the target: that is no reason to refuse a negation.
        return score.replace(unknown=None) if context.dry_run else score

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        """Judge the reported metrics."""
        raise NotImplementedError


def _limit(amount: float, limit: float, text: str) -> tuple[bool, str]:
    """Return whether an amount is within its limit, and a text, which has `{}` where the sign goes."""
    is_met = amount <= limit + SLACK  # as floats, 0.1 + 0.2 is more than 0.3
    return is_met, text.format("<=" if is_met else ">")


def _unreported(data: str, figure: str) -> Score:
    reasoning = f"{figure} not reported by provider"
    return Score(0.0, misses=(f"No {data} data available in trace",), reasoning=reasoning, unknown=reasoning)


class Latency(Limit):
    """The longest an answer may take."""

    kind = "latency"
    short_key = "threshold"

    threshold: Amount = Field(description="milliseconds")

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        if metrics.duration_ms is None:
            return _unreported("duration", "Execution duration")
        took, most = f"{format_number(metrics.duration_ms)}ms", f"{format_number(self.threshold)}ms"
        limit = _limit(metrics.duration_ms, self.threshold, f"Duration {took} {{}} {most} threshold")
        return all_or_nothing([limit], f"Execution took {took} (threshold: {most})")


class Cost(Limit):
    """The most an answer may cost."""

    kind = "cost"
    short_key = "budget"
    hints: ClassVar[Mapping[str, str]] = {"threshold": "did you mean 'budget'?"}

    budget: Amount = Field(description="US dollars")

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        if metrics.cost_usd is None:
            return _unreported("cost", "Execution cost")
        digits = digits_apart(metrics.cost_usd, self.budget, 4)
        spent, most = f"${format_fixed(metrics.cost_usd, digits)}", f"${format_fixed(self.budget, digits)}"
        limit = _limit(metrics.cost_usd, self.budget, f"Cost {spent} {{}} {most} budget")
        return all_or_nothing([limit], f"Execution cost {spent} (budget: {most})")


class TokenUsageLimit(Limit):
    """The most tokens an answer may use; at least one limit is set."""

    kind = "token_usage"
    short_key = "max_total"

    max_total: Amount | None = spelled(
        "max_total", "maxTotal", default=None, description="most tokens in all, cached ones too"
    )
    max_input: Amount | None = spelled("max_input", "maxInput", default=None, description="most tokens of the prompt")
    max_output: Amount | None = spelled(
        "max_output", "maxOutput", default=None, description="most tokens of the answer"
    )

    @model_validator(mode="after")
    def _needs_a_limit(self) -> Self:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise ValueError("token_usage needs a limit: max_total, max_input or max_output")
        return self

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        usage = metrics.token_usage
        if usage is None:
            return _unreported("token usage", "Token usage")
        amounts = {"input": usage.input, "output": usage.output, "cached": usage.cached or 0, "total": usage.total}
        findings: list[tuple[bool, str]] = []
        for name in ("input", "output", "total"):
            most: float | None = getattr(self, f"max_{name}")
            if most is not None:
                said = f"{name.title()} tokens {format_number(amounts[name])} {{}} {format_number(most)}"
                findings.append(_limit(amounts[name], most, said))
        numbers = ", ".join(f"{name}={format_number(amount)}" for name, amount in amounts.items())
        return all_or_nothing(findings, f"token_usage {numbers}")
