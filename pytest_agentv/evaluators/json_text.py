"""Finds JSON in a text, and compares JSON values."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.text import refuse_constant, strict_json, whole_number

_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=refuse_constant, parse_int=whole_number)
_OBJECT: Final = re.compile(r'\{\s*+["}]')
_OBJECT_OR_LIST: Final = re.compile(rf"\[(?!\s*+\d++\s*+\])|{_OBJECT.pattern}")
"""What may begin JSON amid text. A number alone in brackets is a mark such as [1]."""
_SURELY_JSON: Final = re.compile(r'\[?\s*+\{\s*+"')
"""How an object begins, or a list of objects. A brace or a bracket of prose or code begins otherwise."""
_FENCE: Final = re.compile(r"^[ \t]*+```[^`\n]*+\n(.*?)^[ \t]*+```[ \t]*+$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class FoundObject:
    """A JSON object of a text."""

    value: JsonObject
    text: str
    """As it is written."""
    begin: int
    """Where it begins in the text."""


def json_objects(text: str) -> Iterator[FoundObject]:
    """Yield the JSON objects of a text in order. Objects within an object are parts of it and are not yielded."""
    end = 0
    while start := _OBJECT.search(text, end):
        begin, end = start.start(), start.start() + 1
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        yield FoundObject(value, text[begin:end], begin)


def json_values(text: str) -> Iterator[Json]:
    """Yield the JSON of a text: the whole text, else what stands in code fences, else each object and list amid it.

    Raises `ValueError` for an object, or a list of objects, that is cut or broken: a part of it does not count.
    """
    for texts in ([text], [fence[1] for fence in _FENCE.finditer(text)]):
        found = [value for each in texts if isinstance(value := _value(each), dict | list)]
        if found:
            yield from found
            return
    end = 0
    while start := _OBJECT_OR_LIST.search(text, end):
        begin, end = start.start(), start.start() + 1
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            if _SURELY_JSON.match(text, begin):
                raise ValueError(f"the JSON in the answer is cut or broken: {error}") from None
            continue
        yield value


def _value(text: str) -> Json:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def json_object(text: str) -> JsonObject | None:
    """Return the JSON object of a text; None for any other text."""
    try:
        value = strict_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def first_json_object(text: str, accepts: Callable[[JsonObject], bool]) -> JsonObject | None:
    """Return the first acceptable JSON object of a text."""
    return next((found.value for found in json_objects(text) if accepts(found.value)), None)


# Equality of JSON values: types count (True is not 1), the order of keys does not, 1 equals 1.0.


def json_equal(left: Json, right: Json) -> bool:
    """Return whether two plain JSON values are equal at every depth. Python's `==` takes True for 1."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
