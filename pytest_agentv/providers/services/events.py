"""Reads server-sent events, the parts of a streamed reply."""

import json
import re
from collections.abc import Iterator
from typing import Final

from pytest_agentv.models.base import Json
from pytest_agentv.providers.apis.failures import shorten
from pytest_agentv.providers.services.contents import is_cut_object

_END = "[DONE]"
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
    for event, data in _events(text):
        if event == "error":
            raise StreamError(data)
        if data == _END:
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


def _as_written(values: list[Json], written: list[str]) -> list[Json]:
    """Return values, but single ones as written if one of them is a text without quotes or a number."""
    pairs = list(zip(values, written, strict=True))
    if not any(value == data if isinstance(value, str) else isinstance(value, int | float) for value, data in pairs):
        return values
    return [value if isinstance(value, dict | list) else data for value, data in pairs]


def has_error(value: Json) -> bool:
    """Whether a value has an `error` that says something."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        return any(error.values())
    return bool(error) and not (isinstance(error, str) and _NO_ERROR.fullmatch(error))


def _is_step(value: Json, event: str) -> bool:
    """Whether an event with an error is a step, such as the result of a tool, so that more events may come."""
    names = (value.get("type"), value.get("event")) if isinstance(value, dict) else ()
    name = next((each for each in (*names, event) if isinstance(each, str) and each), "message")
    return name != "message" and not _FAILURE.search(name)


def _events(text: str) -> Iterator[tuple[str, str]]:
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
