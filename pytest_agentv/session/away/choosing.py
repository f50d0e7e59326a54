"""Which executor a run has: that of `--agentv-executor`, else that of a hook."""

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest

from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.executors.base import CaseExecutor, Setup
from pytest_agentv.executors.leash import process_name
from pytest_agentv.executors.left_runs import missing_text
from pytest_agentv.executors.shipper import Shipper
from pytest_agentv.executors.shipping.ignoring import ShippingRules
from pytest_agentv.executors.shipping.roots import Roots, roots_of
from pytest_agentv.models.option_values import is_cluster
from pytest_agentv.models.options import RunOptions
from pytest_agentv.reporting.writers import kept_folder
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.workers.shares import shared_folder

_HOOK = "pytest_agentv_executor"


def executor_opener(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, places: Places, roots: Roots
) -> Callable[[], CaseExecutor | None]:
    """Return what opens the run's executor on first use.

    It returns None if the hooks name none, and raises `pytest.UsageError` if they name something else.
    """
    environment = dict(os.environ)  # as it is before a case of a folder shows its `.env` here

    def open_executor() -> CaseExecutor | None:
        setup = Setup(
            options,
            places.repo_root,
            places.cwd,
            shared_folder(identity.run_id),
            kept_folder(identity.results_path),
            tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
            {name: logging.getLogger(name).level for name in ("", "pytest_agentv")},
            roots,
            ships=ships(options),
            process=process_name(),
        )
        if setup.ships:
            setup.kept_folder.mkdir(parents=True, exist_ok=True)  # workers that see it use it
        if options.executor is not None and is_cluster(options.executor):
            return _open_cluster(options.executor, setup)
        if options.executor is not None:
            from pytest_agentv.executors.processes import Processes  # noqa: PLC0415 - for runs that ask for it

            return Processes(int(options.executor.partition(":")[2]), setup, environment)
        executor = _ask_hook(config)
        if executor is None:
            return None
        from pytest_agentv.executors.futures import Futures  # noqa: PLC0415 - as above

        try:
            return Futures(executor, setup, lambda: _ask_hook(config))
        except OSError as error:
            text = f"{locate(setup.kept_folder, None)}: the workers of an executor cannot use this folder: {error}"
            raise pytest.UsageError(f"{text}; does another run write to the same results file?") from None

    return open_executor


def ships(options: RunOptions) -> bool:
    """Whether the files of the cases go to the workers."""
    return options.ship == "bundle" or (options.ship is None and is_cluster(options.executor))


def shipper_of(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, pool: TargetPool, places: Places
) -> Shipper:
    """Return what makes parcels of the jobs of a run."""
    roots = roots_of((places.repo_root, places.cwd, config.rootpath))
    if not ships(options):
        return Shipper(roots, pool, None)
    written = (identity.results_path, kept_folder(identity.results_path), options.html)
    folders = (options.dump_prompts, options.dump_traces)
    paths = tuple(str(path) for path in (*written, *folders) if path is not None)
    rules = ShippingRules(roots.folders[0][1], options.ship_ignore, paths, options.ship_limit)
    return Shipper(roots, pool, rules)


def _open_cluster(address: str, setup: Setup) -> CaseExecutor:
    try:
        from pytest_agentv.executors.dask.cluster import DaskWorkers  # noqa: PLC0415 - for runs that ask for it

        return DaskWorkers(address, setup)
    except AgentvError as error:
        raise pytest.UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        raise pytest.UsageError(missing_text(address, error)) from None


def _ask_hook(config: pytest.Config) -> Executor | None:
    hook: Any = config.hook
    found = hook.pytest_agentv_executor(config=config)
    if found is None or isinstance(found, Executor):
        return found
    text = f"{_HOOK} returned a value of type {type(found).__name__}: expected a concurrent.futures.Executor or None"
    raise pytest.UsageError(text)
