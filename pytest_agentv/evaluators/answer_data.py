"""Reads the JSON of an answer, and parts of it."""

import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.evaluators.json_text import json_values
from pytest_agentv.model.base import ABSENT, Absent, Json
from pytest_agentv.model.text import counted, strict_json, whole_number

_FENCED: Final = re.compile(r"^[ \t]*```", re.MULTILINE)
_PART: Final = re.compile(r"\[(\d{1,9})\]|[^.\[\]]+")
SHOWN_KEYS: Final = 8
"""The most keys of a mapping in a message."""


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
