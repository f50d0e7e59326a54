"""Reads the answer out of a response: its text, its trace and its metrics."""

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from pytest_agentv.engine.attempts import Attempts
from pytest_agentv.engine.tracing import (
    execution_metrics,
    extract_trace,
    summarize_trace,
    validated_metrics,
    without_odd_durations,
)
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.answers import candidate_answer
from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.messages import Message
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.text import json_fault
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary, added_usage
from pytest_agentv.providers.base import ProviderResponse, error_text
from pytest_agentv.runtime.threads import run_in_thread
from pytest_agentv.runtime.user_errors import describe_error

logger = logging.getLogger("pytest_agentv.engine")

_DEEPEST: Final = 200
"""Levels of nesting of what a target reports, as of answers in JSON."""


@record
class Answered(Record):
    """The response of the target, for the record."""

    candidate_answer: str
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    summary: TraceSummary | None = None
    metrics: ExecutionMetrics | None = None
    """Those of the last call, which are judged."""
    paid: ExecutionMetrics | None = None
    """The same with tokens and cost of earlier calls that timed out, for the record."""
    cached: bool = False
    error: str | None = None
    """Set if the target replied without an answer."""
    error_kind: ErrorKind = "crash"
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    cost_source: str | None = None
    """Where the cost comes from; None: it is unknown."""
    is_text_only: bool = False
    """Whether the target returned only a text, so that its tool calls are unknown."""
    attempts: int = 0
    """The number of calls."""
    requests: JsonObject = field(default_factory=dict)
    """The data on API requests and the log of these calls, under the keys of results."""


async def read_answer(attempts: Attempts, options: RunOptions) -> Answered:
    """Read the answer of a response. Uses a thread if the answer includes a file."""
    if attempts.response is None or attempts.response.trace_ref is None:
        return _answered(attempts, options)
    return await run_in_thread(lambda: _answered(attempts, options), "agentv-trace")


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
    return None if answered.error is None else ProviderError(answered.error, answered.error_kind)


def _answered(attempts: Attempts, options: RunOptions) -> Answered:
    if attempts.response is None:
        raise attempts.error or ProviderError("the provider gave no response")
    response = attempts.response
    if response.trace_ref is not None:
        from pytest_agentv.providers.trace_files import with_trace  # noqa: PLC0415 - few targets write traces

        response = with_trace(response)
        for warning in response.warnings[len(attempts.response.warnings) :]:
            logger.warning("%s", masked(warning))
    trace = extract_trace(response)
    if not response.is_text_only:
        require_writable(response.output_messages or (), response.trace or ())
    # Reading a kept answer takes no time, which says nothing about the call that was made for it.
    measured_ms = None if response.cached else attempts.duration_ms
    reported = validated_metrics(response, measured_ms)
    for warning in reported.warnings:
        logger.warning("%s", masked(warning))
    metrics = execution_metrics(reported, trace, exploration_tools=options.exploration_tools, measured_ms=measured_ms)
    paid = _with_lost(metrics, attempts)
    return Answered(
        candidate_answer(response.output_messages),
        without_odd_durations(response.output_messages),
        trace,
        summarize_trace(trace, reported),
        metrics,
        paid,
        cached=response.cached,
        is_text_only=response.is_text_only,
        error=error_text(response),
        error_kind=response.error_kind,
        finish_reason=response.finish_reason,
        retrieved_context=response.retrieved_context,
        cost_source=None if paid is None or paid.cost_usd is None else response.cost_source or "target",
        attempts=attempts.count,
        requests=attempts.requests,
    )


def require_writable(messages: Iterable[Message], trace: Iterable[TraceEvent]) -> None:
    """Raise `ValueError` for what no results file could hold. Code of users may put anything into a response."""
    for what, value in (*_reported(messages), *_traced(trace)):
        if value is not ABSENT and (fault := json_fault(value, _DEEPEST, with_texts=True)):
            raise ValueError(f"the values of {what} {fault}")


def _reported(messages: Iterable[Message]) -> Iterator[tuple[str, Json]]:
    for message in messages:
        yield "the content of a message", message.content
        yield "the metadata of a message", message.metadata
        for call in message.tool_calls:
            yield f"the input of the call of {call.tool!r}", call.input
            yield f"the output of the call of {call.tool!r}", call.output


def _traced(trace: Iterable[TraceEvent]) -> Iterator[tuple[str, Json]]:
    for event in trace:
        for name in ("input", "output", "metadata"):
            yield f"the {name} of a `{event.type}` event of the trace", getattr(event, name)


def _with_lost(metrics: ExecutionMetrics | None, attempts: Attempts) -> ExecutionMetrics | None:
    """Return the metrics of the last call, with tokens and cost of the calls before it that timed out."""
    if not attempts.lost:
        return metrics
    known = metrics or ExecutionMetrics()
    lost = [validated_metrics(response) for response in attempts.lost]
    costs = [cost for cost in (known.cost_usd, *(each.cost_usd for each in lost)) if cost is not None]
    usage = added_usage([known.token_usage, *(each.token_usage for each in lost)])
    return known.replace(token_usage=usage, cost_usd=math.fsum(costs) if costs else None)
