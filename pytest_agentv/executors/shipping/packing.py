"""Packs objects with paths relative to roots. Unpacked elsewhere, they have the paths of that machine."""

import io
import pickle
import sys
from pathlib import Path, PosixPath
from typing import Any, Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.roots import Roots, Spot

_PROTOCOL: Final = 5
_PYTHON: Final = "python"
"""Replaces the interpreter, whose path differs by machine."""
NO_ROOTS: Final = Roots()


class JobRefused(AgentvError):
    """A job did not start in the worker, so nothing was paid for."""


def pack(value: object, roots: Roots = NO_ROOTS) -> bytes:
    """Return an object as bytes. Texts and `Path`s below a root are packed without absolute paths.

    Raises `JobRefused` for objects that exist only in this process.
    """
    file = io.BytesIO()
    try:
        _Packer(file, roots).dump(value)
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error
    return file.getvalue()


def unpack(data: bytes, roots: Roots = NO_ROOTS) -> Any:
    """Return a packed object, with the paths of this machine.

    Raises `JobRefused` if one of its classes cannot be imported here.
    """
    try:
        return _Unpacker(io.BytesIO(data), roots).load()
    except Exception as error:
        raise JobRefused(f"{type(error).__name__}: {error}") from error


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, roots: Roots) -> None:
        super().__init__(file, _PROTOCOL)
        self._roots = roots

    def persistent_id(self, value: Any) -> tuple[str, str, bool] | None:
        """Return the replacement of a path; None: pack the value unchanged. Called for every object."""
        kind = type(value)
        if kind is str:
            if value[:1] != "/":
                return None
        elif kind is not PosixPath:
            return None
        text = str(value)
        if self._roots.folders and text == sys.executable:
            return _PYTHON, "", kind is PosixPath
        spot = self._roots.spot(text)
        return None if spot is None else (spot.root, spot.rest, kind is PosixPath)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, roots: Roots) -> None:
        super().__init__(file)
        self._roots = roots

    def persistent_load(self, pid: tuple[str, str, bool]) -> str | Path:
        root, rest, is_path = pid
        text = sys.executable if root == _PYTHON else self._roots.path(Spot(root, rest))
        return Path(text) if is_path else text
