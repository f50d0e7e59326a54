"""Reads the JSON of an answer, and parts of it."""

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from pytest_agentv.evaluators.json_text import json_equal, outer_objects, outer_values
from pytest_agentv.model.base import ABSENT, Absent, Json
from pytest_agentv.model.text import counted, strict_json, whole_number

_FENCE: Final = re.compile(r"```(?:json)?[ \t]*\n?", re.IGNORECASE)
_FENCED: Final = re.compile(r"^[ \t]*```", re.MULTILINE)
_PART: Final = re.compile(r"\[(\d{1,9})\]|[^.\[\]]+")
SHOWN_KEYS: Final = 8
"""The most keys of a mapping in a message."""


def parse_answer(answer: str) -> Json | Absent:
    """Return the JSON of an answer, which may have text and fences around it; `ABSENT` if there is none.

    Several objects are ambiguous, and count as none. So does a part of a value that is cut or broken. Amid text, a
    list counts if it holds objects: others may be marks such as [1].
    """
    found = _parse_whole(answer)
    if found is not ABSENT:
        return found
    amid_text = (each.value for each in outer_values(answer))
    return _only(
        value for value in amid_text if isinstance(value, dict) or any(isinstance(item, dict) for item in value)
    )


def _parse_whole(answer: str) -> Json | Absent:
    """Return the JSON that is the answer, or its only object, which is in no list; `ABSENT` if there is none."""
    for text in (answer, _FENCE.sub("", answer)):  # unchanged first: a fence may be in a text of the JSON
        whole = parse_json(text)
        if isinstance(whole, dict | list):
            return whole
    found = list(itertools.islice(outer_objects(answer), 2))
    if len(found) == 1 and any(each.begin == found[0].begin for each in outer_values(answer)):
        return found[0].value
    return ABSENT


def _only(values: Iterable[Json]) -> Json | Absent:
    found = list(itertools.islice(values, 2))
    return found[0] if len(found) == 1 else ABSENT


@lru_cache(maxsize=4)
def data_of(answer: str) -> Json | Absent:
    """Return the JSON of an answer like `parse_answer`, else its only list. Do not change it.

    Cached, because several checks parse the same answer.
    """
    found = parse_answer(answer)
    return _only(found.value for found in outer_values(answer)) if found is ABSENT else found


def parse_json(text: str) -> Json | Absent:
    """Return the JSON value of a text; `ABSENT` for any other text."""
    try:
        return strict_json(text, whole_number)
    except (ValueError, RecursionError):
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


def is_in_one_of_several(answer: Json, path: str) -> bool:
    """Return whether an answer that is not one JSON value has this path in one of its JSON objects."""
    if not isinstance(answer, str) or _parse_whole(answer) is not ABSENT:
        return False
    return any(read_path(each, path) is not ABSENT for each in _objects(answer))


def _objects(answer: str, most: int | None = None) -> list[Json]:
    return [found.value for found in itertools.islice(outer_objects(answer), most)]


def is_one_of_several(answer: str, value: Json) -> bool:
    """Return whether one of the JSON objects and lists amid the text of an answer is a value."""
    lists = (each.value for each in outer_values(answer))
    return any(json_equal(each, value) for each in itertools.chain(lists, _objects(answer)))


def holds_objects(answer: str) -> bool:
    """Return whether there is a JSON object in an answer."""
    return bool(_objects(answer, 1))


def lacking_data(answer: str, path: str) -> str | None:
    """Return the name of the data that an answer lacks for a look-up by path; None if it holds such data."""
    if data_of(answer) is ABSENT:
        return None if holds_objects(answer) else "JSON"
    # The only list amid text may be a mark such as [1], and has no names. One that holds objects is no mark.
    is_in_list = re.match(r"\[?\d", path) is not None
    return None if is_in_list or _parse_whole(answer) is not ABSENT or holds_objects(answer) else "JSON object"


def locate_part(answer: Json, path: str) -> tuple[Json | Absent, str]:
    """Return the value at a path of an answer, or `ABSENT` and a miss that names the nearest place that exists.

    Args:
        answer: The text of an answer, or data.
        path: For example `items[0].price`.
    """
    data = data_of(answer) if isinstance(answer, str) else answer
    if data is ABSENT:
        held = "several JSON objects" if len(_objects(answer, 2)) == 2 else "no JSON"
        return ABSENT, f"{path} is missing: the answer holds {held}"
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
