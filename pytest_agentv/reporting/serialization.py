"""Turns records into what may be written: plain JSON data without secrets, as text."""

import math
import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.models.base import ATOMS, Json, JsonObject
from pytest_agentv.models.secrets import Masker
from pytest_agentv.models.text import compact_json

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def recordable(record: JsonObject, masker: Masker) -> dict[str, Json]:
    """Return a record as plain JSON data with secrets masked; its own keys stay, even if one is somebody's password."""
    return {key: masker.mask_plain(json_safe(value)) for key, value in record.items()}


def json_safe(value: object) -> Json:
    """Return plain JSON data for any value, so that no answer, however odd, costs its record.

    NaN and infinities become null, as in JavaScript; lone surrogates, which UTF-8 cannot hold, U+FFFD; keys strings;
    objects of other classes their text.
    """
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if type(value) in ATOMS:
        return value
    match value:
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {_key(key): json_safe(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_safe(item) for item in value]
    return json_safe(str(value))


def _key(key: object) -> str:
    if type(key) is str and key.isascii():
        return key
    safe = json_safe(key)
    return safe if isinstance(safe, str) else compact_json(safe)
