"""Load what pytest runs load."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import io
import pkgutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import _prepareconfig  # noqa: TID251 - a configuration and no run

from warm.installed import CONSTANT

USUAL = ("xdist.dsession", "xdist.looponfail", "xdist.remote", "xdist.workermanage", "hypothesis")
"""Modules that pytest and its plugins import when a run needs them. hypothesis keeps its files where it is imported."""
CLUSTER = ("distributed", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker")
"""Modules of runs on a cluster, of its scheduler and of its workers, where the package is installed."""

TARGETS = "targets: [{name: default, provider: mock, response: hello}]\n"
COMMANDS = (["validate", "."], ["report", "out.jsonl", "-o", "out.html"])
EVALS = """
evalcases:
  - id: passes
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
  - id: fails
    expected_outcome: says goodbye
    input_messages: [{role: user, content: Say goodbye}]
    evaluators: [{name: words, type: heuristic, hits: [goodbye]}]
"""


def preload() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder:
        # With a configuration in place, asserts of plugins are rewritten as in any run.
        with contextlib.chdir(folder):
            config = _prepareconfig(["-s", "-p", "no:cacheprovider"])
        for name in USUAL:
            importlib.import_module(name)
        for name in CLUSTER if importlib.util.find_spec(CLUSTER[0]) else ():
            importlib.import_module(name)
        load_all("pytest_agentv")
        load_prices()
        config._ensure_unconfigure()
        with contextlib.chdir(folder):
            _rehearse(Path(folder))
        _prepare_workers()
    _read_constants()


def _prepare_workers() -> None:
    """Compile what xdist sends to each worker, and build what only workers validate with."""
    base: Any = importlib.import_module("execnet.gateway_base")
    base.compile = functools.cache(compile)
    remote = importlib.import_module("xdist.remote")
    base.compile(inspect.getsource(remote) + "\n", inspect.getsourcefile(remote), "exec")
    identity = importlib.import_module("pytest_agentv.session.identity")
    importlib.import_module("pytest_agentv.model.base")._adapter(identity.RunIdentity)


def _read_constants() -> None:
    """Read the numbers and texts of the package, which hypothesis tries: all workers of a run would do that."""
    with contextlib.suppress(ImportError):
        importlib.import_module("hypothesis.internal.conjecture.providers")._get_local_constants()


def _rehearse(folder: Path) -> None:
    """Run what most runs do, once: pydantic builds its validators at their first use, a fifth of a short run.

    How it ends is for the tests to say.
    """
    folder.joinpath("targets.yaml").write_text(TARGETS)
    folder.joinpath("rehearsal.eval.yaml").write_text(EVALS)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["-p", "no:cacheprovider", "--agentv-out=out.jsonl", "--junitxml=out.xml"])
        for words in COMMANDS:
            importlib.import_module("pytest_agentv.cli.main").main(words)


def load_all(package: str) -> None:
    """Import all modules of a package, but for those that need a package which few have."""
    path = importlib.import_module(package).__path__
    for found in pkgutil.walk_packages(path, f"{package}."):
        if not found.name.endswith("__main__") and ".executors.dask" not in found.name:
            importlib.import_module(found.name)


def load_prices() -> None:
    """Load the tables of prices, and aiohttp. A run within a test takes what it imports out of `sys.modules` again."""
    importlib.import_module("pytest_agentv.providers.api.model").load_tables()
    importlib.import_module("pytest_agentv.providers.api.client").import_aiohttp()


def forget_folder() -> None:
    """Drop what was cached of the place where the modules were loaded; freeing the rest would copy its memory."""
    for place in [place for place in sys.path_importer_cache if not place.startswith((*CONSTANT, sys.base_prefix))]:
        del sys.path_importer_cache[place]
    tempfile.tempdir = None
