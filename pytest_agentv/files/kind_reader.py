"""Reads a mapping as a kind, or as a part of one, and notes all faults at their places.

It knows no kind: the caller passes tables and classes. Imports pydantic: import this lazily.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.files.places import Place, misspelt_key
from pytest_agentv.files.problems import did_you_mean, near_word, quotes
from pytest_agentv.files.source import KeyPath
from pytest_agentv.model.base import ABSENT, Json, JsonObject, format_number, is_number
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


def read_part(part: type[P], value: JsonObject, place: Place, *, context: object = None) -> P | None:
    """Read a mapping as a part; None after a fault that makes it unusable.

    A key whose value is null counts as absent. An unknown key is noted by `Place.unread` and left out.

    Args:
        part: The class that defines the keys.
        value: The mapping.
        place: The place of the mapping.
        context: Passed to validators as `ValidationInfo.context`. Its `may_pass(value, cause)`, if there is one, tells
            whether a fault of a value does not count yet.
    """
    read: P | None = read_parts((part,), value, place, context=context)[0]
    return read


def read_parts(parts: tuple[type[Part], ...], value: JsonObject, place: Place, *, context: object = None) -> list[Any]:
    """Read a mapping whose keys several classes define; else like `read_part`. Unknown keys are noted once."""
    known = _known_to(parts)
    unknown = [key for key in value if key not in known]
    noted = len(place.problems)
    readers = [_Reader(part, parts, value, place, known, context) for part in parts]
    found = [reader.validate(reader.given(unknown)) for reader in readers]
    before = len(place.problems)
    if unknown and all(part.model_config.get("extra") == "forbid" for part in parts):
        told = {where for reader in readers for where in reader.told}
        for key in unknown:
            if (key,) not in told:
                readers[0].note_unknown((key,), value[key])
    if len(place.problems) > before > noted and any(read is None for read in found):
        # a misspelt key comes first, because it is the reason why another key is missing
        place.problems[noted:] = [*place.problems[before:], *place.problems[noted:before]]
    for read in found:
        for where, each in _parts(read, place) if read is not None else ():
            for key, reason in each.unread_keys():
                where.at(key).unread("nobody reads this key", reason)
    return found


@cache
def _known_to(parts: tuple[type[Part], ...]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(map(known_keys, parts)))


@cache
def known_keys(part: Any) -> tuple[str, ...]:
    """Return the keys that a class reads, in all spellings."""
    return tuple(key for keys in spellings(part).values() for key in keys)


@dataclass(slots=True)
class _Reader:
    """Reads one mapping as one of its classes and notes the faults."""

    part: type[Part]
    parts: Sequence[type[Part]]
    """All classes of the mapping."""
    value: JsonObject
    place: Place
    known: Collection[str]
    """The keys that the classes read."""
    context: Any
    told: set[KeyPath] = field(default_factory=set)
    """The places of keys that a hint already names."""

    def given(self, unknown: Collection[str]) -> JsonObject:
        """Return the keys that the class reads; those that nobody knows too, if it takes any."""
        own = known_keys(self.part)
        given = {key: item for key, item in self.value.items() if item is not None and key in own}
        if unknown and self.part.model_config.get("extra") == "allow":
            given |= {key: self.value[key] for key in unknown}
        return given

    def validate(self, given: Json) -> Any:
        """Validate. Then validate again without unknown nested keys, because they prevent rules across keys."""
        noted = len(self.place.problems)
        try:
            return self.part.model_validate(given, context=self.context)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        except RecursionError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - validators of users may raise anything
            if not self._may_pass(str(given), error):
                self.place.error(f"{self.part.__name__} raised {type(error).__name__}: {error}")
            return None
        # numbers that come from templates are texts where a text is expected
        if getattr(self.context, "variables", ()) and (shown := _with_texts(given, faults)) is not None:
            return self.validate(shown)
        unknown = [fault for fault in faults if fault["type"] == _UNKNOWN]
        others = [
            fault
            for fault in faults
            if fault["type"] != _UNKNOWN and not self._may_pass(fault["input"], fault.get("ctx", {}).get("error"))
        ]
        for fault in others:
            self._note(fault)
        rest = given
        for fault in unknown:
            rest = _changed(rest, _written_path(self.part, fault["loc"])[0], ABSENT)
        read = None
        if not others and rest != given:
            del self.place.problems[noted:]  # validators note these again
            read = self.validate(rest)
        for fault in unknown:
            self.note_unknown(fault["loc"], fault["input"])
        return read

    def _may_pass(self, value: Json, cause: object) -> bool:
        may_pass = getattr(self.context, "may_pass", None)
        return may_pass is not None and may_pass(value, cause)

    def note_unknown(self, loc: KeyPath, value: Json) -> None:
        where, owner = _written_path(self.part, loc)
        if where in self.told:
            return
        key = str(where[-1])
        parts, known = (self.parts, self.known) if owner is self.part else ((owner,), known_keys(owner))
        if key in known:
            read = _name_of(key, parts)
            self.place.at(*where).unread(f"is not read, because it is another word for {read!r}", "keep one of them")
            return
        near = near_word(key, known)
        meant = None if near is None else f"did you mean {_name_of(near, parts)!r}?"
        hint = next(filter(None, (part.hint_for(key) for part in parts)), meant)
        level = owner.level_of(key, value)
        if level == "error":
            self.place.at(*where).unread("unknown key", hint)
        elif level == "warning":
            self.place.at(*where).warn("unknown key", hint)

    def _note(self, fault: ErrorDetails) -> None:
        where, owner = _written_path(self.part, fault["loc"])
        if fault["type"] != "missing":
            _note(fault, self.place.at(*where))
            return
        *above, key = where
        mapping = fault["input"] if above else self.value
        found = (each for each in spellings(owner).items() if key in (each[0], *each[1]))
        name, words = next(found, (str(key), (str(key),)))
        if isinstance(mapping, Mapping) and any(word in mapping for word in words):
            self.place.at(*where).error("expected a value, got null")
            return
        known = known_keys(owner) if above else self.known
        near = misspelt_key(str(key), mapping, known, () if above else words)
        if near is not None:
            self.told.add((*above, near))
        meaning = owner.model_fields[name].description if name in owner.model_fields else None
        hint = meaning if near is None else f"is {near!r} a misspelling of it?"
        self.place.at(*where).error("is missing", hint)


def _name_of(key: str, parts: Sequence[type[Part]]) -> str:
    """Return the first spelling of a key."""
    return next((keys[0] for part in parts for keys in spellings(part).values() if key in keys), key)


def _written_path(part: type[Part], loc: KeyPath) -> tuple[KeyPath, type[Part]]:
    """Return where the value of a fault is written, without tags of unions, and the class of the mapping around it."""
    where: list[str | int] = []
    owner, inner = part, list[type[Part]]()
    for key in loc:
        tagged = [each for each in inner if "type" in each.model_fields and each.model_fields["type"].default == key]
        if tagged or key == "[key]":
            inner = tagged
            continue
        if not isinstance(key, int):
            owner = inner[0] if inner else owner
            inner = [*field_parts(owner, key)]
        where.append(key)
    return tuple(where), owner


def _with_texts(value: Json, faults: Sequence[ErrorDetails]) -> Json | None:
    """Return a value with numbers as texts where a text is expected; None if there are none."""
    changed = value
    for fault in faults:
        number = fault["input"]
        wants_text = fault["type"] == "string_type" or fault.get("ctx", {}).get("what") == "a non-empty text"
        if wants_text and is_number(number):
            changed = _changed(changed, fault["loc"], format_number(number))
    return None if changed == value else changed


def _changed(value: Json, where: KeyPath, new: Json) -> Json:
    """Return a value with another value at a path, if the path exists; `ABSENT` leaves it out. Copies what is above."""
    if not where:
        return new
    key, *below = where
    if isinstance(value, list | tuple) and isinstance(key, int) and key < len(value):
        return [_changed(item, tuple(below), new) if index == key else item for index, item in enumerate(value)]
    if isinstance(value, dict) and key in value:
        items = ((name, _changed(item, tuple(below), new) if name == key else item) for name, item in value.items())
        return {name: item for name, item in items if item is not ABSENT}
    return value


def _note(fault: ErrorDetails, where: Place) -> None:
    context: dict[str, Any] = fault.get("ctx", {})
    value, hint = fault["input"], None
    match fault["type"]:
        case "value_error" | "assertion_error":
            where.error(str(context["error"]))
            return
        case "greater_than_equal":
            what = f"a number of {format_number(context['ge'])} or more"
        case "less_than_equal":
            what = f"a number of {format_number(context['le'])} or less"
        case "literal_error":
            choices = re.findall("'([^']*)'", context["expected"]) or [context["expected"].lower()]
            what = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
            hint = did_you_mean(str(value), choices)
        case kind if kind == EXPECTED or kind in WORDING:
            what = context["what"] if kind == EXPECTED else WORDING[kind]
            hint = quotes(value) if what in _TEXTS else None
        case _:
            where.error(fault["msg"])
            return
    where.expected(what, value, hint)


def _parts(part: Part, place: Place) -> Iterator[tuple[Place, Part]]:
    """Yield a part and its nested parts with their places. Nested kinds are read separately."""
    yield place, part
    for name in _fields_of_parts(type(part)):
        value = getattr(part, name)
        if isinstance(value, Part) and not isinstance(value, Kind):
            yield from _parts(value, place.at(name))
        for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
            if isinstance(item, Part) and not isinstance(item, Kind):
                yield from _parts(item, place.at(name, index))


@cache
def _fields_of_parts(part: Any) -> tuple[str, ...]:
    """Return the fields whose values may hold nested parts."""
    return tuple(name for name, keys in spellings(part).items() if any(True for _ in field_parts(part, keys[0])))
