"""Finds the files in which code of users is written. Only runs with such code import this."""

import functools
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final

_FOREIGN: Final = frozenset({"builtins", "abc", "typing", "pydantic", "pytest_agentv"})
"""Packages whose classes are bases of users' classes. They do not belong to a project."""
_NOT_OF_USERS: Final = ("<", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
"""How the names of files begin whose code users did not write."""
_NOT_BY_HAND: Final = frozenset({"_abc_impl", "_made_in"})
"""Members that classes get on their own."""


def source_files(value: object) -> tuple[Path, ...]:
    """Return the files that define a function, a class with its bases, or the class of an object.

    Several, where it is made of the code of several: a decorator and what it decorates, a function that makes a class
    and its caller. Where the file of a class cannot be known, those that may be it.
    """
    if isinstance(value, ModuleType):
        return _paths(iter([iter(filter(None, [getattr(value, "__file__", None)]))]))
    return _paths(_files(each) for each in _definitions(_core(value)))


def content_of(value: object) -> list[str]:
    """Return the hashes of the files of users that define code, wherever they lie."""
    return [found for path in source_files(value) if _is_of_users(str(path)) and (found := _content(path)) is not None]


def _content(path: Path) -> str | None:
    try:
        state = path.stat()
        return _hash_file(path, state.st_mtime_ns, state.st_size)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _hash_file(path: Path, _changed: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_written_by_hand(function: object) -> bool:
    """Whether a user wrote a function, rather than a package or a decorator of one."""
    return isinstance(function, FunctionType) and _is_of_users(function.__code__.co_filename)


def _is_of_users(file: str) -> bool:
    return not file.startswith(_NOT_OF_USERS)


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


def made_members(kind: type) -> dict[str, Any] | None:
    """Return the members of a class of users if its file does not say all: a function made it, or that is a guess."""
    module = sys.modules.get(kind.__module__)
    is_of_users = module is None or _is_of_users(getattr(module, "__file__", None) or "<")
    if not is_of_users or ("<locals>" not in kind.__qualname__ and _is_in_its_module(kind)):
        return None
    return {name: _bare(member) for name, member in vars(kind).items() if _is_own(name, member)}


def _is_own(name: str, member: object) -> bool:
    return isinstance(member, FunctionType) or not (name.startswith("__") or name in _NOT_BY_HAND)


def _bare(member: Any) -> Any:
    """Return the functions of a member that `pickle` does not take."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    if isinstance(member, property):
        return member.fget, member.fset, member.fdel
    if isinstance(member, functools.cached_property):
        return member.func
    return None if isinstance(member, MemberDescriptorType | GetSetDescriptorType) else member


def text_of_code(code: CodeType) -> str:
    """Return what code does, as text: functions of one file may have one name. Lines that move do not matter."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    constants = ", ".join(map(_text_of_constant, code.co_consts))
    return f"{code.co_name} {code.co_code.hex()} {names} {counts} [{constants}]"


def _text_of_constant(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text_of_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_text_of_constant, value)))}}}"
    return text_of_code(value) if isinstance(value, CodeType) else repr(value)
