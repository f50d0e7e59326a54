"""Reads parts of objects and mappings alike, and converts values of tools and agents to plain JSON data."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final

from pytest_agentv.models.base import ABSENT, Json, is_number
from pytest_agentv.models.messages import ToolCall, kind_of
from pytest_agentv.models.traces import UNNAMED
from pytest_agentv.providers.apis.data import parsed as parsed_text

SIZE_LIMIT: Final = 64 * 2**20
"""The most characters of a return value."""

TOO_LARGE: Final = f"it has more than {SIZE_LIMIT // 2**20} million characters"

_DEEPEST: Final = 100
_TEXT_PARTS: Final = frozenset({"text", "output_text", "input_text"})


class TooLargeError(ValueError):
    """A return value is larger than `SIZE_LIMIT`."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE)


def get(value: object, *names: str) -> Any:
    """Return the first of some attributes, or keys of a mapping, that is not None; None if there is none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def items(value: object) -> Sequence[Any]:
    """Return a list or a tuple unchanged; empty for any other value."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object) -> str | None:
    """Return a text unchanged, the text of an enum member, and None for any other value."""
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, str) else None


def text_content(content: object) -> Json:
    """Return the text of a message's content, which may have parts; `ABSENT` if it has no text."""
    if isinstance(content, str):
        return str(content)
    texts = list(_texts(content))
    return "".join(texts) if texts else ABSENT


def _texts(content: object) -> Iterator[str]:
    for part in items(content):
        if isinstance(part, str):
            yield part
        elif kind_of(part) in _TEXT_PARTS and isinstance(found := get(part, "text"), str):
            yield found


def read_call(call: object) -> ToolCall:
    """Return a call in the words of any API. The input of a `custom` tool is a free text."""
    called = get(call, "function", "custom", "toolUse") or call
    arguments, free = get(called, "arguments", "args"), get(called, "input")
    given = plain(free) if arguments is None else parsed(arguments)
    name = text(get(called, "name", "toolName", "tool_name", "tool")) or UNNAMED
    call_id = text(get(call, "id", "toolCallId", "tool_call_id")) or text(get(called, "toolUseId"))
    return ToolCall(name, ABSENT if given is None else given, id=call_id)


def parsed(value: object) -> Json:
    """Return plain data. Parses a text that is JSON, because most APIs send the arguments of tools as text."""
    return parsed_text(value) if isinstance(value, str) else plain(value)


def output_of(value: object) -> Json:
    """Return the output of a tool, which may have parts. Without a type, they are data."""
    is_data = any(isinstance(part, Mapping) and "type" not in part for part in items(value))
    found = ABSENT if is_data else text_content(value)
    return plain(value) if found is ABSENT else parsed(found)


def time_text(value: object) -> str | None:
    """Return a time, a `datetime` or seconds since 1970, as ISO 8601 in UTC with milliseconds."""
    if is_number(value):
        value = datetime.fromtimestamp(value, UTC)
    if isinstance(value, datetime):
        in_utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text(value)


def plain(value: object) -> Json:
    """Return plain JSON data for any value. Raises `TooLargeError`."""
    return _Plain().of(value, 0)


class _Plain:
    def __init__(self) -> None:
        self._left = SIZE_LIMIT

    def of(self, value: object, depth: int) -> Json:
        self._pay(len(value) if isinstance(value, str | bytes) else 1)
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth == _DEEPEST:
            return "…"
        return self._nested(value, depth + 1)

    def _nested(self, value: object, depth: int) -> Json:
        if isinstance(value, Mapping):
            return {str(key): self.of(item, depth) for key, item in value.items()}
        if isinstance(value, SimpleNamespace):
            return self.of(vars(value), depth)
        if isinstance(value, list | tuple | Set):
            return [self.of(item, depth) for item in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if field.repr]
            return {name: self.of(getattr(value, name, None), depth) for name in names}
        return self._other(value, depth)

    def _other(self, value: object, depth: int) -> Json:
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, bytes | bytearray):
            return f"<{len(value)} bytes>"
        dump = getattr(value, "model_dump", None)
        try:
            return self.of(dump(mode="json"), depth) if callable(dump) and not isinstance(value, type) else str(value)
        except TooLargeError:
            raise
        except Exception:  # noqa: BLE001 - code of others failed: only the type is known
            return f"<{type(value).__name__}>"

    def _pay(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise TooLargeError
