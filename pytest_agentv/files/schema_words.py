"""Finds JSON Schemas without keywords, and misspelt keywords. By the standard, an unknown keyword checks nothing."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from pytest_agentv.model.base import Json, JsonObject

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
_TELLING: Final = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary", "id"),
        *("contentEncoding", "contentMediaType", "contentSchema", "default", "definitions", "deprecated"),
        *("description", "example", "examples", "nullable", "readOnly", "title", "writeOnly"),
    }
)
"""The keywords that check nothing by themselves, also those of OpenAPI. A schema of these alone may be meant so."""
_CHECKING: Final = (
    frozenset({*_WORDS, "$ref", "$dynamicRef", "$recursiveRef", "disallow", "divisibleBy", "extends"}) - _TELLING
)
"""The last three are of old drafts."""
_WRAPPERS: Final = ("schema", "json_schema", "jsonSchema", "value", "parameters", "input_schema", "inputSchema")
"""Keys of other programs, or of the check, below which the schema is."""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NEAR: Final = 0.85
"""From this ratio a word is a misspelling: "requried" has 0.88, "tsType", which is no misspelling of "type", 0.80."""
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""A part of a word such as "minLength" or "min_length"."""


def lacks_keywords(schema: JsonObject) -> str | None:
    """Return why a mapping is no JSON Schema, although the standard takes it: all its words are unknown.

    A description beside them is as that of OpenAI's `{name, description, strict, schema}`.
    """
    unknown = _unknown(schema)
    if not unknown or any(_is_keyword(word, schema) for word in schema):
        return None
    first = next((word for word in unknown if word not in _CHECKING), unknown[0])
    return f"is no JSON Schema: {first!r} is no keyword, and nothing is checked ({_instead(schema, unknown)})"


def _unknown(schema: JsonObject) -> tuple[str, ...]:
    return tuple(str(word) for word in schema if word not in _TELLING and not _is_keyword(word, schema))


def _is_keyword(word: str, schema: JsonObject) -> bool:
    """Whether a word checks something. `type: json_schema` is a word of OpenAI, beside the schema."""
    if word == "type" and isinstance(schema[word], str) and schema[word] not in _TYPES:
        return _wrapper(schema) is None
    return word in _CHECKING


def _wrapper(schema: JsonObject) -> str | None:
    """Return the key below which the schema is; None if it is below none."""
    found = next((word for word in _WRAPPERS if isinstance(schema.get(word), Mapping)), None)
    plain = (word for word in ("schema", "value") if isinstance(schema.get(word), str | bool))
    return found or next((word for word in plain if schema[word] not in _TYPES), None)


def _instead(schema: JsonObject, unknown: tuple[str, ...]) -> str:
    """Return what to write instead of a mapping without keywords."""
    wrapper = _wrapper(schema)
    if wrapper is not None:
        inner = schema[wrapper]
        below = _wrapper(inner) if isinstance(inner, Mapping) and lacks_keywords(inner) else None
        where = wrapper if below is None else f"{wrapper}.{below}"
        return f"the schema is what stands under {where!r}: write that alone"
    meant = next((found for word in unknown if (found := _meant(word)) is not None), None)
    if meant is not None:
        return f"did you mean {meant!r}?"
    word, value = unknown[0], schema[unknown[0]]
    if not isinstance(value, str | Mapping | list) or (isinstance(value, str) and value not in _TYPES):
        return f"names stand under `properties`: {{properties: {{{word}: …}}}}; `equals` compares with data"
    shown = f"{{type: {value}}}" if isinstance(value, str) else "…"
    return f"names stand under `properties`: {{properties: {{{word}: {shown}}}, required: [{word}]}}"


def doubtful_words(schema: JsonObject) -> tuple[str, ...]:
    """Return a warning for each unknown word of a schema that is nearly a keyword, or names a key of the answer."""
    return (*misspelt_words(schema), *_shorthands(schema))


def _shorthands(schema: JsonObject) -> Iterator[str]:
    """Yield a warning for each inner schema such as `{price: number}`. Others may be of words of other programs."""
    for each in _schemas(schema):
        word = next(iter(_unknown(each)), None)
        if word is None or each is schema or lacks_keywords(each) is None:
            continue
        value = each[word]
        if (isinstance(value, Mapping) and not _CHECKING.isdisjoint(value)) or value in tuple(_TYPES):
            yield f"{word!r} is no keyword of JSON Schema and checks nothing ({_instead(each, (word,))})"


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
