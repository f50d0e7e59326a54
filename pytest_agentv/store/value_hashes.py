"""Hashes values of users that JSON cannot hold, and finds the files in which their code is written."""

import copyreg
import functools
import hashlib
import inspect
import io
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

from pytest_agentv.model.base import ATOMS, Json, Record
from pytest_agentv.model.secrets import Secret

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
    return {
        name: _bare(member)
        for name, member in vars(kind).items()
        if isinstance(member, FunctionType) or not (name.startswith("__") or name in _NOT_BY_HAND)
    }


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


_LARGEST: Final = 50_000_000
"""Most bytes that are hashed of one value, because that happens for each case."""
_MOST_PARTS: Final = 1_000_000
"""Most parts of one value, for the same reason."""
_TEXTS: Final = frozenset({"datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid"})
"""The modules of types whose text says all about a value."""
_BUILT_IN_TEXTS: Final = frozenset((float, bytes, bytearray, complex, range))
"""Built-in types of that sort."""
_UNLIKE_OTHERS: Final = os.urandom(8).hex()
"""Stands for values of which nothing is known that another run could compare."""
_PROTOCOL: Final = 4


@dataclass(frozen=True, slots=True)
class ValueHash(Record):
    """The hash of a value."""

    digest: str
    """The same for equal values, in each process."""
    unknown: type | None = None
    """A type within the value whose state cannot be read, as that of a lock or a connection; None: none."""


class _NotHashed(Exception):
    """A value is too large, or a set is a part of itself. No text stands for that."""


def is_a_text(value: object) -> bool:
    """Whether the text of a value says all about it, and is the same in each process."""
    return type(value) in _BUILT_IN_TEXTS or type(value).__module__ in _TEXTS


def text_of_value(value: object) -> str | None:
    """Return a text that is the same for equal values, in each process; None: the state of a part is not known."""
    if is_a_text(value):
        return str(value)
    found = hash_value(value)
    return found.digest if found.unknown is None else None


def _named(code: Any) -> Json:
    name = getattr(code, "__qualname__", type(code).__qualname__)
    return getattr(code, "__module__", None), name, content_of(code)


def hash_value(value: object, code: Callable[[Any], Json] = _named) -> ValueHash:
    """Hash a value by what `pickle` keeps of it. `code` returns what stands for a function, a class or a module."""
    try:
        return _hash(value, _Work(code))
    except _NotHashed as error:
        return ValueHash(_UNLIKE_OTHERS, error.args[0] if error.args else type(value))
    except RecursionError:
        return ValueHash(_UNLIKE_OTHERS, type(value))


class _Work:
    """What the parts of one value share: the limits, and the hashes of those parts that are hashed apart, once each."""

    def __init__(self, code: Callable[[Any], Json]) -> None:
        self.code = code
        self._bytes = 0
        self._parts = 0
        self._known: dict[int, tuple[object, ValueHash | None]] = {}

    def count(self, *, size: int = 0, parts: int = 0) -> None:
        self._bytes += size
        self._parts += parts
        if self._bytes > _LARGEST or self._parts > _MOST_PARTS:
            raise _NotHashed

    def hash_part(self, value: Any) -> ValueHash:
        """Hash a set, or an object with a text of its own."""
        if id(value) not in self._known:
            self._known[id(value)] = (value, None)
            is_set = isinstance(value, set | frozenset)
            self._known[id(value)] = (value, self._hash_items(value) if is_set else _hash(value, self))
        _, found = self._known[id(value)]
        if found is None:
            raise _NotHashed(type(value))
        return found

    def _hash_items(self, items: Iterable[object]) -> ValueHash:
        """Hash the items of a set without their order."""
        hashes: list[ValueHash] = []
        for item in items:
            if type(item) in ATOMS:
                text = repr(item)
                self.count(size=len(text), parts=1)
                hashes.append(ValueHash(text))
            else:
                hashes.append(_hash(item, self))
        written = "\n".join(sorted(each.digest for each in hashes))
        unknown = next((each.unknown for each in hashes if each.unknown is not None), None)
        return ValueHash(hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest(), unknown)


def _hash(value: object, work: _Work) -> ValueHash:
    found = _hash_pickled(value, work, uses_texts=False)
    if found.unknown is None:
        return found
    text = _own_text(value)
    if text is None:
        return _hash_pickled(value, work, uses_texts=True)
    return ValueHash(hashlib.sha256(f"{work.code(type(value))} {text}".encode("utf-8", "replace")).hexdigest())


def _hash_pickled(value: object, work: _Work, *, uses_texts: bool) -> ValueHash:
    """Hash a value, with the texts of those of its parts whose state is not known, if they have one of their own."""
    written = _Hashed(work)
    pickler = _Pickler(written, work, above=value if uses_texts else None)
    try:
        pickler.dump(value)
    except (_NotHashed, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - methods of users run
        pickler.unknown.append(type(value))
    return ValueHash(written.sum.hexdigest(), next(iter(pickler.unknown), None))


def _own_text(value: object) -> str | None:
    """Return the text of an object if a user wrote what that says. Other texts leave parts out, or have addresses."""
    try:
        text = repr(value) if is_written_by_hand(type(value).__repr__) else None
    except Exception:  # noqa: BLE001 - as above
        return None
    return None if text is None or " at 0x" in text else text


class _Hashed(io.RawIOBase):
    """A file that keeps only the hash of what is written."""

    def __init__(self, work: _Work) -> None:
        super().__init__()
        self.sum = hashlib.sha256()
        self._work = work

    def write(self, data: Any) -> int:
        self._work.count(size=len(data))
        self.sum.update(data)
        return len(data)


class _Pickler(pickle.Pickler):
    """Writes sets without order, code by its hash, equal texts alike, and only the type of what cannot be pickled."""

    def __init__(self, file: _Hashed, work: _Work, above: object) -> None:
        """Take the object whose parts stand for themselves by their own texts if they must; None: no part does."""
        super().__init__(file, _PROTOCOL)
        self.unknown: list[type] = []
        self._work = work
        self._above = above
        self._seen: dict[int, tuple[int, object]] = {}
        """The number of each function, class and module, which a value may refer to often, also in a circle."""
        self._texts: dict[tuple[type, object], object] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None: it is pickled as usual."""
        self._work.count(parts=1)
        kind = type(value)
        if kind is str or kind is bytes:  # else a text is written otherwise if it is the same object as an equal one
            return self._texts.setdefault((kind, value), value)
        if isinstance(value, set | frozenset):
            found = self._work.hash_part(value)
            self.unknown += [] if found.unknown is None else [found.unknown]
            return "set", found.digest
        if isinstance(value, FunctionType | type | ModuleType):
            return self._code(value)
        if isinstance(value, MappingProxyType):
            return "mapping", dict(value)
        return ("secret", value.reveal()) if isinstance(value, Secret) else None

    def _code(self, value: Any) -> Json:
        """Return the code of a function, a class or a module, with the values that the code which made it gave it."""
        number = len(self._seen)
        known, _ = self._seen.setdefault(id(value), (number, value))
        if known != number:  # it may call itself
            return "code", known
        if isinstance(value, ModuleType):
            return "module", value.__name__, self._work.code(value)
        if isinstance(value, type):
            return "class", self._work.code(value), made_members(value)
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        own = text_of_code(value.__code__)
        return "function", self._work.code(value), own, cells, value.__defaults__, value.__kwdefaults__

    def reducer_override(self, value: Any) -> Any:
        """Return the type of a value in place of its state if that cannot be read."""
        if self._above is not None and value is not self._above and is_written_by_hand(type(value).__repr__):
            part = self._work.hash_part(value)
            if part.unknown is None:
                return str, (part.digest,)
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            found = value.__reduce_ex__(_PROTOCOL) if reduce is None else reduce(value)
            return self._by_name(value, found) if isinstance(found, str) else found
        except Exception:  # noqa: BLE001 - methods of users run
            self.unknown.append(type(value))
            return str, (self._work.code(type(value)),)

    def _by_name(self, value: Any, name: str) -> Any:
        """Return what stands for an object that `pickle` would only name: the code that makes it, and what it wraps."""
        module = sys.modules.get(pickle.whichmodule(value, name))  # type: ignore[attr-defined]
        is_there = getattr(module, name.partition(".")[0], None) is not None
        made = (module if is_there else None, name, self._work.code(value), getattr(value, "__wrapped__", None))
        return tuple, (made,)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
