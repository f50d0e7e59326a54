"""The last lines of a failure's text: target, cost, place, and the command to run the case again."""

from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.escaping import cut, visible
from pytest_agentv.reporting.failing.sections import Look
from pytest_agentv.reporting.figures import (
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_tokens,
    known_parts,
    place_of,
    tokens_of,
)

_SHORT: Final = 100
_LONG: Final = 300


def footer(result: EvalResult, rerun_command: str | None, look: Look) -> str:
    """Return target, cost, log, place and the rerun command, a line each."""
    lines = [f"Target: {cut(', '.join(_target_facts(result, look)), _LONG)}"]
    if (tools := _tools(result, look)) and not _has_calls(result):
        lines.append(f"Tools:  {cut(tools, _LONG)}")
    if result.log_file:
        lines.append(f"Log:    {cut(look.all_of(result.log_file), _LONG)}")
    if result.eval_file:
        lines.append(f"Case:   {cut(visible(place_of(result)), _LONG)}")
    if rerun_command:
        lines.append(f"Rerun:  {cut(visible(rerun_command), 600)}")
    return "\n".join(lines)


def _tools(result: EvalResult, look: Look) -> str:
    calls = result.trace_summary.tool_calls_by_name if result.trace_summary else {}
    return ", ".join(
        look.line(name, _SHORT) + (f" ({count} times)" if count > 1 else "") for name, count in calls.items()
    )


def _target_facts(result: EvalResult, look: Look) -> Iterator[str]:
    parts = known_parts(result)
    yield look.name(result.target, _SHORT)
    if result.attempts:
        yield counted(result.attempts, "attempt")
    if (duration := duration_of(result)) is not None:
        yield format_duration(duration)
    if (cost := cost_of(result)) is not None and not result.cached:
        yield f"{format_cost(cost)}{_known_for(parts, 'cost')}"
    if (usage := tokens_of(result)) is not None:
        yield f"tokens: {format_tokens(usage)}{_known_for(parts, 'tokens')}"
    if result.finish_reason:
        yield f"finish_reason={look.line(result.finish_reason, _SHORT)}"
    if result.cached:
        yield "answer from the cache"


def _known_for(parts: Mapping[str, str], name: str) -> str:
    return f" known for {parts[name]}" if name in parts else ""


def _has_calls(result: EvalResult) -> bool:
    """Whether the calls are shown with their inputs and outputs."""
    return any(message.tool_calls for message in result.output_messages or ())
