"""Load what pytest runs load."""

import contextlib
import importlib
import pkgutil
import signal
import sys
import tempfile

from _pytest.config import _prepareconfig  # noqa: TID251 - a configuration and no run

USUAL = ("xdist.dsession", "xdist.looponfail", "xdist.remote", "xdist.workermanage", "hypothesis", "filelock")
"""Modules that pytest and its plugins import when a run needs them."""


def preload() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        # With a configuration in place, asserts of plugins are rewritten as in any run.
        config = _prepareconfig(["-s", "-p", "no:cacheprovider"])
        for name in (*USUAL, *_all_modules("pytest_agentv")):
            importlib.import_module(name)
        config._ensure_unconfigure()


def _all_modules(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    return [found.name for found in pkgutil.walk_packages(path, f"{package}.") if not found.name.endswith("__main__")]


def forget_folder() -> None:
    """Drop what was cached of the place where the modules were loaded."""
    importlib.invalidate_caches()
    tempfile.tempdir = None
    sys.path_importer_cache.clear()
