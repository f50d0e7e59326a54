"""Reads the return value of a function: a text, a mapping in the shape of `wire.py`, or a result of another package."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.answers import is_null
from pytest_agentv.models.text import json_fault
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python.frameworks.answer import AgentOutput, NativeAnswer, build_response
from pytest_agentv.providers.python.frameworks.plain import SIZE_LIMIT, TOO_LARGE
from pytest_agentv.providers.python.streams import Chunks
from pytest_agentv.providers.response_faults import response_fault, with_tuples
from pytest_agentv.providers.wire import EXPECTED_KEYS, WireError, answer_message, parse_response
from pytest_agentv.runtime.threads import run_in_thread

_MESSAGES: Final = ("output_messages", "outputMessages")
_CALLS: Final = ("tool_calls", "toolCalls")
_DURATIONS: Final = ("duration_ms", "durationMs")
_OWN_KEYS: Final = ("text", *_MESSAGES)

_METRICS: Final = {
    spelling: name
    for name in ("token_usage", "cost_usd", "duration_ms", "finish_reason", "retrieved_context")
    for spelling in (name, to_camel(name))
}

_COSTS: Final = ("token_usage", "cost_usd", "duration_ms")

_EXPECTED: Final = f"a str, a mapping with {EXPECTED_KEYS}, a result of an agent framework, or a ProviderResponse"


async def read_value(value: object, label: str) -> ProviderResponse:
    """Return the response for a user's value. Raises `ProviderError`.

    Only a text is read on the event loop. Other values may be large, so a thread reads them.
    """
    if isinstance(value, ProviderResponse):
        fault = response_fault(value)
        return with_tuples(value) if fault is None else _without_answer(value, f"{label} returned {fault}")
    if isinstance(value, str):
        return _read_text(value, label)
    return await run_in_thread(lambda: _read(value, label), "agentv-answer")


def _read_text(value: str, label: str) -> ProviderResponse:
    if len(value) > SIZE_LIMIT:
        raise ProviderError(f"{label} returned a text that cannot be read: {TOO_LARGE}", "crash")
    return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)


def _read(value: Any, label: str) -> ProviderResponse:
    if isinstance(value, Mapping) and any(key in value for key in _OWN_KEYS):
        return _read_mapping(value, label)
    try:
        value = _joined(value)
        answer = None if isinstance(value, str) else _native(value)
        response = None if answer is None else build_response(answer)
    except Exception as error:
        reason = str(error) or type(error).__name__
        returned = value.value if isinstance(value, AgentOutput) else value
        what = "a generator" if isinstance(value, Chunks) else f"a value of type {type(returned).__name__}"
        raise ProviderError(f"{label} returned {what} that cannot be read: {reason}", "crash") from error
    if isinstance(value, str):
        return _read_text(value, label)
    if isinstance(value, Mapping):
        return _read_mapping(value, label, response)
    if response is not None:
        return response
    returned = "None" if value is None else f"a value of type {type(value).__name__}"
    raise ProviderError(f"{label} returned {returned}: expected {_EXPECTED}", "crash")


def _joined(value: Any) -> Any:
    """Return the whole answer from the chunks of a generator; any other value unchanged."""
    if not isinstance(value, Chunks):
        return value
    from pytest_agentv.providers.python.frameworks.chunks import join  # noqa: PLC0415 - only for streams

    return join(value)


def _native(value: Any) -> NativeAnswer | None:
    if isinstance(value, NativeAnswer):
        return value
    if isinstance(value, AgentOutput):
        return value.read(value.value)
    from pytest_agentv.providers.python.frameworks.reading import read_native  # noqa: PLC0415 - imports the readers of all packages

    return read_native(value)


def _plain_entry(key: str, value: Any) -> Any:
    """Return an entry of an answer, with its metrics passed through `_plain_metric`."""
    if key in _METRICS:
        return _plain_metric(value)
    return _in_mappings(value, _plain_message) if key in _MESSAGES else value


def _plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _in_mappings(value, _plain_call) if key in _CALLS else value for key, value in message.items()}


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain_metric(value) if key in _DURATIONS else value for key, value in call.items()}


def _in_mappings(items: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """Return a list with its mappings changed; any other value unchanged."""
    if not isinstance(items, list | tuple):
        return items
    return [change(item) if isinstance(item, Mapping) else item for item in items]


def _plain_metric(value: Any) -> Any:
    """Return a metric that is not JSON (NaN, a number of another package) as a text: it is left out with a warning."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return repr(value)
        except Exception:  # noqa: BLE001 - a number with too many digits, or an object of the user's
            return f"a value of type {type(value).__name__}"
    return value


def _read_mapping(value: Mapping[str, Any], label: str, native: ProviderResponse | None = None) -> ProviderResponse:
    """Read a mapping. Native messages may come with tokens, cost and so on under our own keys."""
    if native is not None:
        value = {key: item for key, item in value.items() if key in _METRICS} if "messages" in value else {}
    try:
        text = json.dumps({key: _plain_entry(key, item) for key, item in value.items()}, allow_nan=False)
        if len(text) > SIZE_LIMIT:
            raise WireError(TOO_LARGE)
        response = parse_response(json.loads(text))
    except WireError as error:
        return _without_answer(_figures(value), f"{label} returned a mapping that cannot be read: {error}")
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        return _without_answer(_figures(value), f"{label} returned a mapping that is no JSON: {reason}")
    if native is not None:
        told = {name: found for name in _METRICS.values() if (found := getattr(response, name)) is not None}
        return native.replace(**told)
    if response.output_messages is None:
        if "text" in value:
            reason = f"{label} returned a mapping whose 'text' is None: expected a text"
            return _without_answer(response, reason, "no_answer")
        keys = ", ".join(map(repr, value)) or "no keys"
        return _without_answer(response, f"{label} returned a mapping with {keys}: expected {EXPECTED_KEYS}")
    if is_null(response.output_messages, response.trace):
        reason = f"{label} returned a message whose 'content' is None: expected a text"
        return _without_answer(response, reason, "no_answer")
    return response


def _figures(value: Mapping[str, Any]) -> ProviderResponse:
    """Return what a mapping costs that cannot be read otherwise, without figures that are nested too deeply."""
    figures = {key: _plain_metric(item) for key, item in value.items() if _METRICS.get(key) in _COSTS}
    plain = {key: item for key, item in figures.items() if json_fault(item, with_texts=True) is None}
    return parse_response(json.loads(json.dumps(plain)))


def _without_answer(response: ProviderResponse, error: str, kind: ErrorKind = "crash") -> ProviderResponse:
    """Return the figures of a response that holds no answer, because it was paid for, with the error.

    Raises `ProviderError` if it reports neither tokens nor cost.
    """
    if response.token_usage is None and response.cost_usd is None:
        raise ProviderError(error, kind)
    return ProviderResponse(
        token_usage=response.token_usage,
        cost_usd=response.cost_usd,
        cost_source=response.cost_source if isinstance(response.cost_source, str) else None,
        duration_ms=response.duration_ms,
        error=error,
        error_kind=kind,
    )
