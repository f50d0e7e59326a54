"""The base class of all records, plain JSON data, and texts."""

import copy
import dataclasses
import enum
import functools
import json
import marshal
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path, PurePath
from typing import Any, ClassVar, Final, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

# The base class of all records, and the types of plain JSON data.

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
        names, _, values = _fields(type(self))  # type: ignore[arg-type]
        return type(self)(**dict(zip(names, values(self), strict=True)) | changes)

    def to_plain(self) -> dict[str, Json]:
        """Return plain JSON data under the snake_case field names, without fields that are None or absent.

        User data (`Json` fields) stays unchanged.
        """
        plain: dict[str, Json] = {}
        names, absences, values = _fields(type(self))  # type: ignore[arg-type]
        for name, absent, value in zip(names, absences, values(self), strict=True):
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
def _fields(cls: Any) -> tuple[Sequence[str], Sequence[Absent | None], Callable[[Any], tuple[Any, ...]]]:
    """Return the names of the fields, what means "absent" in each, and a function that reads all of them at once."""
    fields = dataclasses.fields(cls)
    names, absences = [each.name for each in fields], [ABSENT if each.default is ABSENT else None for each in fields]
    if len(names) < 2:
        return names, absences, lambda record: tuple(getattr(record, name) for name in names)
    return names, absences, operator.attrgetter(*names)


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
    names, _, values = _fields(type(value))  # type: ignore[arg-type]
    held = zip(names, values(value), strict=True)
    return value.replace(**{name: own_copy(each) for name, each in held if type(each) not in _FROZEN})


# Formats values as AgentV (a JavaScript program) does, and counts as texts.

_WHITE_SPACE: Final = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""The characters that JavaScript trims."""

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_FOREIGN_NUMBERS: Final = (".0,", ".0]", ".0}", '.0":', "e+", "NaN", "Infinity")
"""Parts of numbers which JavaScript writes differently. They may also be in texts. A pattern would take longer."""

_MOST_DECIMALS: Final = 9
"""Numbers that differ less are taken for equal."""
_NEEDS_NO_DECIMALS: Final = 1e15


def compact_json(value: Json) -> str:
    """Return JSON on one line without spaces, as in results files. Raises `RecursionError` for what holds itself."""
    try:
        text = _COMPACT.encode([value])
        if not any(map(text.__contains__, _FOREIGN_NUMBERS)):
            return text[1:-1]  # the list puts a bracket after a bare number
    except (TypeError, ValueError):  # a mapping that is not a dict, or a value that contains itself
        pass
    return _COMPACT.encode(_javascript_numbers(value))


MOST_DIGITS: Final = 4300
"""Of whole numbers that Python converts: the time for that grows with their square."""
_MOST_BITS: Final = int(MOST_DIGITS * math.log2(10))
"""Of whole numbers that surely have no more than `MOST_DIGITS`."""


class TooDeepError(ValueError):
    """The values of a JSON text are nested too deeply to be read."""


class NoJsonConstantError(ValueError):
    """A text has a NaN or an Infinity, which some programs write into JSON."""


def strict_json(text: str, parse_int: Callable[[str], float] | None = None) -> Json:
    """Return the value of a JSON text, with whole numbers by `parse_int`.

    Raises `ValueError`, also for NaN, and `TooDeepError`.
    """
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_int=parse_int)
    except RecursionError:
        raise TooDeepError("it is nested too deeply") from None


def whole_number(digits: str) -> int | float:
    """Return a whole number of JSON; an infinite one if it has more than `MOST_DIGITS`, as Python reads 1e400."""
    return int(digits) if len(digits) <= MOST_DIGITS else math.copysign(math.inf, -1 if digits[0] == "-" else 1)


def refuse_constant(name: str) -> Json:
    """Raise `NoJsonConstantError`."""
    raise NoJsonConstantError(f"{name} is no JSON")


_FLAT: Final = ATOMS - {int}


def json_fault(value: object, deepest: int = 100, *, with_texts: bool = False) -> str | None:
    """Return why a value cannot be written: it holds itself or is nested too deeply, a number is too long, or no JSON.

    `with_texts`: objects of other classes, and keys, may be written as their texts.
    """
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if type(item) in _FLAT:
            continue
        if depth > deepest:
            return f"are nested more than {deepest} levels deep"
        if isinstance(item, int):
            if item.bit_length() > _MOST_BITS:
                return f"hold a whole number of more than {MOST_DIGITS} digits"
        elif isinstance(item, list | tuple):  # an abstract class, such as that of mappings, is slow to check
            waiting += [(inner, depth + 1) for inner in item]
        elif isinstance(item, Mapping):
            if not with_texts and not all(isinstance(key, str) for key in item):
                return "have a key that is no text"
            waiting += [(inner, depth + 1) for inner in (*item, *item.values()) if type(inner) not in _FLAT]
        elif not isinstance(item, str | float | PurePath | None):
            if not with_texts:
                return f"hold a value of type {type(item).__name__}, which is no JSON"
            try:
                str(item)
            except Exception:  # noqa: BLE001 - it is the user's code
                return f"hold a value of type {type(item).__name__}, which has no text"
    return None


def pretty_json(value: Json) -> str:
    """Return JSON indented by two spaces, as in prompts."""
    return json.dumps(_javascript_numbers(value), ensure_ascii=False, indent=2)


def _javascript_numbers(value: Json) -> Json:
    """Return data with numbers as JavaScript writes them: `2` for 2.0, null for NaN and infinities."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, dict):
        return {
            compact_json(key) if isinstance(key, float) else key: item
            if type(item) in ATOMS
            else _javascript_numbers(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in ATOMS else _javascript_numbers(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return _javascript_numbers(dict(value)) if isinstance(value, Mapping) else value


def format_number(value: float) -> str:
    """Return a number as JavaScript prints it: `1` for 1.0, `0.5` for 0.5, `1e-7` for 1e-07.

    A whole number keeps all its digits: as a float, an id of 19 digits would become another one.
    """
    if isinstance(value, int):
        return str(int(value))
    number = float(value)
    if math.isfinite(number) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return re.sub(r"e([+-])0*", r"e\1", repr(number))


def format_fixed(value: float, digits: int) -> str:
    """Return a number with fixed decimals, with ties rounded away from zero: 0.13 for 0.125."""
    if not abs(value) < 1e21:
        return format_number(value)
    step = Decimal(1).scaleb(-digits)
    return str(Decimal(value).quantize(step, rounding=ROUND_HALF_UP))


def digits_apart(left: float, right: float, fewest: int) -> int:
    """Return the decimals with which two numbers look different; `fewest` if only a rounding error is between them."""
    more = range(fewest, _MOST_DECIMALS + 1) if max(abs(left), abs(right)) < _NEEDS_NO_DECIMALS else ()
    return next((digits for digits in more if format_fixed(left, digits) != format_fixed(right, digits)), fewest)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 case`, `1,000 cases`. `many` is the plural, unless it is `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def trim(text: str) -> str:
    """Strip white space from both ends, including byte order marks, which `str.strip` keeps."""
    return text.strip(_WHITE_SPACE)
