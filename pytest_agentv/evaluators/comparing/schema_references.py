"""Finds the references of a JSON Schema that lead nowhere, or in a circle."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_agentv.models.base import Json

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_DATA: Final = ("const", "enum", "default", "examples")
"""Keywords whose values are no schemas."""


def reference_fault(schema: Json) -> str | None:
    """Return what is wrong with a reference of a schema; None if nothing is.

    With ids within a schema, its references have bases of their own, and are not looked at.
    """
    references = [value for value in _values_of(schema, "$ref") if isinstance(value, str)]
    has_ids = any(True for _ in _values_of(schema, "$id"))
    if not references and not any(True for name in _REFERENCES for _ in _values_of(schema, name)):
        return None
    circle = _Circles(schema).first()
    if circle is not None:
        return f"its $ref {circle!r} leads back to itself with the same value, so it never ends"
    dangling = None if has_ids else next(_dangling(schema, references), None)
    return None if dangling is None else f"its $ref {dangling!r} is not within the schema, and is not fetched"


def _dangling(schema: Json, references: list[str]) -> Iterator[str]:
    """Yield references to other documents, and broken references."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - 60 ms, only for checks with a schema

    resolver = _resolver(schema)
    for reference in references:
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield reference


def _resolver(schema: Json) -> Any:
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415 - as above
    from referencing import Resource  # noqa: PLC0415 - as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - as above

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    return REGISTRY.with_resource("", resource).resolver()


class _Circles:
    """Follows references and the keywords that judge the same value, such as `allOf` and `not`.

    `properties` and `items` judge parts of the value, so a circle through them ends with the value.
    """

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._resolver = _resolver(schema)
        named = isinstance(schema, Mapping) and schema.get("$schema")
        self._is_ref_alone = isinstance(named, str) and "/draft-0" in named
        """Before 2019, a `$ref` hid the keywords beside it."""
        self._path: set[int] = set()
        self._done: set[int] = set()

    def first(self) -> str | None:
        """Return a reference of a circle; None if there is none."""
        inner = self._schema if not isinstance(self._schema, Mapping) else {**self._schema, "$id": None}
        if any(value is not None for value in _values_of(inner, "$id")):
            return None
        return next(filter(None, map(self._circle, self._referred(self._schema))), None)

    def _referred(self, schema: Json) -> Iterator[Json]:
        for name in _REFERENCES:
            for reference in _values_of(schema, name):
                yield self._target(reference)

    def _target(self, reference: Json) -> Json:
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - as above

        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        try:
            return self._resolver.lookup(reference).contents
        except Unresolvable:
            return None

    def _circle(self, schema: Json) -> str | None:
        """Return a reference that leads back to a schema on the way to this one. Raises `RecursionError`."""
        if not isinstance(schema, Mapping) or id(schema) in self._done:
            return None
        self._done.add(id(schema))
        self._path.add(id(schema))
        for reference, inner in self._next(schema):
            found = reference if id(inner) in self._path else self._circle(inner)
            if found is not None:
                return found
        self._path.discard(id(schema))
        return None

    def _next(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
        """Yield the schemas that judge the same value as a schema, with the reference to them."""
        yield from ((schema[name], self._target(schema[name])) for name in _REFERENCES if name in schema)
        if self._is_ref_alone and "$ref" in schema:
            return
        inner = [schema.get(name) for name in (("not", "if", "then", "else") if "if" in schema else ("not",))]
        for name in _LISTS:
            inner += schema[name] if isinstance(schema.get(name), list | tuple) else ()
        for name in _BY_NAME:
            inner += schema[name].values() if isinstance(schema.get(name), Mapping) else ()
        yield from (("", each) for each in inner)


def _values_of(schema: Json, key: str) -> Iterator[Json]:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if key in value:
                yield value[key]
            waiting += [item for name, item in value.items() if name not in _DATA]
        elif isinstance(value, list | tuple):
            waiting += value
