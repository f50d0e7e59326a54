"""`record` makes frozen dataclasses with slots, like `dataclass(frozen=True, slots=True)`, in a tenth of the time.

`dataclass` generates and compiles the methods of each class. That takes a millisecond per class, and there are a
hundred. The methods here are the same for all classes, and look at the fields when they are called.

A case makes fifty records. So a class with many records gets a compiled `__init__`, and a class with many copies gets a
compiled copy, which take a seventh of the time. They fill an object of an open class, which has the same slots and lets
them be set. Then they give it the frozen class.
"""

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform

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
