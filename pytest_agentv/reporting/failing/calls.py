"""Shows tool calls, one per line: `search(query="tents") -> 3 rows`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.models.text import compact_json, counted
from pytest_agentv.reporting.escaping import shortened

_MOST_CALLS: Final = 20
_LONGEST_VALUE: Final = 60


def call_lines(messages: Iterable[Message], masker: Masker) -> Iterator[str]:
    """Yield the first twenty tool calls of an answer in order. Masks secrets before it cuts values."""
    calls = [call for message in messages for call in message.tool_calls]
    yield from (_call_line(call, masker) for call in calls[:_MOST_CALLS])
    if len(calls) > _MOST_CALLS:
        yield f"... and {len(calls) - _MOST_CALLS} more"


def _call_line(call: ToolCall, masker: Masker) -> str:
    """Return a call with its arguments and its output, if these are reported."""
    output = "" if call.output is ABSENT else f" -> {_output(call.output, masker)}"
    return f"{call.tool}({_arguments(call.input, masker)}){output}"


def _arguments(value: Json, masker: Masker) -> str:
    if value is ABSENT or value in (None, {}, ""):
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_short(compact_json(each), masker)}" for name, each in value.items())
    return _short(compact_json(value), masker)


def _output(value: Json, masker: Masker) -> str:
    match value:
        case list() | tuple():
            noun = "row" if all(isinstance(each, Mapping) for each in value) else "item"
            return counted(len(value), noun)
        case str():
            return _short(" ".join(masker.mask(value).split()) or '""', masker)
    return _short(compact_json(value), masker)


def _short(text: str, masker: Masker) -> str:
    """Cut a text. The masker could not find half a secret later."""
    return text if len(text) <= _LONGEST_VALUE else shortened(masker.mask(text), _LONGEST_VALUE)
