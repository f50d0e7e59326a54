"""Finds misspelt keywords in a JSON Schema. By the standard, an unknown keyword checks nothing."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from pytest_agentv.models.base import Json, JsonObject

_OF_NAMES: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose values hold a schema for each name."""
_OF_SCHEMAS: Final = frozenset(
    {
        *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not"),
        *("oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords whose values are a schema, or a list of schemas."""
_WORDS: Final = (
    *sorted(_OF_NAMES | _OF_SCHEMAS),
    *("const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains"),
    *("maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties"),
    *("minimum", "multipleOf", "pattern", "required", "type", "uniqueItems"),
)
"""The keywords that check something. One such as `description` may be misspelt without harm."""
_NEAR: Final = 0.85
"""From this ratio a word is a misspelling: "requried" has 0.88, "tsType", which is no misspelling of "type", 0.80."""
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""A part of a word such as "minLength" or "min_length"."""


def misspelt_words(schema: JsonObject) -> tuple[str, ...]:
    """Return a warning for each unknown word of a schema that is nearly a keyword."""
    words = dict.fromkeys(str(word) for each in _schemas(schema) for word in each)
    meant = ((word, _meant(word)) for word in words if word not in _WORDS)
    return tuple(
        f"{word!r} is no keyword of JSON Schema and checks nothing (did you mean {keyword!r}?)"
        for word, keyword in meant
        if keyword is not None
    )


def _schemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a schema and those within it. Names of properties, constants and examples are none."""
    waiting: list[Json] = [schema]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Mapping):
            continue
        yield value
        for word, inner in value.items():
            if word in _OF_NAMES and isinstance(inner, Mapping):
                waiting += inner.values()
            elif word in _OF_SCHEMAS:
                waiting += inner if isinstance(inner, list) else [inner]


@lru_cache
def _meant(word: str) -> str | None:
    """Return the keyword that is meant. Words such as `x-format`, `_type` and `requiredIf` belong to other programs."""
    if not word[:1].isalpha() and not word.startswith("$"):
        return None
    ratios = ((SequenceMatcher(None, word.lower(), keyword.lower()).ratio(), keyword) for keyword in _WORDS)
    ratio, keyword = max(ratios)
    has_more_parts = len(_PART.findall(word)) > len(_PART.findall(keyword))
    return keyword if ratio >= _NEAR and not has_more_parts else None
