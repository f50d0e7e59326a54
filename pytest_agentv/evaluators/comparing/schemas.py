"""Creates validators of the package `jsonschema` that download nothing and limit the time of patterns."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from pytest_agentv.evaluators.comparing.patterns import of_schema, search_now
from pytest_agentv.evaluators.comparing.schema_names import MATCHED, PATTERNS, needs_names, with_names
from pytest_agentv.models.base import Json, JsonObject

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
