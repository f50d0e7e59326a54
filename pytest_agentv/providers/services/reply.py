"""Turns the reply of a service into a response."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.variables.rendering import as_text
from pytest_agentv.models.base import ABSENT, Json, JsonObject, mapping
from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.providers.apis.data import parsed
from pytest_agentv.providers.apis.exchange import HttpReply
from pytest_agentv.providers.apis.failures import read_error_text, shorten
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python.answers import read_value
from pytest_agentv.providers.python.streams import Chunks
from pytest_agentv.providers.services.contents import NoContentError, read_content
from pytest_agentv.providers.services.events import StreamError, has_error, read_events
from pytest_agentv.providers.services.json_path import JsonPath, MissingPathError, Step
from pytest_agentv.providers.services.usages import fault_of, read_usage

_TOOL: Final = ("tool", "name", "tool_name", "toolName")
_GIVEN: Final = ("input", "arguments", "args", "parameters")
_RESULT: Final = ("output", "result")
_IDS: Final = ("id", "tool_call_id", "call_id")
_DONE: Final = re.compile(r"data: ?\[DONE\]\s*\Z")
_TEXTS: Final = ("text", "content", "page_content")


class Paths:
    """The paths of the parts of an answer."""

    def __init__(
        self,
        answer: JsonPath | None,
        tokens: JsonPath | Mapping[str, JsonPath] | None,
        tool_calls: JsonPath | None,
        context: JsonPath | None,
    ) -> None:
        self.answer = answer
        self.tokens = tokens
        self.tool_calls = tool_calls
        self.context = context

    @property
    def any(self) -> bool:
        """Whether any path is set, so that JSON is needed."""
        return any(part is not None for part in (self.answer, self.tokens, self.tool_calls, self.context))


async def read_reply(
    reply: HttpReply, paths: Paths, label: str, *, is_stream: bool, takes_html: bool = False
) -> ProviderResponse:
    """Return the response for a successful reply. Raises `ProviderError`."""
    try:
        if is_stream:
            parts = _events(reply, label, needs_json=paths.any)
        else:
            parts = [read_content(reply, needs_json=paths.any, takes_html=takes_html)]
            _refuse_error(parts[0], paths.answer, label)
        return await _read(parts, paths, label, is_stream=is_stream)
    except NoContentError:
        raise ProviderError(f"{label} replied with an empty body", "no_answer") from None
    except StreamError as error:
        raise ProviderError(f"{label} sent an error in its stream: {shorten(str(error))}", "crash") from None
    except MissingPathError as error:
        raise ProviderError(f"the reply of {label} cannot be read: {error}", "crash") from None
    except ValueError as error:
        raise ProviderError(f"{label} replied with {error}", "crash") from None


def _refuse_error(value: Json, answer: JsonPath | None, label: str) -> None:
    """Raise `ProviderError` for an error beside an answer, unless it is the answer, or part of a chat completion."""
    is_read = "choices" in mapping(value) if answer is None else answer.steps[:1] == (Step("error"),)
    if has_error(value) and not is_read:
        said = read_error_text(json.dumps(value))
        raise ProviderError(f"{label} replied with an error: {said} (a reply whose `error` is empty is fine)", "crash")


def _events(reply: HttpReply, label: str, *, needs_json: bool) -> list[Json]:
    """Return the events of a stream.

    Raises `ProviderError` if all are empty or the last one is missing, and for the errors of `read_events`.
    """
    from pytest_agentv.providers.python.frameworks.chunks import is_cut  # noqa: PLC0415 - imports the readers of all packages

    events = read_events(reply.text, needs_json=needs_json)
    if not _DONE.search(reply.text) and is_cut(events):
        raise ProviderError(f"{label} ended in the middle of its stream: no event says why the model stopped", "crash")
    if any(event != "" for event in events):
        return events
    said = shorten(reply.text)
    raise ProviderError(f"{label} sent no event{f', but: {said}' if said else ''}", "no_answer")


async def _read(parts: list[Json], paths: Paths, label: str, *, is_stream: bool) -> ProviderResponse:
    calls = tuple(map(_call, _entries(parts, paths.tool_calls)))
    if paths.answer is None:
        whole = await _read_known(parts, label, is_stream=is_stream)
    else:
        found = _found(parts, paths.answer)
        content = _content(found, paths.answer.depth)
        if content is None:
            what = "{} is null" if found and not paths.answer.depth else "there is nothing at {}"
            raise ProviderError(f"{label} gave no answer: {what.format(paths.answer.text)}", "no_answer")
        whole = ProviderResponse(output_messages=(Message("assistant", content),), is_text_only=True)
    if paths.tool_calls is not None:
        answers = whole.output_messages or ()
        whole = whole.replace(output_messages=(*_calling(calls), *answers), is_text_only=False)
    changes: dict[str, Any] = {}
    if paths.tokens is not None:
        usage = _tokens(parts, paths.tokens)
        changes["token_usage"] = read_usage(mapping(usage))
        changes["warnings"] = (*whole.warnings, *filter(None, [fault_of(usage)]))
    if paths.context is not None:
        changes["retrieved_context"] = tuple(map(_text, _entries(parts, paths.context)))
    return whole.replace(**changes)


async def _read_known(parts: Sequence[Json], label: str, *, is_stream: bool) -> ProviderResponse:
    """Read a reply in one of the shapes that functions may return."""
    value = Chunks(tuple(parts)) if is_stream else parts[0]
    try:
        return await read_value(value, label)
    except ProviderError as error:
        names = mapping(parts[0])
        key = next((name for name, item in names.items() if isinstance(item, str)), "…")
        raise ProviderError(f"{error}; or name its place, as in `answer: $.{key}`", error.kind) from None


def _found(parts: Sequence[Json], path: JsonPath) -> list[Json]:
    """Return the value at a path in each part that has it. In a stream, not every event must have it.

    Raises `MissingPathError` if no part has it.
    """
    found, missing = [], None
    for part in parts:
        try:
            value = path.find(part)
        except MissingPathError as error:
            missing = error
        else:
            if value is not ABSENT:
                found.append(value)
    if not found and missing is not None:
        raise missing
    return found


def _content(found: Sequence[Json], depth: int) -> Json:
    """Return the answer. Texts are joined, with the numbers among them; of other values, the last one counts."""
    known = [value for value in map(_without_nulls, found, repeat(depth)) if value is not None]
    pieces = list(_flat(known, max(depth, 1)))
    has_text = any(isinstance(piece, str) for piece in pieces)
    if has_text and all(isinstance(piece, str | int | float) for piece in pieces):
        return "".join(map(as_text, pieces))
    return known[-1] if known else None


def _entries(parts: Sequence[Json], path: JsonPath | None) -> Iterator[Json]:
    if path is not None:
        yield from (entry for entry in _flat(_found(parts, path), max(path.depth, 1)) if entry is not None)


def _flat(values: Sequence[Json], depth: int) -> Iterator[Json]:
    """Yield the values, and in place of lists their entries, so many lists deep."""
    for value in values:
        if depth and isinstance(value, list):
            yield from _flat(value, depth - 1)
        else:
            yield value


def _without_nulls(value: Json, depth: int) -> Json:
    """Leave out the entries without a value, so many lists deep; None if no entry is left."""
    if not depth or not isinstance(value, list):
        return value
    kept = [entry for entry in map(_without_nulls, value, repeat(depth - 1)) if entry is not None]
    return kept or None


def _calling(calls: tuple[ToolCall, ...]) -> tuple[Message, ...]:
    return (Message("assistant", tool_calls=calls),) if calls else ()


def _call(value: Json) -> ToolCall:
    given = mapping(value)
    function = {**mapping(given.get("function")), **given}
    name = _first(function, _TOOL)
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name: expected `tool` or `name`")
    found, result, call_id = _first(function, _GIVEN), _first(function, _RESULT), _first(function, _IDS)
    return ToolCall(name, parsed(found), result, id=call_id if isinstance(call_id, str) else None)


def _first(value: JsonObject, names: Sequence[str]) -> Any:
    return next((value[name] for name in names if name in value), ABSENT)


def _text(value: Json) -> str:
    found = _first(value, _TEXTS) if isinstance(value, dict) else value
    return found if isinstance(found, str) else json.dumps(value, ensure_ascii=False)


def _tokens(parts: Sequence[Json], tokens: JsonPath | Mapping[str, JsonPath]) -> Json:
    """Return what is said of the tokens. In a stream, the last reported ones count."""
    if isinstance(tokens, JsonPath):
        return next((value for value in reversed(_found(parts, tokens)) if value is not None), None)
    return {name: (_found(parts, path) or [None])[-1] for name, path in tokens.items()}
