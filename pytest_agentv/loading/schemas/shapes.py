"""Makes the parts of schemas."""

from collections.abc import Iterable, Mapping
from typing import Final

from pytest_agentv.models.base import JsonObject

TEXT: Final = {"type": "string"}
FILLED_TEXT: Final = {"type": "string", "pattern": r"\S"}
MAPPING: Final = {"type": "object"}
NULL: Final = {"type": "null"}
TEMPLATE: Final = {"type": "string", "pattern": r"\{\{"}
"""A variable may replace a value of any type."""


def one_of_words(words: Iterable[str]) -> str:
    """Return the pattern of a text that is one of some words in small letters, in any case, with blanks around it."""
    spelt = ("".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in word) for word in words)
    return rf"^\s*({'|'.join(spelt)})\s*$"


def ref(name: str) -> JsonObject:
    return {"$ref": f"#/definitions/{name}"}


def list_of(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


def any_of(*schemas: JsonObject) -> JsonObject:
    """Return alternatives. Nested alternatives are put on the same level, without duplicates."""
    flat = [each for schema in schemas for each in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema])]
    return {"anyOf": [each for index, each in enumerate(flat) if each not in flat[:index]]}


def one_key(keys: Iterable[str]) -> JsonObject:
    """Require one of some synonyms."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def closed(properties: Mapping[str, JsonObject], known: Iterable[str]) -> JsonObject:
    """Return the schema of a mapping with known keys. Null counts as absent everywhere."""
    values = {key: any_of(properties[key], NULL) if key in properties else {} for key in sorted(known)}
    return {"type": "object", "properties": values, "additionalProperties": False}
