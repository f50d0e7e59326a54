"""Imports functions of the project: those of targets and checks, and those that make the rows of tables."""

import builtins
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.runtime.user_code import FOLDER_PREFIX, user_traceback

# Gives each folder modules of its own, so that two folders may both have an `agent.py` or a `pricing.py`.

_NOT_IMPORTED: Final = re.compile(r"conftest|setup|test_.*|.*_test")
"""Files that no other file imports. So the same name in two folders is no conflict."""
_INSTALLED: Final = ("site-packages", "dist-packages")


class FolderModules:
    """The modules of one folder.

    They are in `sys.modules` under names with a prefix. Their code has its own `__import__`, which searches the folder
    first. So imports at the top of a file and inside of a function find the same module, in any thread, and `sys.path`
    stays unchanged. If an ordinary import finds a module in the same file, that module is used: the user's tests import
    the same one.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._importlib = ModuleType("importlib")
        self._files: dict[str, Path] = {}
        """Files that were requested by path, by the name of their module."""

    def load_file(self, path: Path) -> ModuleType:
        """Import a file of the folder. Other files of the folder import the same module by its name."""
        name = path.stem
        if name.isidentifier() and str(path) in _places(_find_ordinary(name)) and not self._is_contested():
            return importlib.import_module(name)
        name = name.replace(".", "_")
        self._files[name] = path
        return importlib.import_module(self._prefix + name)

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Work like `importlib.import_module`, for code of the folder."""
        own = not name.startswith(".") and self._is_own(name)
        return importlib.import_module(self._prefix + name if own else name, package)

    def find(self, name: str) -> ModuleSpec | None:
        """Find a module by a name with the folder's prefix."""
        parent = name.rpartition(".")[0]
        if parent:
            spec = PathFinder.find_spec(name, sys.modules[parent].__path__)
        else:
            spec = self._find_top(name.removeprefix(self._prefix), name)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path, self._builtins)
        return spec

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the parameters of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        own = level == 0 and self._is_own(name)
        module = builtins.__import__(self._prefix + name if own else name, globals, locals, fromlist or (), level)
        if module is not importlib:
            return module
        vars(self._importlib).update({**vars(importlib), "import_module": self.import_module})
        return self._importlib

    def _is_own(self, name: str) -> bool:
        """Whether a name is a module of the folder alone. Python's own modules keep their names."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return False
        if self._prefix + top in sys.modules:
            return True
        own = _find_in(self._folder, top)
        ordinary = None if own is None else _find_ordinary(top)
        if own is None or ordinary is None:
            return own is not None
        if own.origin is None and ordinary.origin is not None:
            return False  # a folder without `__init__.py` counts only if there is no better package
        return _places(own).isdisjoint(_places(ordinary)) or self._is_contested()

    def _is_contested(self) -> bool:
        """Whether ordinary imports find some of the folder's modules in another folder that is not installed.

        Then no module of the folder may be imported ordinarily, because its imports might find the wrong module.
        """
        for path in sorted(self._folder.iterdir()):
            name = path.stem if path.suffix == ".py" else path.name
            is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
            if not (is_module and name.isidentifier()) or _NOT_IMPORTED.fullmatch(name):
                continue
            found = set() if name in sys.stdlib_module_names else _places(_find_ordinary(name))
            is_installed = any(part in place for part in _INSTALLED for place in found)
            if found and not is_installed and found.isdisjoint(_places(_find_in(self._folder, name))):
                return True
        return False

    def _find_top(self, name: str, full_name: str) -> ModuleSpec | None:
        if name in self._files:
            return spec_from_file_location(full_name, self._files[name])
        spec = _find_in(self._folder, name)
        if spec is None:
            return None
        if spec.origin is None:
            renamed = ModuleSpec(full_name, None, is_package=True)
            renamed.submodule_search_locations = list(spec.submodule_search_locations or ())
            return renamed
        return spec_from_file_location(
            full_name, spec.origin, submodule_search_locations=spec.submodule_search_locations
        )


_FOLDERS: Final[dict[str, FolderModules]] = {}


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        prefix = FOLDER_PREFIX.match(fullname)
        return _FOLDERS[prefix[0]].find(fullname) if prefix and prefix[0] in _FOLDERS else None


_FINDER: Final = _Finder()


class _Loader(SourceFileLoader):
    """Runs a module with the builtins of its folder, including its `__import__`."""

    def __init__(self, name: str, path: str, namespace: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._namespace = namespace

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._namespace
        super().exec_module(module)


def _find_in(folder: Path, name: str) -> ModuleSpec | None:
    return PathFinder.find_spec(name, [str(folder)])


def _find_ordinary(name: str) -> ModuleSpec | None:
    """Find the module of an import outside of the folder, without importing it."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    try:
        return find_spec(name)
    except Exception:  # noqa: BLE001 - finders of others may raise anything; the import itself will report it
        return None


def _places(spec: ModuleSpec | None) -> set[str]:
    """Return the file of a module, or the folders of a package without `__init__.py`."""
    if spec is None:
        return set()
    places = [spec.origin] if spec.origin and spec.has_location else spec.submodule_search_locations or ()
    return set(map(os.path.realpath, places))


def import_callable(
    name: str, cwd: Path, label: str, expected: str, *, accepts: Callable[[Any], bool] = callable
) -> Any:
    """Import `package.module:function`, or `file.py:function` with a path relative to `cwd`. Raises `ProviderError`.

    `label` begins messages, and `expected` says in them what is needed: "a function that …".
    """
    source, _, attribute = name.rpartition(":")
    if not (source and attribute):
        raise _config_error(label, "expected 'package.module:function' or 'path/to/file.py:function'")
    path = (cwd / source).resolve() if source.endswith(".py") else None
    if path and not path.is_file():
        hint = did_you_mean(path.name, [sibling.name for sibling in path.parent.glob("*.py")])
        if (cwd.parent / source).is_file():  # the file stands beside the folder of the evals, as in most projects
            hint = f"did you mean '../{name}'?"
        raise _config_error(label, f"there is no file {path}", hint)
    folder = path.parent if path else cwd.resolve()
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    prefix = f"agentv_{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}_"
    modules = _FOLDERS.setdefault(prefix, FolderModules(folder, prefix))
    try:
        module = modules.load_file(path) if path else modules.import_module(source)
    except BaseException as error:  # a module may raise anything, including `SystemExit` and `KeyboardInterrupt`
        shown = path.name if path else source
        raise _config_error(label, f"cannot import {shown}: {user_traceback(error)}") from error
    found: object = getattr(module, attribute, None)
    if found is None:
        names = [name for name, value in vars(module).items() if not name.startswith("_") and accepts(value)]
        raise _config_error(label, f"{source} has no function {attribute!r}", did_you_mean(attribute, names))
    if not accepts(found):
        what = f"{attribute!r} of {source} is a value of type {type(found).__name__}"
        raise _config_error(label, f"{what}, expected {expected}")
    return found


def _config_error(label: str, reason: str, hint: str | None = None) -> ProviderError:
    return ProviderError(f"{label}: {reason}" + (f" ({hint})" if hint else ""), "config")


# Functions that make the rows of tables.

_ROWS: Final = "a list of mappings, or a generator of them"


def call_row_maker(name: str, folder: Path) -> Iterable[object]:
    """Call a function that makes the rows of a table, and return all of them. Raises `ProviderError`."""
    function = import_callable(name, folder, name, f"a function that returns {_ROWS}")
    try:
        given = function()
        if isinstance(given, Iterable) and not isinstance(given, str | dict):
            # a generator may change and yield one mapping again and again
            return [dict(row) if isinstance(row, dict) else row for row in given]
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ProviderError(f"{name} raised {user_traceback(error)}", "config") from error
    if inspect.iscoroutine(given):
        given.close()  # Python warns of a coroutine that is dropped
    if inspect.isawaitable(given) or inspect.isasyncgen(given):
        raise ProviderError(f"{name} is async: expected a function without `async` that returns {_ROWS}", "config")
    raise ProviderError(f"{name} returned a value of type {type(given).__name__}: expected {_ROWS}", "config")
