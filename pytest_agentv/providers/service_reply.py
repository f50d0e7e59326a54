"""Turns the reply of a service into a response: JSON, texts, server-sent events, tokens, paths."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, NamedTuple

from pytest_agentv.cases.variables import as_text
from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject, mapping
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import beginning, masked
from pytest_agentv.model.text import compact_json, counted
from pytest_agentv.providers.api.base import HttpReply, count, is_count, parsed
from pytest_agentv.providers.api.failures import describe_no_json, read_error_text, shorten
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python import read_value
from pytest_agentv.providers.python_calls import Chunks

# Paths into JSON, the part of JSONPath (RFC 9535) that names places: `$.choices[0].text`, `$.sources[*].url`.

_STEP: Final = re.compile(
    r"\.(?P<name>[^\W\d][\w-]*)|\.\*|\[\s*(?P<index>-?\d{1,9})\s*\]|\[\s*\*\s*\]"
    r"|\[\s*'(?P<single>[^']+)'\s*\]|\[\s*\"(?P<double>[^\"]+)\"\s*\]"
)
_PLAIN_NAME: Final = re.compile(r"[^\W\d][\w-]*")
_SHOWN_KEYS: Final = 8
_SHOWN: Final = 60


class Step(NamedTuple):
    """One step: a name, a number, or all entries (None)."""

    to: str | int | None


class MissingPathError(Exception):
    """Nothing is at a path. The text names the nearest place that exists."""


class JsonPath(NamedTuple):
    """A parsed path.

    It has names, numbers from the start or the end, and all entries; no filters, slices or searches. A `?` at the end,
    our own extension, marks a place that may be missing.
    """

    text: str
    steps: tuple[Step, ...]
    is_optional: bool

    def find(self, data: Json) -> Json | Absent:
        """Return the value at the path. With `*`, return a list of all values; `ABSENT` for a missing optional place.

        An entry without an optional place is left out. Raises `MissingPathError`.
        """
        try:
            return _find(data, self.steps, "$", self.is_optional)
        except MissingPathError as error:
            if self.is_optional:
                return ABSENT
            raise MissingPathError(f"there is no {self.text}: {error}") from None

    @property
    def depth(self) -> int:
        """How deep the values lie in lists: 1 for each `*`."""
        return sum(to is None for (to,) in self.steps)


def parse_path(text: str) -> JsonPath:
    """Read a path. Raises `ValueError`."""
    written = text.strip()
    path = written.removesuffix("?")
    if not path.startswith("$"):
        raise ValueError(f"expected a path such as $.choices[0].text, got {text!r}")
    steps, at = [], 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(
                f"{path[at:]!r} of the path {text!r} is no step: expected .name, ['name'], [0], [-1] or [*]"
            )
        name = found["name"] or found["single"] or found["double"]
        steps.append(Step(name or (None if found["index"] is None else int(found["index"]))))
        at = found.end()
    return JsonPath(path, tuple(steps), written != path)


def _find(data: Json, steps: Sequence[Step], where: str, is_optional: bool) -> Json:
    for position, (to,) in enumerate(steps):
        if to is None:
            found, rest = [], steps[position + 1 :]
            for key, item in _children(data, where):
                with suppress(*[MissingPathError] if is_optional else ()):
                    found.append(_find(item, rest, f"{where}{_shown(key)}", is_optional))
            return found
        data = _step(data, to, where)
        where += _shown(to)
    return data


def _children(data: Json, where: str) -> list[tuple[str | int, Json]]:
    if isinstance(data, list):
        return list(enumerate(data))
    if isinstance(data, dict):
        return list(data.items())
    raise MissingPathError(f"{where} is {_describe(data)}, no list")


def _step(data: Json, to: str | int, where: str) -> Json:
    if isinstance(to, int) and isinstance(data, list):
        if -len(data) <= to < len(data):
            return data[to]
        raise MissingPathError(f"{where} has {counted(len(data), 'entry', 'entries') if data else 'no entries'}")
    if isinstance(to, str) and isinstance(data, dict):
        if to in data:
            return data[to]
        hint = did_you_mean(to, data)
        raise MissingPathError(f"{where} has {_keys(list(data))}" + (f" ({hint})" if hint else ""))
    raise MissingPathError(f"{where} is {_describe(data)}")


def _shown(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{_beginning(step)!r}]"


def _keys(keys: list[str]) -> str:
    shown = ", ".join(repr(_beginning(key)) for key in keys[:_SHOWN_KEYS])
    rest = ", …" if len(keys) > _SHOWN_KEYS else ""
    return f"the keys {shown}{rest}" if keys else "no keys"


def _describe(data: Json) -> str:
    if isinstance(data, dict):
        return f"a mapping with {_keys(list(data))}"
    if isinstance(data, list):
        return f"a list of {len(data)}"
    text = compact_json(data)
    return beginning(text, _SHOWN)


def _beginning(text: str) -> str:
    """Return the beginning of a text. Masks secrets before it cuts."""
    return text if len(text) <= _SHOWN else masked(text)[:_SHOWN]


# The parts of a reply, at paths or in the words of any API.

_DONE: Final = re.compile(r"data: ?\[DONE\]\s*\Z")


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
    from pytest_agentv.providers.frameworks.reading import is_cut  # noqa: PLC0415 - imports the readers of all packages

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
        calling = (Message("assistant", tool_calls=calls),) if calls else ()
        whole = whole.replace(output_messages=(*calling, *(whole.output_messages or ())), is_text_only=False)
    changes: dict[str, Any] = {}
    if paths.tokens is not None:  # in a stream, the last reported ones count
        usage: Json
        if isinstance(paths.tokens, JsonPath):
            usage = next((value for value in reversed(_found(parts, paths.tokens)) if value is not None), None)
        else:
            usage = {name: (_found(parts, path) or [None])[-1] for name, path in paths.tokens.items()}
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


def _call(value: Json) -> ToolCall:
    given = mapping(value)
    function = {**mapping(given.get("function")), **given}
    name = _first(function, ("tool", "name", "tool_name", "toolName"))
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name: expected `tool` or `name`")
    arguments = _first(function, ("input", "arguments", "args", "parameters"))
    result = _first(function, ("output", "result"))
    call_id = _first(function, ("id", "tool_call_id", "call_id"))
    return ToolCall(name, parsed(arguments), result, id=call_id if isinstance(call_id, str) else None)


def _entries(parts: Sequence[Json], path: JsonPath | None) -> Iterator[Json]:
    if path is not None:
        yield from (entry for entry in _flat(_found(parts, path), max(path.depth, 1)) if entry is not None)


def _content(found: Sequence[Json], depth: int) -> Json:
    """Return the answer. Texts are joined, with the numbers among them; of other values, the last one counts."""
    known = [value for value in map(_without_nulls, found, repeat(depth)) if value is not None]
    pieces = list(_flat(known, max(depth, 1)))
    has_text = any(isinstance(piece, str) for piece in pieces)
    if has_text and all(isinstance(piece, str | int | float) for piece in pieces):
        return "".join(map(as_text, pieces))
    return known[-1] if known else None


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


def _first(value: JsonObject, names: Sequence[str]) -> Any:
    return next((value[name] for name in names if name in value), ABSENT)


def _text(value: Json) -> str:
    found = _first(value, ("text", "content", "page_content")) if isinstance(value, dict) else value
    return found if isinstance(found, str) else json.dumps(value, ensure_ascii=False)


# The body of a reply: JSON, a text, or a fault.

_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
_HTML: Final = re.compile(rb"(?is)\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)[\s>]")
"""The beginning of an HTML page. The content type does not tell: frameworks send any text as `text/html`."""
_OBJECT: Final = re.compile(r"\{\s*(?:\"|$)")
_JSON_STARTS: Final = (b"{", b"[", b'"')
"""The beginning of JSON. The content type does not tell: gateways send other texts as JSON."""


class NoContentError(Exception):
    """The body is empty."""


def read_content(reply: HttpReply, *, needs_json: bool, takes_html: bool) -> Json:
    """Return the JSON of a body, else its text. A number that is not sent as JSON is a text.

    Args:
        reply: A successful reply.
        needs_json: Whether only JSON is allowed.
        takes_html: Whether the request asked for HTML. If not, a page is an error or a login.

    Raises `NoContentError`, and `ValueError` for a body that is no answer. Its text follows "replied with".
    """
    kind = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if not reply.content.strip():
        raise NoContentError
    if not takes_html and kind != "text/plain" and _HTML.match(reply.content):
        title = _TITLE.search(reply.text)
        named = f" {shorten(title[1])!r}" if title else ""
        raise ValueError(f"an HTML page{named} (if that is the answer, add the header `Accept: text/html`)")
    try:
        value: Json = json.loads(reply.text if reply.charset else reply.content)
    except (ValueError, RecursionError) as error:
        if kind == "text/event-stream":
            raise ValueError("a stream of events (write `stream: sse` to read it)") from None
        is_json = kind.endswith("json") and reply.content.lstrip().startswith(_JSON_STARTS)
        if needs_json or is_json or (kind != "text/plain" and is_cut_object(reply.text)):
            raise ValueError(_no_json(error)) from None
        return reply.text
    is_text = isinstance(value, int | float) and not needs_json and not kind.endswith("json")
    return reply.text if is_text else value


def is_cut_object(text: str) -> bool:
    """Whether a text is the beginning of a JSON object. A connection that breaks off often looks like a proper end."""
    start = text.lstrip()
    if not _OBJECT.match(start):
        return False
    try:
        json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return True
    return False  # other words follow


def asks_for_html(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request accept HTML; `headers` are in lower case."""
    return "html" in headers.get("accept", "").lower()


def _no_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return describe_no_json(error)
    return "what is no JSON: it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "what is no JSON: too deep"


# Server-sent events, the parts of a streamed reply.

_FAILURE: Final = re.compile(r"(?i)error|fail")
_NO_ERROR: Final = re.compile(r"(?i)\s*(?:(?:no|false|none|null|nil|ok|success|0)?|no errors?)\s*\.?")
"""Texts by which services say that there is no error."""


class StreamError(Exception):
    """The service sent an event of the type `error`, or one whose `error` ends the stream. The text is its data."""


def read_events(text: str, *, needs_json: bool = False) -> list[Json]:
    """Return the data of all events, in order: JSON if possible, else the text.

    In a stream of texts, what looks like a number or a quoted text is a piece of a text as well.

    Raises `StreamError`. With `needs_json`, or if the first event is a JSON object, raises `ValueError` for cut JSON.
    """
    found, written = list[Json](), list[str]()
    left: str | None = None  # an error without any event after it
    for event, data in _split_events(text):
        if event == "error":
            raise StreamError(data)
        if data == "[DONE]":
            break
        value = _parsed(data, needs_json=needs_json or any(isinstance(each, dict) for each in found[:1]))
        left = data if has_error(value) else None
        if left is not None and not _is_step(value, event):
            raise StreamError(data)
        found.append(value)
        written.append(data)
    if left is not None:
        raise StreamError(left)
    if len(found) == 1 and is_cut_object(written[0]):
        raise _cut(written[0])
    return _as_written(found, written)


def has_error(value: Json) -> bool:
    """Whether a value has an `error` that says something."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        return any(error.values())
    return bool(error) and not (isinstance(error, str) and _NO_ERROR.fullmatch(error))


def _split_events(text: str) -> Iterator[tuple[str, str]]:
    event, lines = "", list[str]()
    for line in [*text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if lines:
                yield event, "\n".join(lines)
            event, lines = "", []
        elif name == "data":
            lines.append(value)
        elif name == "event":
            event = value


def _parsed(data: str, *, needs_json: bool) -> Json:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        if needs_json and data.lstrip().startswith(("{", "[")):
            raise _cut(data) from None
        return data


def _cut(data: str) -> ValueError:
    return ValueError(f"an event that is no whole JSON: {shorten(data)}")


def _is_step(value: Json, event: str) -> bool:
    """Whether an event with an error is a step, such as the result of a tool, so that more events may come."""
    names = (value.get("type"), value.get("event")) if isinstance(value, dict) else ()
    name = next((each for each in (*names, event) if isinstance(each, str) and each), "message")
    return name != "message" and not _FAILURE.search(name)


def _as_written(values: list[Json], written: list[str]) -> list[Json]:
    """Return values, but single ones as written if one of them is a text without quotes or a number."""
    pairs = list(zip(values, written, strict=True))
    if not any(value == data if isinstance(value, str) else isinstance(value, int | float) for value, data in pairs):
        return values
    return [value if isinstance(value, dict | list) else data for value, data in pairs]


# The tokens of a reply.

_INPUT: Final = ("input", "input_tokens", "inputTokens", "promptTokens", "prompt_tokens")
_OUTPUT: Final = ("output", "output_tokens", "outputTokens", "completionTokens", "completion_tokens")
_CACHED: Final = ("cached", "cache_read_input_tokens")
_REASONING: Final = ("reasoning", "reasoning_tokens")
_OF_ANTHROPIC: Final = frozenset({"cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"})
_LONGEST: Final = 200
"""The most characters of a value in a warning."""


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; None if those of question or answer are missing: unknown ones are not 0.

    The same mapping counts alike wherever it is found, so the readers of the APIs count it.
    """
    if not _is_known(usage):
        return None
    details = mapping(usage.get("output_tokens_details"))
    if "prompt_tokens" in usage:
        from pytest_agentv.providers.api import openai  # noqa: PLC0415 - only for its replies

        return openai.read_usage(usage)
    if "input_tokens_details" in usage or "reasoning_tokens" in details:
        from pytest_agentv.providers.frameworks import openai_agents as responses  # noqa: PLC0415 - only for its replies

        return responses.read_usage(usage)
    if "input_tokens" in usage and (_OF_ANTHROPIC & usage.keys() or "thinking_tokens" in details):
        from pytest_agentv.providers.api import anthropic  # noqa: PLC0415 - only for its replies

        return anthropic.read_usage(usage)
    total_in, total_out, cached, reasoning = (
        count(_first_of(usage, names)) for names in (_INPUT, _OUTPUT, _CACHED, _REASONING)
    )
    return TokenUsage(total_in, total_out, cached or None, reasoning or None) if total_in or total_out else None


def fault_of(usage: Json) -> str | None:
    """Return the warning about tokens that cannot be read; None if they can, or if there are none."""
    is_reported = any(value is not None for value in usage.values()) if isinstance(usage, dict) else usage is not None
    if not is_reported or _is_known(mapping(usage)):
        return None
    shown = masked(compact_json(usage))[:_LONGEST]
    return f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens"


def _is_known(usage: JsonObject) -> bool:
    return all(is_count(_first_of(usage, names)) for names in (_INPUT, _OUTPUT))


def _first_of(usage: JsonObject, names: Sequence[str]) -> Json:
    return next((usage[name] for name in names if name in usage), None)
