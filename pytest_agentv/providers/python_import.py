"""Find the function that `callable: package.module:function` or `path/to/file.py:function` names."""

import hashlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest_agentv
from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.loading.problems import did_you_mean

_IMPORTING: Final = threading.RLock()
"""Held while `sys.path` is changed, and so that two targets with the same file import it once."""

_SHOWN_FRAMES: Final = 5
_OWN_FOLDER: Final = str(Path(pytest_agentv.__file__).parent)


def import_callable(name: str, cwd: Path, label: str) -> Callable[..., Any]:
    """Import a function. Blocks.

    Args:
        name: `package.module:function`, or `file.py:function` with a path that is relative to `cwd`.
        cwd: Importable while the module is imported, as is the folder of a file.
        label: How messages begin: target and callable.

    Raises `ProviderError` of the kind `config`.
    """
    source, colon, attribute = name.rpartition(":")
    if not (source and colon and attribute):
        raise _config_error(label, "expected 'package.module:function' or 'path/to/file.py:function'")
    with _IMPORTING:
        module = _import_file(cwd / source, label) if source.endswith(".py") else _import_module(source, cwd, label)
    function: object = getattr(module, attribute, None)
    if function is None:
        raise _config_error(label, f"{source} has no function {attribute!r}", did_you_mean(attribute, _names(module)))
    if not callable(function):
        raise _config_error(label, f"{attribute!r} of {source} is a {type(function).__name__}, expected a function")
    return function


def user_traceback(error: BaseException, *foreign_folders: str) -> str:
    """Return the error's type and text and the last places of the user's code it came through, innermost last.

    What lies below `foreign_folders` is as little the user's as this package is.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_ours(frame.filename) and not frame.filename.startswith(foreign_folders)
    ]
    places = [f"  {locate(Path(frame.filename), frame.lineno)} in {frame.name}" for frame in frames[-_SHOWN_FRAMES:]]
    head = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "\n".join([head, *places])


def _import_module(name: str, cwd: Path, label: str) -> ModuleType:
    try:
        with _importable(cwd):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _config_error(label, f"cannot import {name}: {user_traceback(error)}") from error


def _import_file(path: Path, label: str) -> ModuleType:
    """Import a file under a name of its own: files of the same name in different folders are different modules."""
    path = path.resolve()
    name = (
        f"agentv_callable_{path.stem}_{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        siblings = [sibling.name for sibling in path.parent.glob("*.py")]
        raise _config_error(label, f"there is no file {path}", did_you_mean(path.name, siblings))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _config_error(label, f"cannot import {path.name}: {user_traceback(error)}") from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OWN_FOLDER, "<frozen importlib")) or filename == importlib.__file__


def _config_error(label: str, reason: str, hint: str | None = None) -> ProviderError:
    return ProviderError(f"{label}: {reason}" + (f" ({hint})" if hint else ""), "config")
