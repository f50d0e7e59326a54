"""The base class of all records, and the types of plain JSON data."""

import copy
import dataclasses
import enum
import functools
import inspect
import marshal
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias, TypeGuard, TypeVar, dataclass_transform, runtime_checkable

# `record` makes frozen dataclasses with slots, like `dataclass(frozen=True, slots=True)`, in a tenth of the time.
#
# `dataclass` generates and compiles the methods of each class. That takes a millisecond per class, and there are a
# hundred. The methods here are the same for all classes, and look at the fields when they are called.
#
# A case makes fifty records. So a class with many records gets a compiled `__init__`, and a class with many copies gets
# a compiled copy, which take a seventh of the time. They fill an object of an open class, which has the same slots and
# lets them be set. Then they give it the frozen class.

C = TypeVar("C", bound=type)
R = TypeVar("R")

_MISSING: Final = dataclasses.MISSING
_CLASS: Final[Any] = vars(object)["__class__"]
_OFTEN: Final = 100
"""The number of records, or of copies, after which a class gets a compiled function for them."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: C) -> C:
    """Make a class a frozen dataclass with slots. Its own methods are kept."""
    inherits = any(map(dataclasses.is_dataclass, cls.__bases__))
    for name, method in _METHODS.items():
        if name not in vars(cls) and not (inherits and name in _OF_FROZEN):
            setattr(cls, name, method)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # `dataclass` would generate the signature, which is slow as well
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, frozen=inherits)(cls)
    made.__dataclass_params__.frozen = True  # so that a frozen dataclass may inherit from it
    return made  # type: ignore[no-any-return]


class _Shape:
    """The facts about a class that the methods need."""

    def __init__(self, cls: Any) -> None:
        written = [field.name for field in dataclasses.fields(cls)]
        fields = sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only))
        setters = [getattr(cls, field.name).__set__ for field in fields]
        self.cls = cls
        self.fields = fields
        self.names = [field.name for field in fields]
        self.positional = sum(not field.kw_only for field in fields)
        self.written = written
        """The names of the fields, in the order of the class. Keyword-only fields have no position."""
        self.values_of = _values_of(written)
        self.setters: list[Callable[[object, object], None]] = setters
        self.settings = [(field.name, setter, field.default) for field, setter in zip(fields, setters, strict=True)]
        self.factories: dict[str, Any] = {field.name: field.default_factory for field in fields}
        self.shown = [field.name for field in fields if field.repr]
        self.compared = _values_of([field.name for field in fields if field.compare])
        self.post_init: Callable[[object], None] | None = getattr(cls, "__post_init__", None)
        self.made = 0
        """The number of records made by the shared `__init__`."""
        self.copied: Counter[tuple[str, ...]] = Counter()
        """The number of copies made by the shared `__init__`, by the names of the fields that were changed."""
        self.copies: dict[tuple[str, ...], Callable[..., Any]] = {}
        """Makes copies of records in which certain fields are changed."""

    @cached_property
    def open(self) -> Any:
        """A class with the same slots, whose objects can be changed and can become records."""
        methods = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
        return type(self.cls.__name__, (self.cls,), methods)


_shape_of: Final[Callable[[Any], _Shape]] = cache(_Shape)
"""The shape of a class, cached when its first record is made."""


def replaced(record: R, changes: dict[str, object]) -> R:
    """Return a copy of a record with some fields changed, as `dataclasses.replace` does."""
    shape, changed = _shape_of(type(record)), tuple(changes)
    copy = shape.copies.get(changed)
    if copy is None:
        if shape.post_init is not None or shape.copied[changed] < _OFTEN:
            values = zip(shape.written, shape.values_of(record), strict=True)
            made = type(record)(**{**dict(values), **changes})  # raises for an unknown field
            shape.copied[changed] += 1
            return made
        copy = shape.copies[changed] = _compiled_copy(shape, changed)
    new: R = copy(record, **changes)
    return new


def values_of(record: object) -> tuple[object, ...]:
    """Return the values of all fields, in the order of the class."""
    return _shape_of(type(record)).values_of(record)


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _init(self: Any, /, *args: object, **named: object) -> None:
    shape = _shape_of(type(self))
    if len(args) > shape.positional:
        raise TypeError(f"{_name(self)}() takes {shape.positional} positional arguments but {len(args)} were given")
    for set_value, value in zip(shape.setters, args, strict=False):
        set_value(self, value)
    for name, set_value, default in shape.settings[len(args) :]:
        if name in named:
            set_value(self, named.pop(name))
        elif default is not _MISSING:
            set_value(self, default)
        elif (make := shape.factories[name]) is not _MISSING:
            set_value(self, make())
        else:
            raise TypeError(f"{_name(self)}() missing a required argument: {name!r}")
    for name in named:
        what = "multiple values for argument" if name in shape.names else "an unexpected keyword argument"
        raise TypeError(f"{_name(self)}() got {what} {name!r}")
    if shape.post_init is not None:
        shape.post_init(self)
    shape.made += 1
    if shape.made == _OFTEN and vars(type(self)).get("__init__") is _init:
        type(self).__init__ = _compiled_init(type(self), shape)


def _compiled_init(cls: type, shape: _Shape) -> Any:
    """Return a version of `_init` for one class, with each field written out."""
    parameters, values, settings = ["self", "/"], [], []
    names: dict[str, object] = {"_missing": _MISSING, "_init": _init, "_class": cls, "_open": shape.open}
    names |= {"_type": type, "_set_class": _CLASS.__set__, "_post_init": shape.post_init}
    for number, (name, _, default) in enumerate(shape.settings):
        names |= {f"_default_{name}": default, f"_make_{name}": shape.factories[name]}
        is_made = shape.factories[name] is not _MISSING
        values += [f"if {name} is _missing: {name} = _make_{name}()"] if is_made else []
        settings.append(f"self.{name} = {name}")
        parameters += ["*"] if number == shape.positional else []
        parameters.append(name if default is _MISSING and not is_made else f"{name}=_default_{name}")
    given = ", ".join(f"{name}={name}" for name in shape.names)
    is_inherited = f"if _type(self) is not _class: return _init(self, {given})"  # the slots are not all that it has
    after = [] if shape.post_init is None else ["_post_init(self)"]
    lines = [*values, is_inherited, "_set_class(self, _open)", *settings, "self.__class__ = _class", *after]
    return _compiled("__init__", cls, f"def __init__({', '.join(parameters)}):", lines, names)


def _compiled_copy(shape: _Shape, changed: Sequence[str]) -> Any:
    """Return a function that copies records of one class and changes some fields, with each field written out."""
    names = {"_new": object.__new__, "_open": shape.open, "_class": shape.cls}
    values = [(name, name if name in changed else f"_record.{name}") for name in shape.names]
    settings = [f"_made.{name} = {value}" for name, value in values]
    lines = ["_made = _new(_open)", *settings, "_made.__class__ = _class", "return _made"]
    return _compiled("copy", shape.cls, f"def copy({', '.join(['_record', '/', *changed])}):", lines, names)


def _compiled(name: str, cls: type, head: str, lines: Sequence[str], names: dict[str, Any]) -> Any:
    body = "\n    ".join(lines)
    exec(f"{head}\n    {body}", names)  # noqa: S102 - as `dataclasses` does
    made = names[name]
    made.__qualname__ = f"{cls.__qualname__}.{name}"
    return made


def _name(record: object) -> str:
    return type(record).__qualname__


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _shape_of(type(self)).shown)
    return f"{_name(self)}({fields})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values_of = _shape_of(type(self)).compared
    return values_of(self) == values_of(other)


def _hash(self: Any) -> int:
    return hash(_shape_of(type(self)).compared(self))


def _refuse(self: Any, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r} of a {_name(self)}: records are frozen")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, name) for name in _shape_of(type(self)).names]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for set_value, value in zip(_shape_of(type(self)).setters, state, strict=True):
        set_value(self, value)


class _Signature:
    """The signature of the class, for editors and consoles."""

    def __get__(self, _: object, cls: type[Any]) -> inspect.Signature:
        return inspect.Signature([_parameter(field) for field in _shape_of(cls).fields])


def _parameter(field: "dataclasses.Field[Any]") -> inspect.Parameter:
    default = field.default if field.default_factory is _MISSING else field.default_factory
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if default is _MISSING else default,
        annotation=field.type,
    )


_METHODS: Final[dict[str, object]] = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
    "__signature__": _Signature(),
}

_OF_FROZEN: Final = ("__setattr__", "__delattr__")
"""Methods that `dataclass` insists on generating: a frozen dataclass may inherit only from a frozen one."""


Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, a list of them or a mapping from str to them."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A mapping from str to plain JSON values."""


class Data(dict[str, Json]):
    """A mapping that a variable holds. It is the value of a check: none of its keys is one of the check."""


class Escaped(str):
    r"""A text that shows bytes which are no text: `\xff`. Templates refuse it."""

    __slots__ = ()


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

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed."""
        return replaced(self, changes)

    def to_plain(self) -> dict[str, Json]:
        """Return plain JSON data under the snake_case field names, without fields that are None or absent.

        User data (`Json` fields) stays unchanged.
        """
        plain: dict[str, Json] = {}
        for (name, absent), value in zip(_fields(type(self)), values_of(self), strict=True):  # type: ignore[arg-type]
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
    return value.to_plain() if isinstance(value, Record) else _rare_plain(value)


def _rare_plain(value: object) -> Json:
    """Return plain data for rare types. Checking for an abstract class is slow."""
    if isinstance(value, tuple):
        return _plain(tuple(value))
    if isinstance(value, Mapping):
        return _plain(dict(value))
    if isinstance(value, Path):
        return str(value)
    return _plain(value.to_plain()) if isinstance(value, Plain) else value


def own_copy(value: Any) -> Any:
    """Return a record, a kind or a tuple with copies of its data, for code of users. Frozen parts stay the same."""
    kind = type(value)
    if kind in _FROZEN:
        return value
    if kind is dict or kind is list:
        return unshared(value)
    if kind is tuple:
        return _copied_items(value, own_copy)
    if isinstance(value, Record):
        changes = {
            name: copied
            for (name, _), held in zip(_fields(type(value)), values_of(value), strict=True)  # type: ignore[arg-type]
            if type(held) not in _FROZEN and (copied := own_copy(held)) is not held
        }
        return value.replace(**changes) if changes else value
    if hasattr(kind, "model_copy"):
        return _copied_kind(value)
    return unshared(dict(value)) if isinstance(value, Mapping) else unshared(value)


def _copied_items(items: tuple[Any, ...], copied: Callable[[Any], Any]) -> tuple[Any, ...]:
    made = [item if type(item) in _FROZEN else copied(item) for item in items]
    return tuple(made) if any(map(operator.is_not, made, items)) else items


def _copied_kind(value: Any) -> Any:
    """Return a kind with copies of its lists, mappings and sets, which all cases of a file share."""
    keys, extra = _copied_values(vars(value)), _copied_values(value.model_extra or {})
    if not keys and not extra:
        return value
    made = value.model_copy()  # its `update` would note defaults as given, and the case would have another hash
    vars(made).update(keys)
    (made.model_extra or {}).update(extra)
    return made


def _copied_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of those values that can be changed."""
    return {
        name: copied
        for name, held in values.items()
        if type(held) not in _FROZEN and (copied := _copied_value(held)) is not held
    }


def _copied_value(value: Any) -> Any:
    """Return a copy of a value of a kind. Objects of users, such as clients, stay the same, in lists as well."""
    kind = type(value)
    if kind in _FROZEN:
        return value
    if kind is list:
        return [_copied_value(item) for item in value]
    if kind is dict:
        return {key: _copied_value(item) for key, item in value.items()}
    if kind is tuple:
        return _copied_items(value, _copied_value)
    if isinstance(value, Record) or hasattr(kind, "model_copy"):
        return own_copy(value)
    return copy.copy(value) if isinstance(value, list | dict | set) else value
