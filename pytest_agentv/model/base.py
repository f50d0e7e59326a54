"""The base class of all records, and the types of plain JSON data."""

import copy
import dataclasses
import enum
import functools
import marshal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, a list of them or a mapping from str to them."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A mapping from str to plain JSON values."""


class Data(dict[str, Json]):
    """A mapping that a variable holds. It is the value of a check: none of its keys is one of the check."""


ATOMS: Final = frozenset((str, bool, int, type(None)))
"""Types of plain values without nested values. Most values have them, and a set lookup is fast."""

LARGEST: Final = 1e100
"""The largest figure of a run. Sums and squares of many such numbers are finite."""


def mapping(value: Json) -> JsonObject:
    """Return a mapping unchanged, and an empty one for any other value, because data of others may lack any part."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: Json) -> str | None:
    """Return a text unchanged, and None for any other value."""
    return value if isinstance(value, str) else None


def is_number(value: Json) -> TypeGuard[float]:
    """Whether a value is a number. `true` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_measure(value: Json) -> TypeGuard[float]:
    """Whether a value is a number to compute with: no boolean, finite, and not larger than any figure of a run."""
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= LARGEST


def is_amount(value: Json) -> TypeGuard[float]:
    """Whether a value is a number to compute with, of 0 or more, as of tokens, US dollars and milliseconds."""
    return value is not None and is_measure(value) and value >= 0  # most figures of most runs are not known


def unshared(value: Json) -> Json:
    """Return a copy of data for user code, which may change it, because others read the same data."""
    if not isinstance(value, dict | list):
        return value
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302 - written on this line
    except ValueError:  # types that files do not have
        pass
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - objects of users that cannot be copied, such as locks
        return value


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""A key that was not written, where `null` means something else (a message's content, a tool's input)."""

_FROZEN: Final = ATOMS | {float, Absent}
"""Types of values that nobody can change."""


@runtime_checkable
class Plain(Protocol):
    """An object with a plain form that is not a record: a kind."""

    def to_plain(self) -> JsonObject: ...


class Record:
    """Base of the records: frozen dataclasses, which can be pickled and written as JSON.

    `Class.from_plain(record.to_plain()) == record`.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}  # one that user code made may hold anything

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def to_plain(self) -> dict[str, Json]:
        """Return plain JSON data under the snake_case field names, without fields that are None or absent.

        User data (`Json` fields) stays unchanged.
        """
        plain: dict[str, Json] = {}
        for name, absent in _fields(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is not absent:
                plain[name] = value if type(value) in ATOMS else _plain(value)
        return plain

    @classmethod
    def from_plain(cls, data: JsonObject) -> Self:
        """Build the record from the data of `to_plain`. Raises `pydantic.ValidationError` on other shapes."""
        adapter: Any = _adapter(cls)  # type: ignore[arg-type]
        record: Self = adapter.validate_python(data)
        return record


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, Absent | None], ...]:
    """Return the names of the fields, each with the value that means "absent"."""
    return tuple((field.name, ABSENT if field.default is ABSENT else None) for field in dataclasses.fields(cls))


@functools.cache
def _adapter(cls: type) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - 70 ms, which a plain pytest run must not pay

    return TypeAdapter(cls)


def _plain(value: Any) -> Json:
    kind = type(value)
    if kind in ATOMS or kind is list:
        return value
    if kind is tuple:
        return [item if type(item) in ATOMS else _plain(item) for item in value]
    if kind is dict:
        return {key: item if type(item) in ATOMS else _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value  # AgentV writes 1, not 1.0
    if isinstance(value, Record):
        return value.to_plain()
    if isinstance(value, tuple):  # rare types from here on: checking for an abstract class is slow
        return _plain(tuple(value))
    if isinstance(value, Mapping):
        return _plain(dict(value))
    if isinstance(value, Path):
        return str(value)
    return _plain(value.to_plain()) if isinstance(value, Plain) else value


def own_copy(value: Any) -> Any:
    """Return data, a record, an evaluator or a tuple with copies of its data. Objects of users stay the same."""
    if isinstance(value, tuple):
        return tuple(map(own_copy, value))
    if hasattr(value, "model_copy"):  # an evaluator: a hook that changes one would change it for other cases
        return value.model_copy(update={name: own_copy(each) for name, each in value})
    if not isinstance(value, Record):
        return unshared(value)
    held = ((name, getattr(value, name)) for name, _ in _fields(type(value)))  # type: ignore[arg-type]
    return value.replace(**{name: own_copy(each) for name, each in held if type(each) not in _FROZEN})
