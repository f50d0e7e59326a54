"""Lists in a JSON Schema the names of an answer that its patterns match.

For `unevaluatedProperties`, the package `jsonschema` searches names with `re`, which cannot be stopped. It also does so
in referenced schemas, so no rule of ours can replace that search. In a schema without patterns for names, it finds
nothing to search.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.evaluators.comparing.patterns import search_now
from pytest_agentv.models.base import Json, JsonObject

PATTERNS: Final = "patternProperties"
MATCHED: Final = "agentv:patternProperties"
"""The rule that checks the values of the names that patterns match, in a schema that names them."""

_OF_NAMES: Final = ("$defs", "definitions", "dependentSchemas", "dependencies", "properties", PATTERNS)
"""Keywords whose values hold a schema for each name."""
_NO_SCHEMAS: Final = ("const", "enum", "default", "examples")


def needs_names(schema: str) -> bool:
    """Whether a schema, given as JSON, may search names beyond the reach of our rules."""
    return '"unevaluatedProperties"' in schema and f'"{PATTERNS}"' in schema


def with_names(schema: Json, data: Json) -> Json:
    """Return a schema that lists the names in some data as properties where its patterns match them.

    It judges these data alike. Raises `TimeoutError` for a bad pattern.
    """
    return _named(schema, tuple(dict.fromkeys(_names(data))))


def _named(schema: Json, names: tuple[str, ...]) -> Json:
    if isinstance(schema, list):
        return [_named(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _inner(key, value, names) for key, value in schema.items()}
    patterns = found.pop(PATTERNS, None)
    if not isinstance(patterns, dict):
        return found
    matched = [name for name in names if any(search_now(pattern, name, is_of_schema=True) for pattern in patterns)]
    return {**found, "properties": {**dict.fromkeys(matched, True), **found.get("properties", {})}, MATCHED: patterns}


def _inner(key: str, value: Json, names: tuple[str, ...]) -> Json:
    if key in _NO_SCHEMAS:
        return value
    if key in _OF_NAMES and isinstance(value, Mapping):
        return {name: _named(each, names) for name, each in value.items()}
    return _named(value, names)


def _names(data: Json) -> Iterator[str]:
    waiting: list[Json | JsonObject] = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
