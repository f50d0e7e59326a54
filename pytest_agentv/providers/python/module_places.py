"""Finds the files of modules, for ordinary imports and for imports from one folder."""

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NOT_IMPORTED: Final = re.compile(r"conftest|setup|test_.*|.*_test")
"""Files that no other file imports. So the same name in two folders is no conflict."""
_INSTALLED: Final = ("site-packages", "dist-packages")


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
