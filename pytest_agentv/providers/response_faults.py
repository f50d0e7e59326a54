"""Looks for wrong types in the responses that code of users makes, and turns their lists into tuples."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.models.traces import TraceEvent, TraceEventType
from pytest_agentv.providers.base import ProviderResponse

_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    ProviderResponse: ("trace_ref", "cost_source", "error", "finish_reason"),
    Message: ("name", "timestamp"),
    ToolCall: ("id", "timestamp"),
    TraceEvent: ("timestamp", "id", "name", "text"),
}
"""The fields that hold a text or None."""
_LISTS: Final = ("output_messages", "trace", "retrieved_context", "warnings")
_EVENTS: Final = get_args(TraceEventType)


def response_fault(response: object) -> str | None:
    """Return what has a wrong type in what code of users returned in place of a response; None: nothing.

    Lists in place of tuples are fine: `with_tuples` replaces them.
    """
    if not isinstance(response, ProviderResponse):
        return f"a value of type {type(response).__name__}: expected a ProviderResponse"
    fault = next(_faults(response), None)
    return fault and f"a ProviderResponse whose {fault}"


def with_tuples(response: ProviderResponse) -> ProviderResponse:
    """Return a response of users without fault, with tuples in place of lists. Lists are written as they are."""
    changes: dict[str, object] = {
        name: tuple(value) for name in _LISTS if isinstance(value := getattr(response, name), list)
    }
    messages = response.output_messages or ()
    if any(isinstance(message.tool_calls, list) for message in messages):
        changes["output_messages"] = tuple(each.replace(tool_calls=tuple(each.tool_calls)) for each in messages)
    return response.replace(**changes) if changes else response


def _faults(response: ProviderResponse) -> Iterator[str]:
    yield from _odd_texts("", response)
    yield from _odd("cached", response.cached, bool, "bool")
    yield from _odd("raw", response.raw, Mapping, "dict")
    yield from _odd_items("trace", response.trace, TraceEvent)
    yield from _odd_items("retrieved_context", response.retrieved_context, str)
    yield from _odd_items("warnings", response.warnings, str)
    yield from _odd_items("output_messages", response.output_messages, Message)
    for index, message in enumerate(response.output_messages or ()):
        yield from _odd_message(f"output_messages[{index}].", message)
    for index, event in enumerate(response.trace or ()):
        yield from _odd_texts(f"trace[{index}].", event)
        yield from _odd(f"trace[{index}].metadata", event.metadata, Mapping | None, "dict")
        if event.type not in _EVENTS:
            yield f"trace[{index}].type is {event.type!r}: expected one of {', '.join(_EVENTS)}"


def _odd_message(where: str, message: Message) -> Iterator[str]:
    yield from _odd(f"{where}role", message.role, str, "str")
    yield from _odd_texts(where, message)
    yield from _odd(f"{where}metadata", message.metadata, Mapping | None, "dict")
    yield from _odd_items(f"{where}tool_calls", message.tool_calls, ToolCall)
    for index, call in enumerate(message.tool_calls):
        yield from _odd(f"{where}tool_calls[{index}].tool", call.tool, str, "str")
        yield from _odd_texts(f"{where}tool_calls[{index}].", call)


def _odd_texts(where: str, record: object) -> Iterator[str]:
    names = next(names for kind, names in _TEXTS.items() if isinstance(record, kind))  # users may have subclasses
    for name in names:
        yield from _odd(f"{where}{name}", getattr(record, name), str | None, "str")


def _odd_items(name: str, value: Any, kind: type) -> Iterator[str]:
    yield from _odd(name, value, tuple | list | None, f"tuple of {kind.__name__}")
    for index, item in enumerate(value or ()):
        yield from _odd(f"{name}[{index}]", item, kind, kind.__name__)


def _odd(name: str, value: object, kind: Any, expected: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield f"{name} is a {type(value).__name__}: expected a {expected}"
