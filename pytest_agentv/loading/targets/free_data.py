"""Types for data that a target passes on: headers, and parts of request bodies. Importing this costs pydantic.

Texts with a secret become `Secret`, so that they are in no record and in no cache key.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import Resolution
from pytest_agentv.models.base import Json
from pytest_agentv.models.masking.secrets import Secret

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER_TEXT: Final = re.compile(r"[\r\n\0]")


def reveal(value: Json) -> Json:
    """Return plain data with the values of its secrets."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: reveal(item) for key, item in value.items()}
    return [reveal(item) for item in value] if isinstance(value, list | tuple) else value


def secrets_in(value: Json) -> Iterator[str]:
    """Yield the values of the secrets in plain data."""
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from secrets_in(item)


def _shield(value: Json, info: ValidationInfo) -> Json:
    if not isinstance(info.context, Resolution):
        return value
    if isinstance(value, str):
        return info.context.shield(value)
    if isinstance(value, dict):
        return {key: _shield(item, info) for key, item in value.items()}
    return [_shield(item, info) for item in value] if isinstance(value, list) else value


def _mapping(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {describe_value(value)}")  # noqa: TRY004 - pydantic wants it
    return value


def _header_name(value: str) -> str:
    if not _HEADER_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a header")
    return value


def _header_text(value: object) -> object:
    if isinstance(value, Secret):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected a text, got {describe_value(value)}")  # noqa: TRY004 - pydantic wants it
    if _NO_HEADER_TEXT.search(str(value)):
        raise ValueError("a header must not hold the end of a line")
    return str(value)


SHIELDED: Final = AfterValidator(_shield)
"""For data of any shape."""

FreeMapping: TypeAlias = Annotated[
    dict[str, Any], BeforeValidator(_mapping), SHIELDED, WithJsonSchema({"type": "object"})
]
"""A mapping of any content."""
Headers: TypeAlias = Annotated[
    dict[
        Annotated[str, AfterValidator(_header_name)],
        Annotated[str | Secret, BeforeValidator(_header_text), SHIELDED, WithJsonSchema({"type": "string"})],
    ],
    BeforeValidator(_mapping),
]
"""Names and values of HTTP headers."""
