"""Creates validators of the package `jsonschema` that download nothing and limit the time of patterns."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from pytest_agentv.evaluators.patterns import of_schema, search_now
from pytest_agentv.model.base import Json, JsonObject

# Lists in a JSON Schema the names of an answer that its patterns match.
#
# For `unevaluatedProperties`, the package `jsonschema` searches names with `re`, which cannot be stopped. It also does
# so in referenced schemas, so no rule of ours can replace that search. In a schema without patterns for names, it finds
# nothing to search.

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


_FORMATS: Final = ("date", "ipv4", "ipv6", "uuid")
"""The formats that `jsonschema` always checks. Others need packages, and would depend on the machine."""
_ATOM: Final = r"[\w!#$%&'*+/=?^`{|}~-]+"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_LABEL}(?:\.{_LABEL})*|\[(?:IPv6:)?[0-9A-Fa-f:.]+\])", re.ASCII
)
"""An address by RFC 5321. `jsonschema` takes any text with an "@"."""
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f\s]")
_DEPENDENCIES: Final = "dependencies"
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class FormatHint(ValueError):
    """What to write for a text that another format takes."""


def validator_for(schema: str, data: Json) -> Any:
    """Return the validator of a schema, which is given as JSON, for some data.

    This and the validator raise `TimeoutError` for a bad pattern.
    """
    return _validator(with_names(json.loads(schema), data)) if needs_names(schema) else schema_validator(schema)


@lru_cache(maxsize=64)
def schema_validator(schema: str) -> Any:
    """Return a cached validator of a schema. Only `validator_for` limits the time of all patterns."""
    return _validator(json.loads(schema))


def _validator(value: Json) -> Any:
    import jsonschema  # noqa: PLC0415 - 60 ms, only for checks with a schema
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415 - as above

    kind = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
    rules = {
        "pattern": _match_pattern,
        "multipleOf": _divide,
        PATTERNS: _match_names,
        MATCHED: _match_names,
        "additionalProperties": _Additional(kind.VALIDATORS["additionalProperties"]),
    }
    # Schemas that name no draft may be of an older one. The newest draft passes over this keyword without a word.
    if _DEPENDENCIES not in kind.VALIDATORS:
        rules[_DEPENDENCIES] = jsonschema.Draft7Validator.VALIDATORS[_DEPENDENCIES]
    limited = jsonschema.validators.extend(kind, rules)  # type: ignore[no-untyped-call]
    checker = pattern_checker(_FORMATS)
    checker.checks("date-time", raises=ValueError)(_is_date_time)
    checker.checks("email", raises=FormatHint)(_is_email)
    checker.checks("idn-email")(_is_idn_email)
    return limited(value, registry=REGISTRY, format_checker=checker)


def pattern_checker(formats: tuple[str, ...] = ()) -> Any:
    """Return a checker of formats, and of `regex` in the language of JavaScript. `jsonschema` takes Python's."""
    import jsonschema  # noqa: PLC0415 - as above

    checker = jsonschema.FormatChecker(formats)
    checker.checks("regex", raises=ValueError)(_is_pattern)
    return checker


def _match_pattern(_validator: Any, pattern: str, instance: Json, _schema: Json) -> Iterator[Any]:
    import jsonschema  # noqa: PLC0415 - as above

    if isinstance(instance, str) and not search_now(pattern, instance, is_of_schema=True):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _divide(validator: Any, step: float, instance: Json, _schema: Json) -> Iterator[Any]:
    """Divide numbers as they are written: as floats, 19.99 / 0.01 is 1998.9999999999998."""
    import jsonschema  # noqa: PLC0415 - as above

    if validator.is_type(instance, "number") and _as_written(instance) % _as_written(step):
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {step!r}")


def _as_written(value: float) -> Fraction:
    """Return the exact value of a number's digits. Raises `OverflowError` for 1e400."""
    return Fraction(repr(value)) if abs(value) < math.inf else Fraction(value)


def _match_names(validator: Any, patterns: JsonObject, instance: Json, _schema: Json) -> Iterator[Any]:
    for pattern, schema in patterns.items() if isinstance(instance, dict) else ():
        for key, value in instance.items():
            if search_now(pattern, key, is_of_schema=True):
                yield from validator.descend(value, schema, path=key, schema_path=pattern)


class _Additional:
    """`additionalProperties`, with the names that a pattern matches counted as known."""

    def __init__(self, rule: Any) -> None:
        self._rule = rule

    def __call__(self, validator: Any, wanted: Json, instance: Json, schema: Json) -> Iterator[Any]:
        patterns = schema.get(PATTERNS) if isinstance(instance, dict) else None
        if isinstance(patterns, Mapping):
            matched = [
                key for key in instance if any(search_now(pattern, key, is_of_schema=True) for pattern in patterns)
            ]
            schema = {"properties": {**schema.get("properties", {}), **dict.fromkeys(matched, True)}}
        yield from self._rule(validator, wanted, instance, schema) or ()


def _is_pattern(value: object) -> bool:
    """Whether a text is a pattern. Raises `ValueError` with the fault."""
    return not isinstance(value, str) or of_schema(value) is not None


def _is_email(value: object) -> bool:
    """Whether a text is an address, and nothing else is in it. Raises `FormatHint` for an international one."""
    if not isinstance(value, str) or _EMAIL.fullmatch(value) is not None:
        return True
    if _is_idn_email(value):
        raise FormatHint("RFC 5321 is ASCII: `format: idn-email` takes other letters")
    return False


def _is_idn_email(value: object) -> bool:
    """Whether a text is an address by RFC 6531, which takes characters beyond ASCII wherever letters may be."""
    return not isinstance(value, str) or _EMAIL.fullmatch(_BEYOND_ASCII.sub("x", value)) is not None


def _is_date_time(value: object) -> bool:
    """Whether a text is a date with a time and an offset (RFC 3339). Raises `ValueError` for an impossible day."""
    if not isinstance(value, str):
        return True
    return _DATE_TIME.fullmatch(value) is not None and datetime.fromisoformat(value.upper()) is not None


# Finds the references of a JSON Schema that lead nowhere, or in a circle.

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
