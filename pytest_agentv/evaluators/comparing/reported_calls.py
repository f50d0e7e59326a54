"""The tool calls that led to an answer, as its target reports them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context
from pytest_agentv.evaluators.comparing.expected_calls import DOCS, arguments_of, call_fits
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.scores import Score
from pytest_agentv.models.traces import UNNAMED, traced_calls

NO_TRACE: Final = "No trace available for evaluation"
NAMELESS: Final = ("", UNNAMED)
"""The names of calls that do not report their tool. Such a call may be one of any tool."""


def no_trace(context: Context) -> Score:
    """Return the score of an answer with unknown tool calls. The mock of a dry run never reports any."""
    error = None if context.dry_run else why_unknown(context)
    return Score(0.0, misses=(NO_TRACE,), error=error, error_kind="config")


def why_unknown(context: Context) -> str:
    """Return why nobody knows the tool calls of an answer, and what to do."""
    said = f"target {context.target!r} reported neither messages nor a trace"
    return f"{NO_TRACE}: {said}. Let it report its tool calls, as {DOCS} shows"


def with_silent_calls(score: Score, wanted: Sequence[Json], calls: Iterable[ToolCall]) -> Score:
    """Mark a score of 0 as unknown if some calls do not report their tool or the expected arguments."""
    silent = silent_calls(wanted, calls)
    return score.replace(unknown=_silence(silent[0])) if silent and not score.value else score


def with_silent_count(score: Score, count: int, times: int, silent: Sequence[ToolCall]) -> Score:
    """Return the score of a number of calls, of which some do not report the tool or the arguments to count by.

    Raises `EvaluatorError` if the score would pass only because these calls are not counted.
    """
    if not silent or not count <= times <= count + len(silent):
        return score
    if score.value:
        raise EvaluatorError(f"{_silence(silent[0])}: nobody knows whether it counts", kind="config")
    return score.replace(unknown=_silence(silent[0]))


def silent_calls(wanted: Sequence[Json], calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Return the calls that do not report their tool or the expected arguments, or these in a text that is cut."""
    unread = [call for call in calls if call.tool in NAMELESS or call.input is ABSENT or _is_cut(call)]
    return [call for call in unread if call.tool in NAMELESS or not all(call_fits(args, call) for args in wanted)]


def _is_cut(call: ToolCall) -> bool:
    """Whether a call reports arguments as JSON in a text that is cut, as after a limit of tokens."""
    return isinstance(call.input, str) and call.input.lstrip().startswith("{") and arguments_of(call) is None


def _silence(call: ToolCall) -> str:
    if call.tool in NAMELESS:
        return "A call does not report the name of its tool"
    told = "reports arguments that are no JSON" if _is_cut(call) else "does not report its arguments"
    return f"A call of {call.tool!r} {told}"


def reported_calls(context: Context) -> tuple[ToolCall, ...] | None:
    """Return the calls in order: those of the output messages, else the trace's; None when there is neither."""
    told = tuple(call for message in context.output_messages or () for call in message.tool_calls)
    if told:
        return told
    if not context.trace and not context.reports_calls:
        return None
    if context.trace is None and context.output_messages is None:
        return None
    return tuple(traced_calls(context.trace or ()))


def all_calls(context: Context) -> tuple[ToolCall, ...] | None:
    """Return the reported calls, and after them those that only the trace reports; None when there is neither.

    A traced call with the id of a reported one is that call. Of the others, there are as many calls of each tool as the
    source reports that has more of them. A call must not escape a limit because the messages leave it out.
    """
    told = reported_calls(context)
    if not told:
        return told
    traced = tuple(traced_calls(context.trace or ()))
    shared = Counter(_ids(told)) & Counter(_ids(traced))
    others, unmatched = tuple(_without(told, shared)), tuple(_without(traced, shared))
    more = Counter(call.tool for call in unmatched) - Counter(call.tool or UNNAMED for call in others)
    return (*told, *_missing_calls(others, unmatched, more)) if more else told


def _ids(calls: Sequence[ToolCall]) -> Iterator[str]:
    return (call.id for call in calls if call.id)


def _without(calls: Sequence[ToolCall], ids: Mapping[str, int]) -> Iterator[ToolCall]:
    """Yield the calls, but leave out the first ones of each id: as many as `ids` says."""
    seen: Counter[str] = Counter()
    for call in calls:
        if call.id:
            seen[call.id] += 1
        if not call.id or seen[call.id] > ids.get(call.id, 0):
            yield call


def _missing_calls(told: Sequence[ToolCall], traced: Sequence[ToolCall], more: Mapping[str, int]) -> Iterator[ToolCall]:
    """Yield, by tool, the number of traced calls in `more`: those first that equal none of the messages."""
    seen = Counter(map(_call_key, told))
    unseen: list[ToolCall] = []
    for call in traced:
        key = _call_key(call)
        unseen += [] if seen[key] > 0 else [call]
        seen[key] -= 1
    for tool, count in more.items():
        yield from [call for call in unseen if call.tool == tool][-count:]


def _call_key(call: ToolCall) -> tuple[str, str]:
    """Return what equal calls share. Their arguments may be JSON in a text."""
    arguments = arguments_of(call)
    return call.tool or UNNAMED, repr(call.input if arguments is None else arguments)


def listed_calls(context: Context) -> tuple[ToolCall, ...] | None:
    """Return all calls; None if they are unknown, or only their numbers are known."""
    calls = all_calls(context)
    counts = call_counts(context, calls)
    return None if counts is None or (not calls and any(counts.values())) else calls or ()


def call_counts(context: Context, calls: Sequence[ToolCall] | None) -> Mapping[str, int] | None:
    """Return the number of `calls` by tool; where no call is listed, the trace summary's numbers.

    A summary without events holds metrics only, and says nothing of calls.
    """
    if not calls and context.trace_summary is not None and context.trace_summary.event_count:
        return context.trace_summary.tool_calls_by_name
    return None if calls is None else Counter(call.tool for call in calls)
