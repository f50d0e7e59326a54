"""Our own modules are imported past pytest's assertion rewriting.

pytest rewrites the asserts of every module that comes with a plugin. Nobody reads ours, and it is dear: pytest keeps
what it has rewritten in caches of its own, which no installer writes. Where bytecode cannot be written (containers with
PYTHONDONTWRITEBYTECODE, read-only installations) it parsed each module of ours at every start.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

_OWN: Final = "pytest_agentv."


class OwnModules:
    """Finds our modules as Python would without pytest."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(_OWN) else None


def import_unchanged() -> None:
    """Ask `OwnModules` just before pytest's hook. Import hooks that others have put before that still come first."""
    if OwnModules in sys.meta_path:
        return
    places = (i for i, finder in enumerate(sys.meta_path) if type(finder).__module__ == "_pytest.assertion.rewrite")
    if (place := next(places, None)) is not None:
        sys.meta_path.insert(place, OwnModules)


def import_as_before() -> None:
    """Take `OwnModules` away again. A run without evals finds the import hooks of any other run."""
    if OwnModules in sys.meta_path:
        sys.meta_path.remove(OwnModules)


@contextmanager
def unchanged_imports() -> Iterator[None]:
    """Ask `OwnModules` within the block, or for longer if it is asked already."""
    is_asked = OwnModules in sys.meta_path
    import_unchanged()
    try:
        yield
    finally:
        if not is_asked:
            import_as_before()
