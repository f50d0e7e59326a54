"""Finds the files in which code of users is written. Only runs with such code import this."""

import functools
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

_FOREIGN: Final = frozenset({"builtins", "abc", "typing", "pydantic", "pytest_agentv"})
"""Packages whose classes are bases of users' classes. They do not belong to a project."""


def source_files(value: object) -> tuple[Path, ...]:
    """Return the files that define a function, a class with its bases, or the class of an object.

    Several, where it is made of the code of several: a decorator and what it decorates, a function that makes a class
    and its caller. Where the file of a class cannot be known, those that may be it.
    """
    return _paths(_files(each) for each in _definitions(_core(value)))


def own_files(value: object) -> tuple[Path, ...]:
    """Return the files whose code makes a function or a class, without those of its bases and of what it uses."""
    core = _core(value)
    made_in: tuple[str, ...] = vars(core).get("_made_in", ()) if isinstance(core, type) else ()
    return tuple(map(Path, made_in)) or _paths(_files(each) for each in _definitions(core)[:1])


def _core(value: Any) -> Any:
    """Return what a `functools.partial` calls."""
    while isinstance(value, functools.partial):
        value = value.func
    return value


def _definitions(value: Any) -> list[Any]:
    """Return a function, or the classes that define a class or an object, the nearest first."""
    if inspect.isroutine(value):
        return [value]
    kind = value if isinstance(value, type) else type(value)
    return [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in _FOREIGN]


def _paths(found: Iterator[Iterator[str]]) -> tuple[Path, ...]:
    names = dict.fromkeys(name for names in found for name in names)
    return tuple(Path(name) for name in names if not name.startswith("<"))


def _files(value: Any) -> Iterator[str]:
    """Yield the files of a function or of a class, which may repeat."""
    if not isinstance(value, type):
        yield from _files_of_function(value)
        return
    made_in = vars(value).get("_made_in", ())
    yield from made_in
    members = [name for member in vars(value).values() for name in _files_of_function(member)]
    yield from members
    if not made_in and (_is_in_its_module(value) or not members):
        yield getattr(sys.modules.get(value.__module__), "__file__", None) or "<unknown>"


def _is_in_its_module(kind: type) -> bool:
    """Whether the module of a class has it. Several conftest files share the name of a module."""
    first, _, inner = kind.__qualname__.partition(".")
    found = getattr(sys.modules.get(kind.__module__), first, None)
    return found is kind or (bool(inner) and found is not None)


def _files_of_function(value: Any) -> Iterator[str]:
    """Yield the files of a function, a method or a property, and of what it wraps."""
    if isinstance(value, property):
        for each in (value.fget, value.fset):
            yield from _files_of_function(each)
        return
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, FunctionType):
            yield value.__code__.co_filename
        is_bound = isinstance(value, staticmethod | classmethod | MethodType)
        value = value.__func__ if is_bound else getattr(value, "__dict__", {}).get("__wrapped__")


def is_plain(code: object) -> bool:
    """Whether files say all about code: it is a class, or a function without values of the code that made it."""
    if isinstance(code, FunctionType):
        return not code.__closure__ and not code.__defaults__ and not code.__kwdefaults__
    return isinstance(code, type)
