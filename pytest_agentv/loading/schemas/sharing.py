"""Moves repeated parts of a JSON Schema to definitions."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final

from pytest_agentv.models.base import Json, JsonObject

_SHORT: Final = 60
"""The length of a schema up to which a reference would be no shorter."""


def shared(schema: JsonObject) -> JsonObject:
    """Return a schema with definitions for properties that have the same schema in several places.

    A definition has the name of the property, with a number if several have that name.
    """
    counts = Counter(_text(value) for _, value in _properties(schema))
    names: dict[str, str] = {}
    taken = set(schema.get("definitions", ()))
    for key, value in _properties(schema):
        text = _text(value)
        if counts[text] > 1 and len(text) > _SHORT and text not in names:
            names[text] = _free(key, taken)
            taken.add(names[text])
    found = {name: json.loads(text) for text, name in names.items()}
    definitions = {**schema.get("definitions", {}), **found}
    whole: JsonObject = _replaced({**schema, **({"definitions": definitions} if definitions else {})}, names)
    return whole


def _properties(schema: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the schema of each property, at every depth."""
    if isinstance(schema, list):
        for item in schema:
            yield from _properties(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                yield from value.items()
            yield from _properties(value) if key not in ("examples", "enum") else ()


def _replaced(schema: Json, names: dict[str, str]) -> Json:
    if isinstance(schema, list):
        return [_replaced(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _referred(value, names) for name, value in item.items()}
        if key == "properties"
        else item
        if key in ("examples", "enum")
        else _replaced(item, names)
        for key, item in schema.items()
    }


def _referred(value: Json, names: dict[str, str]) -> Json:
    name = names.get(_text(value))
    return _replaced(value, names) if name is None else {"$ref": f"#/definitions/{name}"}


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _free(key: str, taken: set[str]) -> str:
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key}_{number}"
    return name
