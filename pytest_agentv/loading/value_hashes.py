"""Hashes values of users that JSON cannot hold, alike in each process. Only runs with such values import this."""

import copyreg
import hashlib
import io
import pickle
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Final

from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.masking.secrets import Secret
from pytest_agentv.models.records import record

_LARGEST: Final = 50_000_000
"""Most bytes that are hashed of one value, because that happens for each case."""
_TEXTS: Final = frozenset({"datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid"})
"""The modules of types whose text says all about a value."""
_BUILT_IN_TEXTS: Final = frozenset((float, bytes, bytearray, complex, range))
"""Built-in types of that sort."""
_ADDRESS: Final = " at 0x"
_PROTOCOL: Final = 4


@record
class ValueHash(Record):
    """The hash of a value."""

    digest: str
    """The same for equal values, in each process."""
    unknown: type | None = None
    """A type within the value whose state cannot be read, as that of a lock or a connection; None: none."""


def is_a_text(value: object) -> bool:
    """Whether the text of a value says all about it, and is the same in each process."""
    return type(value) in _BUILT_IN_TEXTS or type(value).__module__ in _TEXTS


def text_of_value(value: object) -> str | None:
    """Return a text that is the same for equal values, in each process; None: the state of a part is not known."""
    if is_a_text(value):
        return str(value)
    found = hash_value(value)
    return found.digest if found.unknown is None else None


def _name_of(code: Any) -> Json:
    return code.__module__, code.__qualname__


def hash_value(value: object, code: Callable[[Any], Json] = _name_of) -> ValueHash:
    """Hash a value by what `pickle` keeps of it. `code` returns what stands for a function or a class."""
    written = _Hashed()
    pickler = _Pickler(written, code)
    try:
        pickler.dump(value)
    except Exception:  # noqa: BLE001 - methods of users run
        pickler.unknown.append(type(value))
    if pickler.unknown and _has_own_text(value):
        return ValueHash(hashlib.sha256(f"{code(type(value))} {value!r}".encode()).hexdigest())
    return ValueHash(written.sum.hexdigest(), next(iter(pickler.unknown), None))


def _has_own_text(value: object) -> bool:
    """Whether a user wrote what the text of an object is, without its address."""
    try:
        return type(value).__repr__ is not object.__repr__ and _ADDRESS not in repr(value)
    except Exception:  # noqa: BLE001 - as above
        return False


class _Hashed(io.RawIOBase):
    """A file that keeps only the hash of what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = hashlib.sha256()
        self._size = 0

    def write(self, data: Any) -> int:
        self._size += len(data)
        if self._size > _LARGEST:
            raise ValueError("too large")
        self.sum.update(data)
        return len(data)


class _Pickler(pickle.Pickler):
    """Writes sets in order, code by its hash, and only the type of what cannot be pickled."""

    def __init__(self, file: _Hashed, code: Callable[[Any], Json]) -> None:
        super().__init__(file, _PROTOCOL)
        self.fast = True  # else equal texts are written otherwise if they are the same object
        self.unknown: list[type] = []
        self._code = code
        self._functions: dict[int, tuple[int, FunctionType]] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None: it is pickled as usual."""
        if isinstance(value, set | frozenset):
            hashes = [hash_value(item, self._code) for item in value]
            self.unknown += [each.unknown for each in hashes if each.unknown is not None]
            return "set", sorted(each.digest for each in hashes)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return "class", self._code(value)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        return ("secret", value.reveal()) if isinstance(value, Secret) else None

    def _function(self, function: FunctionType) -> Json:
        """Return the code of a function and the values that the code which made it gave it."""
        number = len(self._functions)
        known, _ = self._functions.setdefault(id(function), (number, function))
        if known != number:  # it may call itself
            return "function", known
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        return "function", self._code(function), cells, function.__defaults__, function.__kwdefaults__

    def reducer_override(self, value: Any) -> Any:
        """Return the type of a value in place of its state if that cannot be read."""
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            return value.__reduce_ex__(_PROTOCOL) if reduce is None else reduce(value)
        except Exception:  # noqa: BLE001 - methods of users run
            self.unknown.append(type(value))
            return str, (self._code(type(value)),)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
