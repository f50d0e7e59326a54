"""Makes texts of data as AgentV does, which is written in JavaScript."""

import math

from pytest_agentv.models.base import Json, is_number
from pytest_agentv.models.text import compact_json, format_number


def javascript_string(value: Json) -> str:
    """Return a value in the form of JavaScript's `String()`, because AgentV reads any `text` like that."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if item is None else javascript_string(item) for item in value)
    if is_number(value):
        return _javascript_number(value)
    return compact_json(value)


def _javascript_number(value: float) -> str:
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 300 digits
        number = math.copysign(math.inf, value)
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return format_number(number)
