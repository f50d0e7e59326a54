"""Imports our own modules without pytest's assertion rewriting.

pytest rewrites the asserts of all modules of a plugin. Our modules need no readable asserts, and rewriting is slow:
pytest caches the rewritten modules in files that no installer writes. If no bytecode can be written (containers with
PYTHONDONTWRITEBYTECODE, read-only installations), pytest would parse each of our modules at every start.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

_OWN: Final = "pytest_agentv."


class OwnModules:
    """Finds our modules in the same way as Python without pytest."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(_OWN) else None


def import_unchanged() -> None:
    """Install `OwnModules` just before pytest's import hook. Other import hooks before that still come first."""
    if OwnModules in sys.meta_path:
        return
    places = (i for i, finder in enumerate(sys.meta_path) if type(finder).__module__ == "_pytest.assertion.rewrite")
    if (place := next(places, None)) is not None:
        sys.meta_path.insert(place, OwnModules)


def import_as_before() -> None:
    """Remove `OwnModules`. A run without evals gets the same import hooks as any other run."""
    if OwnModules in sys.meta_path:
        sys.meta_path.remove(OwnModules)


@contextmanager
def unchanged_imports() -> Iterator[None]:
    """Install `OwnModules` for this block, or leave it if it is installed already."""
    is_asked = OwnModules in sys.meta_path
    import_unchanged()
    try:
        yield
    finally:
        if not is_asked:
            import_as_before()
