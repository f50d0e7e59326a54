"""Gives each folder modules of its own, so that two folders may both have an `agent.py` or a `pricing.py`."""

import builtins
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_agentv.runtime.user_code import without_prefixes

_PREFIX: Final = re.compile(r"agentv_[0-9a-f]{12}_")

_NOT_IMPORTED: Final = re.compile(r"conftest|setup|test_.*|.*_test")
"""Files that no other file imports. So the same name in two folders is no conflict."""
_INSTALLED: Final = ("site-packages", "dist-packages")


class FolderModules:
    """The modules of one folder. Get it from `modules_of`.

    They are in `sys.modules` under names with a prefix. Their code has its own `__import__`, which searches the folder
    first. So imports at the top of a file and inside of a function find the same module, in any thread, and `sys.path`
    stays unchanged. If an ordinary import finds a module in the same file, that module is used: the user's tests import
    the same one.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._builtins = _Builtins({"__import__": self._import})
        self._importlib = _Importlib(self)
        self._files: dict[str, Path] = {}
        """Files that were requested by path, by the name of their module."""

    def load_file(self, path: Path) -> ModuleType:
        """Import a file of the folder. Other files of the folder import the same module by its name."""
        name = path.stem
        if name.isidentifier() and file_of(find_ordinary(name)) == str(path) and not self._is_contested():
            return importlib.import_module(name)
        name = name.replace(".", "_")
        self._files[name] = path
        _install_finder()
        with _plain_names():
            return importlib.import_module(self._prefix + name)

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Work like `importlib.import_module`, for code of the folder."""
        own = not name.startswith(".") and self._is_own(name)
        with _plain_names():
            return importlib.import_module(self._prefix + name if own else name, package)

    def ambiguity(self, module: ModuleType) -> str | None:
        """Return why an ordinary module may import another folder's modules; None: it does not.

        This happens when `sys.path` was changed after the import of the module.
        """
        if _PREFIX.match(module.__name__):
            return None
        foreign = (foreign_file(self._folder, name) for name in importable_names(self._folder) if name in sys.modules)
        found, own = next(filter(None, foreign), (None, None))
        return None if own is None else f"an import of {Path(own).stem!r} may mean {found} or {own}: rename one of them"

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
        """Import the module of an import statement in the folder's code."""
        own = level == 0 and self._is_own(name)
        with _plain_names():
            module = builtins.__import__(self._prefix + name if own else name, globals, locals, fromlist or (), level)
        return self._importlib if module is importlib else module

    def _is_own(self, name: str) -> bool:
        """Whether a name is a module of the folder that ordinary imports would not find.

        The standard library keeps its names: a file `types.py` must not break imports of Python's `types`.
        """
        _install_finder()
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or is_stand_in(top):
            return False
        if self._prefix + top in sys.modules:
            return True
        own = find_in(self._folder, top)
        if own is None:
            return False
        ordinary = find_ordinary(top)
        if ordinary is None:
            return True
        if own.origin is None:  # a folder without `__init__.py` counts only if there is no better package
            return ordinary.origin is None and not {*portions_of(own)} & {*portions_of(ordinary)}
        return file_of(ordinary) != file_of(own) or self._is_contested()

    def _is_contested(self) -> bool:
        """Whether ordinary imports find some of the folder's modules in another folder of the project.

        Then no module of the folder may be imported ordinarily, because its imports might find the wrong module.
        """
        return any(foreign_file(self._folder, name) for name in importable_names(self._folder))

    def _find_top(self, name: str, full_name: str) -> ModuleSpec | None:
        if name in self._files:
            return spec_from_file_location(full_name, self._files[name])
        spec = find_in(self._folder, name)
        if spec is None:
            return None
        if spec.origin is None:
            renamed = ModuleSpec(full_name, None, is_package=True)
            renamed.submodule_search_locations = [*portions_of(spec), *portions_of(find_ordinary(name))]
            return renamed
        return spec_from_file_location(
            full_name, spec.origin, submodule_search_locations=spec.submodule_search_locations
        )


_FOLDERS: Final[dict[str, FolderModules]] = {}


def modules_of(folder: Path) -> FolderModules:
    """Return the modules of a folder: the same object for every caller."""
    prefix = f"agentv_{hashlib.sha256(str(folder).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}_"
    return _FOLDERS.setdefault(prefix, FolderModules(folder, prefix))


class _Finder(MetaPathFinder):
    """Finds the modules of folders. Leaves all other names to ordinary finders."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        prefix = _PREFIX.match(fullname)
        return _FOLDERS[prefix[0]].find(fullname) if prefix and prefix[0] in _FOLDERS else None


_FINDER: Final = _Finder()


def _install_finder() -> None:
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Loader(SourceFileLoader):
    """Runs a module with the builtins of its folder, including its `__import__`."""

    def __init__(self, name: str, path: str, namespace: "_Builtins") -> None:
        super().__init__(name, path)
        self._namespace = namespace

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._namespace
        super().exec_module(module)


class _Builtins(dict[str, Any]):
    """The builtins of a folder's code.

    Other names are looked up in Python's builtins, so that patches of these have effect.
    """

    def __missing__(self, name: str) -> Any:
        return vars(builtins)[name]


class _Importlib(ModuleType):
    """The module `importlib` for the code of a folder."""

    def __init__(self, modules: FolderModules) -> None:
        super().__init__("importlib", importlib.__doc__)
        self.import_module = modules.import_module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


@contextmanager
def _plain_names() -> Iterator[None]:
    """Remove the prefix from the name of a missing module in an error, because code may check that name."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and _PREFIX.match(error.name):
            error.name, error.msg = without_prefixes(error.name), without_prefixes(error.msg)
            error.args = (error.msg,)
        raise


def find_in(folder: Path, name: str) -> ModuleSpec | None:
    """Find a module by its name in one folder."""
    return PathFinder.find_spec(name, [str(folder)])


def find_ordinary(name: str) -> ModuleSpec | None:
    """Find the module of an import outside of the folder, without importing it."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    try:
        return find_spec(name)
    except Exception:  # noqa: BLE001 - finders of others may raise anything; the import itself will report it
        return None


def is_stand_in(name: str) -> bool:
    """Whether a test has replaced a module by an object without a file."""
    module = sys.modules.get(name)
    return module is not None and getattr(module, "__file__", None) is None and not hasattr(module, "__path__")


def file_of(spec: ModuleSpec | None) -> str | None:
    """Return the file of a module; None if it has none."""
    return os.path.realpath(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def portions_of(spec: ModuleSpec | None) -> list[str]:
    """Return the folders of a package without `__init__.py`."""
    if spec is None or spec.origin is not None:
        return []
    return [os.path.realpath(place) for place in spec.submodule_search_locations or ()]


def foreign_file(folder: Path, name: str) -> tuple[str, str] | None:
    """Return a file of another project folder that an ordinary import finds, and the folder's own file.

    Installed packages do not count as other folders, because it is clear which of the two is meant.
    """
    found, own = file_of(find_ordinary(name)), file_of(find_in(folder, name))
    if found is None or own is None or found == own or any(part in found for part in _INSTALLED):
        return None
    return found, own


def importable_names(folder: Path) -> Iterator[str]:
    """Yield the names of modules and packages in a folder that other files may import."""
    for path in sorted(folder.iterdir()):
        name = path.stem if path.suffix == ".py" else path.name
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        is_meant = name not in sys.stdlib_module_names and not _NOT_IMPORTED.fullmatch(name)
        if is_module and is_meant and name.isidentifier():
            yield name
