"""Reads a mapping of a file as a kind, or as a part of one: every fault is noted at its place, all at once.

It knows no kind: tables and classes are handed in. Imports pydantic: import this lazily.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.loading.places import Place, misspelling, misspelt_key
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.loading.yaml_values import KeyPath
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import EXPECTED, Kind, Part, field_parts, spellings
from pytest_agentv.models.kind_table import KindTable
from pytest_agentv.models.text import format_number

P = TypeVar("P", bound=Part)

_WORDING: Final = {
    "string_type": "a text",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one entry",
}
"""What pydantic's error types say was expected."""

_UNKNOWN: Final = "extra_forbidden"


def find_kind(table: KindTable | Mapping[str, type[P]], value: JsonObject, key: str, place: Place) -> type[P] | None:
    """Return the class of the word under a key; a missing or unknown word is noted."""
    word = value.get(key)
    if isinstance(word, str) and word in table:
        return table[word]
    known = ", ".join(sorted(table))
    if word is None:
        place.at(key).error(f"is missing: expected one of {known}")
    else:
        hint = did_you_mean(word, table) if isinstance(word, str) else None
        place.at(key).expected(f"one of {known}", word, hint)
    return None


def read_part(
    part: type[P], value: JsonObject, place: Place, *, context: object = None, elsewhere: Collection[str] = ()
) -> P | None:
    """Read a mapping as a part; None when a fault was noted that leaves nothing to use.

    A key whose value is null counts as absent. A key that nobody reads is noted by `Place.unread`, and left out.

    Args:
        part: The class that says what may be there.
        value: The mapping.
        place: Where it stands.
        context: Handed to validators as `ValidationInfo.context`.
        elsewhere: Keys of the mapping that are read by others.
    """
    known = (*known_keys(part), *elsewhere)
    given = {key: item for key, item in value.items() if key not in elsewhere}
    given = {key: item for key, item in given.items() if item is not None or key not in known}
    read = _validate(part, given, place, known, context)
    for where, each in _parts(read, place) if read else ():
        for key, reason in each.unread_keys():
            where.at(key).unread("nobody reads this key", reason)
    return read


@cache
def known_keys(part: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys that a class reads, all spellings included."""
    return tuple(key for keys in spellings(part).values() for key in keys)


def _validate(part: type[P], given: Json, place: Place, known: Collection[str], context: object) -> P | None:
    """Validate, and again without the keys that are not known: rules across keys wait until the keys are right."""
    while True:
        before = given
        try:
            return part.model_validate(given, context=context)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        except Exception as error:  # noqa: BLE001 - users write kinds, and their validators may raise anything
            place.error(f"{part.__name__} raised {type(error).__name__}: {error}")
            return None
        unknown = [fault["loc"] for fault in faults if fault["type"] == _UNKNOWN]
        others = [fault for fault in faults if fault["type"] != _UNKNOWN]
        told = {where for fault in others if (where := _misspelt(fault, known)) is not None}
        for where in unknown:
            if where not in told:
                _note_unknown(part, where, place, known)
            given = _without(given, where)
        for fault in others:
            _note(fault, place, known)
        if others or given == before:
            return None


def _misspelt(fault: ErrorDetails, known: Collection[str]) -> KeyPath | None:
    """Return the place of the key that the hint of a missing one names; it needs no second word."""
    *above, key = fault["loc"] or ("",)
    near = misspelt_key(str(key), fault["input"], known) if fault["type"] == "missing" else None
    return None if near is None else (*above, near)


def _note_unknown(part: type[Part], where: KeyPath, place: Place, known: Collection[str]) -> None:
    """Note a key that is not known; of a nested mapping, its own class says which ones are."""
    owner = part
    for key in where[:-1]:
        owner = next(iter(field_parts(owner, key)), owner)
    key = str(where[-1])
    hint = owner.hints.get(key) or did_you_mean(key, known if owner is part else known_keys(owner))
    place.at(*where).unread("unknown key", hint)


def _without(value: Json, where: KeyPath) -> Json:
    """Return a value without the key at a path; what is on the path is copied."""
    key, *below = where
    if isinstance(value, list | tuple) and isinstance(key, int):
        return [_without(item, tuple(below)) if index == key else item for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not below:
        return {name: item for name, item in value.items() if name != key}
    return {name: _without(item, tuple(below)) if name == key else item for name, item in value.items()}


def _note(fault: ErrorDetails, place: Place, known: Collection[str]) -> None:
    where = place.at(*fault["loc"])
    context: dict[str, Any] = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            where.error("is missing", misspelling(str(fault["loc"][-1]), fault["input"], known))
        case "value_error" | "assertion_error":
            where.error(str(context["error"]))
        case "greater_than_equal":
            where.expected(f"a number of {format_number(context['ge'])} or more", fault["input"])
        case "less_than_equal":
            where.expected(f"a number of {format_number(context['le'])} or less", fault["input"])
        case "literal_error":
            choices = re.findall("'([^']*)'", context["expected"])
            where.expected(f"one of {', '.join(choices)}", fault["input"], did_you_mean(str(fault["input"]), choices))
        case kind if kind == EXPECTED:
            where.expected(context["what"], fault["input"])
        case kind if kind in _WORDING:
            where.expected(_WORDING[kind], fault["input"])
        case _:
            where.error(fault["msg"])


def _parts(part: Part, place: Place) -> Iterator[tuple[Place, Part]]:
    """Yield a part and those within it, each with its place; kinds within it were read apart."""
    yield place, part
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part) and not isinstance(value, Kind):
            yield from _parts(value, place.at(name))
        for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
            if isinstance(item, Part) and not isinstance(item, Kind):
                yield from _parts(item, place.at(name, index))
