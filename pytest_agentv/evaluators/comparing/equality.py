"""Equality of JSON values: types count (True is not 1), the order of keys does not, 1 equals 1.0."""

from collections.abc import Mapping

from pytest_agentv.models.base import Json


def json_equal(left: Json, right: Json) -> bool:
    """Return whether two plain JSON values are equal at every depth. Python's `==` takes True for 1."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
