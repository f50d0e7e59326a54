"""Reads the JSON of an answer and parts of it, and compares JSON values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject
from pytest_agentv.model.text import counted, refuse_constant, strict_json, whole_number

DECODER: Final = json.JSONDecoder(strict=False, parse_constant=refuse_constant, parse_int=whole_number)
"""Reads texts with raw line breaks too, which small models write."""
_OBJECT_OR_LIST: Final = re.compile(r'\[(?!\s*+\d++\s*+\])|\{\s*+["}]')
"""What may begin JSON amid text. A number alone in brackets is a mark such as [1]."""
_SURELY_JSON: Final = re.compile(r'\[?\s*+\{\s*+"')
"""How an object begins, or a list of objects. A brace or a bracket of prose or code begins otherwise."""
_FENCE: Final = re.compile(r"^[ \t]*+```[^`\n]*+\n(.*?)^[ \t]*+```[ \t]*+$", re.MULTILINE | re.DOTALL)
_FENCED: Final = re.compile(r"^[ \t]*```", re.MULTILINE)
_PART: Final = re.compile(r"\[(\d{1,9})\]|[^.\[\]]+")
SHOWN_KEYS: Final = 8
"""The most keys of a mapping in a message."""


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
            value, end = DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            if _SURELY_JSON.match(text, begin):
                raise ValueError(f"the JSON in the answer is cut or broken: {error}") from None
            continue
        yield value


def _value(text: str) -> Json:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def json_object(text: str) -> JsonObject | None:
    """Return the JSON object of a text; None for any other text."""
    try:
        value = strict_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_answer(answer: str) -> Json | Absent:
    """Return the JSON of an answer: all of it, or the first object or list in a fence or amid text; else `ABSENT`.

    JSON that is cut or broken is none.
    """
    try:
        return next(json_values(answer), ABSENT)
    except ValueError:
        return ABSENT


def parse_json(text: str) -> Json | Absent:
    """Return the JSON value of a text; `ABSENT` for any other text."""
    try:
        return strict_json(text, whole_number)
    except ValueError:
        return ABSENT


def no_data(name: str, answer: str, fault: object) -> str:
    """Return the miss of an answer that is not JSON, YAML or XML, as the name says."""
    hint = " (contains-json reads it there)" if name == "JSON" else ""
    return f"is no {name}: {f'a code fence (```) is around it{hint}' if _FENCED.search(answer) else fault}"


def read_path(data: Json, path: str) -> Json | Absent:
    """Return the value at a path such as `items[0].price`; `ABSENT` if there is none. null is a value.

    The `length` of a list is how many entries it has, as in AgentV, where paths lead through objects of JavaScript.
    """
    value = data
    for part in filter(None, re.split(r"[.\[\]]", path)):
        value = _step(value, part)
        if value is ABSENT:
            return ABSENT
    return value


def _step(value: Json, part: str) -> Json | Absent:
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list | tuple) and re.fullmatch(r"[0-9]{1,9}", part) and int(part) < len(value):
        return value[int(part)]
    return len(value) if part == "length" and isinstance(value, list | tuple) else ABSENT


def locate_part(answer: Json, path: str) -> tuple[Json | Absent, str]:
    """Return the value at a path of an answer, or `ABSENT` and a miss that names the nearest place that exists.

    Args:
        answer: The text of an answer, or data.
        path: For example `items[0].price`.
    """
    data = parse_answer(answer) if isinstance(answer, str) else answer
    if data is ABSENT:
        return ABSENT, f"{path} is missing: the answer holds no JSON"
    value, reached = data, ""
    for found in _PART.finditer(path):
        inner = _step(value, found[1] or found[0])
        if inner is ABSENT:
            return ABSENT, f"{path} is missing: {reached or 'the answer'} {_contents(value)}"
        value, reached = inner, path[: found.end()]
    return value, ""


def _contents(value: Json) -> str:
    if isinstance(value, Mapping):
        keys = [str(key) for key in value]
        more = ", …" if len(keys) > SHOWN_KEYS else ""
        return f"has {', '.join(keys[:SHOWN_KEYS])}{more}" if keys else "has no keys"
    if isinstance(value, list | tuple):
        return f"has {counted(len(value), 'entry', 'entries')}"
    return "is no mapping and no list"


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
