"""Calls a provider, and reads the answer out of its response: text, trace, metrics."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, is_amount, is_measure, json_fault, text_or_none
from pytest_agentv.model.messages import (
    Costs,
    ExecutionMetrics,
    Message,
    TokenUsage,
    ToolCall,
    TraceEvent,
    TraceSummary,
    added_usage,
    candidate_answer,
    traced_calls,
)
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.base import (
    Adapter,
    ProviderRequest,
    ProviderResponse,
    error_text,
    require_answer,
    with_trace,
)
from pytest_agentv.runtime.user_code import attempt_async, attempt_here, describe_error, leaves, run_in_thread, told

# The trace and the metrics of a response, checked, and the summary of the trace.

_UNKNOWN: Final = ExecutionMetrics()


def extract_trace(response: ProviderResponse) -> tuple[TraceEvent, ...] | None:
    """Return the trace of a response; None without a trace and without messages, or if it is only a text.

    Uses the provider's own trace, which may come from a file (`with_trace`), else the tool calls of its messages.
    Source: evaluation-2026-01, "Explicit trace takes precedence" and "Trace extraction maps tool call fields".
    """
    if response.trace is not None:
        return response.trace
    if response.output_messages is not None and not response.is_text_only:
        return tuple(
            TraceEvent(
                "tool_call",
                timestamp=call.timestamp or message.timestamp,
                id=call.id,
                name=call.tool,
                input=call.input,
                output=call.output,
            )
            for message in response.output_messages
            for call in message.tool_calls
        )
    return None


def _summarized(events: Sequence[TraceEvent] | None, metrics: ExecutionMetrics) -> TraceSummary | None:
    """Summarize a trace and its metrics; None without a trace.

    Every event counts, so each tool call of a message counts as one event.
    Source: evaluation-2026-01, "TraceSummary computation" and "TraceSummary from outputMessages".
    """
    if events is None:
        return None
    calls: Counter[str] = Counter()
    errors = 0
    for event in events:
        errors += event.type == "error"
        if event.type == "tool_call" and event.name is not None:
            calls[event.name] += 1
    return TraceSummary(
        event_count=len(events),
        tool_names=tuple(sorted(calls)),
        tool_calls_by_name=dict(calls),
        error_count=errors,
        token_usage=metrics.token_usage,
        cost_usd=metrics.cost_usd,
        duration_ms=metrics.duration_ms,
    )


def checked_metrics(response: ProviderResponse) -> tuple[ExecutionMetrics, list[str]]:
    """Return the metrics that a response reports, and a text for each invalid one, which is left out.

    Invalid are negative, infinite and non-number values. Source: evaluation-2026-01, "Metrics schema validation".
    """
    warnings: list[str] = []
    duration_ms = _checked("duration_ms", response.duration_ms, warnings)
    token_usage = _checked_usage(response.token_usage, warnings)
    cost_usd = _checked("cost_usd", response.cost_usd, warnings)
    calls = [call for message in response.output_messages or () for call in message.tool_calls]
    durations = _durations(calls, warnings) if calls else {}
    if response.trace is not None:  # those of the messages count first
        others = [call for call in traced_calls(response.trace) if call.tool not in durations]
        durations = {**_durations(others, warnings), **durations}
    return ExecutionMetrics(token_usage, cost_usd, duration_ms, durations or None), warnings


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
    names = ("input", "output", "cached", "reasoning")
    tokens = {name: _checked(f"token_usage.{name}", getattr(usage, name), warnings) for name in names}
    return None if tokens["input"] is None or tokens["output"] is None else usage.replace(**tokens)


def _durations(calls: Iterable[ToolCall], warnings: list[str]) -> dict[str, tuple[float, ...]]:
    durations: dict[str, list[float]] = {}
    for call in calls:
        duration = _checked(f"duration_ms of the tool {call.tool!r}", call.duration_ms, warnings)
        if duration is not None:
            durations.setdefault(call.tool, []).append(duration)
    return {tool: tuple(values) for tool, values in durations.items()}


def _with_ratios(metrics: ExecutionMetrics, events: Sequence[TraceEvent], exploring: Sequence[str]) -> ExecutionMetrics:
    """Return metrics with the ratios of the tool calls of a trace; `exploring` are the names of tools that explore."""
    tools = [event.name for event in events if event.type == "tool_call"]
    if not tools:
        return metrics
    usage = metrics.token_usage
    return metrics.replace(
        exploration_ratio=sum(tool in exploring for tool in tools) / len(tools),
        tokens_per_tool=usage.output / len(tools) if usage else None,
    )


def _without_odd_durations(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages without durations of calls that are no numbers, which no record can hold."""
    return tuple(
        message.replace(
            tool_calls=tuple(
                call if call.duration_ms is None or is_measure(call.duration_ms) else call.replace(duration_ms=None)
                for call in message.tool_calls
            )
        )
        for message in messages
    )


# The calls, repeated after a time-out.

_LOGGER: Final = logging.getLogger(__name__)
_GRACE_SECONDS: Final = 10.0
"""Extra time before this limit acts. Providers keep the time limit themselves and need time to end processes."""

_FIGURES: Final = ("request_attempts", "waited_ms")


@dataclass(frozen=True, slots=True)
class Attempts(Record):
    """The outcome of the calls: a response, or the last call's error."""

    count: int
    """Number of calls, including the last one."""
    duration_ms: float | None
    """Wall time of the last call; None without a call."""
    response: ProviderResponse | None = None
    error: ProviderError | None = None
    requests: JsonObject = field(default_factory=dict)
    """The provider's data on its API requests and its log, under the keys of results."""
    lost: tuple[ProviderResponse, ...] = ()
    """What earlier calls reported that timed out, or that were given up with their batch: they were paid for."""

    def reply(self) -> ProviderResponse:
        """Return the response. Raises the error of the last call if there is none."""
        if self.response is None:
            raise self.error or ProviderError("the provider gave no response")
        return self.response

    def answer(self) -> ProviderResponse:
        """Return the response. Raises `ProviderError` if there is none, or if it holds no answer."""
        response = self.reply()
        if response.error is not None:
            raise ProviderError(response.error, response.error_kind)
        return response


async def invoke_with_retries(
    provider: Adapter, request: ProviderRequest, max_retries: int, called: str = "target"
) -> Attempts:
    """Call a provider, and retry a call that timed out up to `max_retries` times. Logs each call of `called`.

    Returns any failure of the provider as a value. Source: decisions 26, "Timeout with retry".
    """
    requests: JsonObject = {}
    lost: tuple[ProviderResponse, ...] = ()
    while True:
        started = time.perf_counter()
        response = error = None
        try:
            response = await invoke_within_limit(provider, request)
            raw = {} if response.cached else response.raw
        except ProviderError as failure:
            error, raw = failure, failure.raw
        raw = _checked_raw(raw) if raw else {}
        if response is not None:
            with suppress(RecursionError, TypeError, ValueError):  # content that is no JSON, which its reader reports
                response = require_answer(response)
        sums = {name: requests.get(name, 0) + raw[name] for name in _FIGURES if name in raw}
        requests = {**requests, **raw, **sums}
        attempts = Attempts(request.attempt + 1, _milliseconds_since(started), response, error, requests, lost)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            _log_call(called, attempts, raw)
        # A call that timed out has a response if it reported what it cost until then.
        kind = error.kind if error is not None else response.error_kind if response and response.error else None
        if kind != "timeout" or request.attempt >= max_retries:
            if error is not None and lost:  # these were paid for: the record needs a response
                failed = ProviderResponse(error=str(error), error_kind=error.kind)
                attempts = attempts.replace(response=failed, error=None)
            return attempts
        lost += () if response is None else (response,)
        request = request.replace(attempt=request.attempt + 1)


def _checked_raw(raw: JsonObject) -> JsonObject:
    """Return the data on API requests and the log, without values of wrong types, which users' code may put there."""
    figures = {name: raw[name] for name in _FIGURES if is_amount(raw.get(name))}
    return {**figures, **{name: raw[name] for name in ("last_error", "log_file") if isinstance(raw.get(name), str)}}


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000)


def _log_call(called: str, attempts: Attempts, raw: JsonObject) -> None:
    response, error = attempts.response, attempts.error
    if fault := error or (response and response.error):
        outcome = f"failed: {fault}"
    elif response is not None and response.cached:
        outcome = "answered from the store"
    elif raw.get("request_attempts", 1) > 1:
        outcome = f"answered at request {raw['request_attempts']}; before: {raw.get('last_error')}"
    else:
        outcome = "answered"
    _LOGGER.debug("%s", masked(f"{called}: call {attempts.count}, {attempts.duration_ms:g} ms: {outcome}"))


async def invoke_within_limit(provider: Adapter, request: ProviderRequest) -> ProviderResponse:
    """Call a provider once. Raises `ProviderError` for every error, because a plugin's provider may raise any."""
    limit = None if request.timeout_seconds is None else request.timeout_seconds + _GRACE_SECONDS
    if getattr(provider, "keeps_limits", False):
        limit = None  # the call may wait for others first
    attempt = attempt_here if getattr(provider, "needs_no_task", False) else attempt_async
    started = time.monotonic()
    try:
        async with asyncio.timeout(limit):
            outcome = await attempt(lambda: provider.invoke(request))
    except TimeoutError:
        raise _timeout_error(request) from None
    if limit is not None and time.monotonic() - started > limit:  # the call blocked the loop, and the timeout with it
        raise _timeout_error(request)
    error = outcome.error
    if error is None:
        return outcome.get()
    if isinstance(error, ProviderError):
        raise error if str(error).strip() else ProviderError(told(error), error.kind, error.raw)
    is_timeout = all(isinstance(leaf, TimeoutError) for leaf in leaves(error))
    raise ProviderError(describe_error(error), "timeout" if is_timeout else "crash") from error


def _timeout_error(request: ProviderRequest) -> ProviderError:
    return ProviderError(f"no answer within {request.timeout_seconds or 0:g} s", "timeout")


def timed(response: ProviderResponse, started: float) -> ProviderResponse:
    """Return a response with the time that the call took, if it does not tell. `started` is of `time.perf_counter`."""
    return response.replace(duration_ms=_milliseconds_since(started)) if response.duration_ms is None else response


class OuterAdapter:
    """Stands before the adapter of a target, which is checked and closed by itself."""

    async def check(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def costs_of(attempts: Attempts) -> Costs:
    """Return what the calls for an answer took. A given answer counts as one call, and one of the cache as none."""
    response = attempts.response
    if response is not None and response.conversation is not None:
        return Costs() if response.cached else response.conversation.costs
    told = [*attempts.lost, *([] if response is None or response.cached else [response])]
    silent = attempts.count - len(told) - (response is not None and response.cached)
    unknown = [Costs(silent)] if silent > 0 else []
    return Costs.added([*unknown, *[Costs.of_call(each.token_usage, each.cost_usd) for each in told]])


# The answer in a response: its text, its trace and its metrics.

logger = logging.getLogger("pytest_agentv.engine")

_DEEPEST: Final = 200
"""Levels of nesting of what a target reports, as of answers in JSON."""


@dataclass(frozen=True, slots=True)
class Answered(Record):
    """The response of the target, as it is judged and recorded."""

    response: ProviderResponse
    """With the trace of its file."""
    attempts: Attempts
    """The calls for it."""
    candidate_answer: str
    output_messages: tuple[Message, ...] | None
    """Those of the response that a record can hold."""
    trace: tuple[TraceEvent, ...] | None
    trace_summary: TraceSummary | None
    metrics: ExecutionMetrics | None
    """Those of the last call, which are judged."""
    paid: ExecutionMetrics | None
    """The same with tokens and cost of earlier calls that timed out, for the record."""
    error: str | None
    """Set if the target replied without an answer."""
    model: str | None
    """The name that the API reports; None: it reports none."""
    turns: "tuple[tuple[Prompt, Answered], ...]" = ()
    """What was asked and answered in each turn of a conversation."""


async def read_answer(attempts: Attempts, options: RunOptions) -> Answered:
    """Read the answer of a response. Uses a thread if the answer includes a file."""
    held = None if attempts.response is None else attempts.response.conversation
    if held is not None:
        replies = [_answered(Attempts(1, None, reply), options) for reply in held.replies]
        whole = _answered(attempts, options)
        last = replies[-1].candidate_answer if replies else ""
        turns = tuple(zip(held.prompts, replies, strict=True))
        return whole.replace(candidate_answer=last, turns=turns)
    if attempts.response is None or attempts.response.trace_ref is None:
        return _answered(attempts, options)
    return await run_in_thread(lambda: _answered(attempts, options), "agentv-trace")


def _answered(attempts: Attempts, options: RunOptions) -> Answered:
    response = given = attempts.reply()
    if response.trace_ref is not None:
        response = with_trace(given)
        for warning in response.warnings[len(given.warnings) :]:
            logger.warning("%s", masked(warning))
    trace, messages = extract_trace(response), response.output_messages
    if messages is not None and any(message.tool_calls for message in messages):
        messages = _without_odd_durations(messages)
    if not response.is_text_only:
        require_writable(response.output_messages or (), response.trace or ())
    reported, warnings = checked_metrics(response)
    for warning in warnings:
        logger.warning("%s", masked(warning))
    measured = reported
    if reported.duration_ms is None and not response.cached:  # to read a kept answer takes no time
        measured = reported.replace(duration_ms=attempts.duration_ms)
    known = _with_ratios(measured, trace, options.exploration_tools) if trace else measured
    metrics = None if known == _UNKNOWN else known
    return Answered(
        response,
        attempts,
        candidate_answer(response.output_messages),
        messages,
        trace,
        _summarized(trace, reported if response.duration_ms is None else measured),
        metrics,
        _with_lost(metrics, attempts) if attempts.lost else metrics,
        error_text(response),
        text_or_none(response.raw.get("model")),
    )


def _with_lost(metrics: ExecutionMetrics | None, attempts: Attempts) -> ExecutionMetrics | None:
    """Return the metrics of the last call, with tokens and cost of the calls before it that timed out."""
    known = metrics or ExecutionMetrics()
    lost = [checked_metrics(response)[0] for response in attempts.lost]
    costs = [cost for cost in (known.cost_usd, *(each.cost_usd for each in lost)) if cost is not None]
    usage = added_usage([known.token_usage, *(each.token_usage for each in lost)])
    return known.replace(token_usage=usage, cost_usd=math.fsum(costs) if costs else None)


async def salvage_answer(attempts: Attempts, options: RunOptions) -> Answered:
    """Return the answer of a response, or what it cost if it cannot be read."""
    try:
        return await read_answer(attempts, options)
    except Exception as error:  # noqa: BLE001 - code of users may put anything into a response
        known = attempts.response or ProviderResponse()
        names = ("token_usage", "cost_usd", "cost_source", "duration_ms", "cached")
        figures = ProviderResponse(
            **{name: getattr(known, name) for name in names},
            error=f"the answer cannot be read: {describe_error(error)}",
        )
        return _answered(attempts.replace(response=figures), options)


def broken_answer(answered: Answered) -> ProviderError | None:
    """Return why a reply holds no answer; None: it holds one."""
    return None if answered.error is None else ProviderError(answered.error, answered.response.error_kind)


def require_writable(messages: Iterable[Message], trace: Iterable[TraceEvent]) -> None:
    """Raise `ValueError` for what no results file could hold. Code of users may put anything into a response."""
    values: list[tuple[str, Json]] = []
    for message in messages:
        values += [("the content of a message", message.content), ("the metadata of a message", message.metadata)]
        for call in message.tool_calls:
            values.append((f"the input of the call of {call.tool!r}", call.input))
            values.append((f"the output of the call of {call.tool!r}", call.output))
    for event in trace:
        for name in ("input", "output", "metadata"):
            values.append((f"the {name} of a `{event.type}` event of the trace", getattr(event, name)))
    for what, value in values:
        if value is not ABSENT and value is not None and (fault := json_fault(value, _DEEPEST, with_texts=True)):
            raise ValueError(f"the values of {what} {fault}")
