"""Reads a mapping as a kind, or as a part of one, and notes all faults at their places.

It knows no kind: the caller passes tables and classes. Imports pydantic: import this lazily.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.files.places import Place, misspelt_key
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.files.source import KeyPath
from pytest_agentv.model.base import Json, JsonObject, format_number, is_number
from pytest_agentv.model.kind import EXPECTED, Kind, Part, field_parts, spellings
from pytest_agentv.model.kind_table import KindTable

P = TypeVar("P", bound=Part)

WORDING: Final = {
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
"""The expectation behind each pydantic error type."""

_UNKNOWN: Final = "extra_forbidden"
_TEXTS: Final = ("a text", "a non-empty text")


def find_kind(table: KindTable | Mapping[str, type[P]], value: JsonObject, key: str, place: Place) -> type[P] | None:
    """Return the class for the word under a key. Notes a missing or unknown word."""
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
    """Read a mapping as a part; None after a fault that makes it unusable.

    A key whose value is null counts as absent. An unknown key is noted by `Place.unread` and left out.

    Args:
        part: The class that defines the keys.
        value: The mapping.
        place: The place of the mapping.
        context: Passed to validators as `ValidationInfo.context`.
        elsewhere: Keys of the mapping that other code reads.
    """
    known = (*known_keys(part), *elsewhere)
    is_open = part.model_config.get("extra") == "allow"
    unknown = [key for key in value if key not in known and not is_open]
    given = {key: item for key, item in value.items() if key not in (*unknown, *elsewhere)}
    given = {key: item for key, item in given.items() if item is not None or key not in known}
    reader = _Reader(part, value, place, known, context)
    noted = len(place.problems)
    read = reader.validate(given)
    before = len(place.problems)
    for key in unknown:
        reader.note_unknown((key,), value[key])
    if read is None:  # a misspelt key comes first, because it is the reason why another key is missing
        place.problems[noted:] = [*place.problems[before:], *place.problems[noted:before]]
    for where, each in _parts(read, place) if read else ():
        for key, reason in each.unread_keys():
            where.at(key).unread("nobody reads this key", reason)
    return read


@cache
def known_keys(part: Any) -> tuple[str, ...]:
    """Return the keys that a class reads, in all spellings."""
    return tuple(key for keys in spellings(part).values() for key in keys)


class _Reader(Generic[P]):
    """Reads one mapping and notes its faults."""

    def __init__(self, part: type[P], value: JsonObject, place: Place, known: Collection[str], context: object) -> None:
        self._part = part
        self._value = value
        self._place = place
        self._known = known
        self._context = context
        self._has_variables = bool(getattr(context, "variables", ()))
        """Whether numbers may come from templates. Then a number becomes a text where a text is expected."""
        self._told: set[KeyPath] = set()
        """The places of keys that a hint already names."""

    def validate(self, given: Json) -> P | None:
        """Validate. Then validate again without unknown nested keys, because they prevent rules across keys."""
        noted = len(self._place.problems)
        try:
            return self._part.model_validate(given, context=self._context)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        except RecursionError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - validators of users may raise anything
            self._place.error(f"{self._part.__name__} raised {type(error).__name__}: {error}")
            return None
        if self._has_variables and (shown := _with_texts(given, faults)) is not None:
            return self.validate(shown)
        unknown = [fault["loc"] for fault in faults if fault["type"] == _UNKNOWN]
        others = [fault for fault in faults if fault["type"] != _UNKNOWN]
        for fault in others:
            self._note(fault)
        rest = given
        for where in unknown:
            rest = _without(rest, where)
        read = None
        if not others and rest != given:
            del self._place.problems[noted:]  # validators note these again
            read = self.validate(rest)
        for fault in faults:
            if fault["type"] == _UNKNOWN:
                self.note_unknown(fault["loc"], fault["input"])
        return read

    def note_unknown(self, where: KeyPath, value: Json) -> None:
        """Note an unknown key. The class of a nested mapping decides which of its keys are known."""
        if where in self._told:
            return
        owner: type[Part] = self._part
        for key in where[:-1]:
            owner = next(iter(field_parts(owner, key)), owner)
        key = str(where[-1])
        known = self._known if owner is self._part else known_keys(owner)
        if key in known:
            read = next((keys[0] for keys in spellings(owner).values() if key in keys), key)
            self._place.at(*where).unread(f"is not read, because it is another word for {read!r}", "keep one of them")
            return
        level, hint = owner.level_of(key, value), owner.hint_for(key) or did_you_mean(key, known)
        if level == "error":
            self._place.at(*where).unread("unknown key", hint)
        elif level == "warning":
            self._place.at(*where).warn("unknown key", hint)

    def _note(self, fault: ErrorDetails) -> None:
        if fault["type"] != "missing":
            _note(fault, self._place)
            return
        *above, key = fault["loc"]
        mapping = fault["input"] if above else self._value
        if isinstance(mapping, Mapping) and any(
            each in mapping for each in spellings(self._part).get(str(key), (key,))
        ):
            self._place.at(*fault["loc"]).error("expected a value, got null")
            return
        near = misspelt_key(str(key), mapping, self._known, () if above else spellings(self._part).get(str(key), ()))
        if near is not None:
            self._told.add((*above, near))
        field = None if above else self._part.model_fields.get(str(key))
        hint = field.description if near is None and field else near and f"is {near!r} a misspelling of it?"
        self._place.at(*fault["loc"]).error("is missing", hint)


def _with_texts(value: Json, faults: Sequence[ErrorDetails]) -> Json | None:
    """Return a value with numbers as texts where a text is expected; None if there are none."""
    changed = value
    for fault in faults:
        number = fault["input"]
        wants_text = fault["type"] == "string_type" or fault.get("ctx", {}).get("what") == "a non-empty text"
        if wants_text and is_number(number):
            changed = _replaced(changed, fault["loc"], format_number(number))
    return None if changed == value else changed


def _replaced(value: Json, where: KeyPath, new: str) -> Json:
    """Return a value with another value at a path, if the path exists. Copies the values on the path."""
    if not where:
        return new
    key, *below = where
    if isinstance(value, list | tuple) and isinstance(key, int) and key < len(value):
        return [_replaced(item, tuple(below), new) if index == key else item for index, item in enumerate(value)]
    if isinstance(value, dict) and key in value:
        return {name: _replaced(item, tuple(below), new) if name == key else item for name, item in value.items()}
    return value


def _without(value: Json, where: KeyPath) -> Json:
    """Return a value without the key at a path. Copies the values on the path."""
    key, *below = where
    if isinstance(value, list | tuple) and isinstance(key, int):
        return [_without(item, tuple(below)) if index == key else item for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not below:
        return {name: item for name, item in value.items() if name != key}
    return {name: _without(item, tuple(below)) if name == key else item for name, item in value.items()}


def _note(fault: ErrorDetails, place: Place) -> None:
    where = place.at(*fault["loc"])
    context: dict[str, Any] = fault.get("ctx", {})
    match fault["type"]:
        case "value_error" | "assertion_error":
            where.error(str(context["error"]))
        case "greater_than_equal":
            where.expected(f"a number of {format_number(context['ge'])} or more", fault["input"])
        case "less_than_equal":
            where.expected(f"a number of {format_number(context['le'])} or less", fault["input"])
        case "literal_error":
            choices = re.findall("'([^']*)'", context["expected"]) or [context["expected"].lower()]
            where.expected(
                choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}",
                fault["input"],
                did_you_mean(str(fault["input"]), choices),
            )
        case kind if kind == EXPECTED:
            where.expected(context["what"], fault["input"], _quotes(context["what"], fault["input"], where))
        case kind if kind in WORDING:
            where.expected(WORDING[kind], fault["input"], _quotes(WORDING[kind], fault["input"], where))
        case _:
            where.error(fault["msg"])


def _quotes(what: str, value: Json, place: Place) -> str | None:
    """Return the hint for a number where a text is expected."""
    return place.quotes(value) if what in _TEXTS else None


def _parts(part: Part, place: Place) -> Iterator[tuple[Place, Part]]:
    """Yield a part and its nested parts with their places. Nested kinds are read separately."""
    yield place, part
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part) and not isinstance(value, Kind):
            yield from _parts(value, place.at(name))
        for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
            if isinstance(item, Part) and not isinstance(item, Kind):
                yield from _parts(item, place.at(name, index))
