"""Chooses the executor of a run: that of `--agentv-executor`, else that of a hook."""

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest

from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError, HookError, locate
from pytest_agentv.executors.base import CaseExecutor, Setup
from pytest_agentv.executors.leash import process_name
from pytest_agentv.executors.left_runs import missing_text
from pytest_agentv.executors.shipper import Shipper
from pytest_agentv.executors.shipping.ignoring import ShippingRules
from pytest_agentv.executors.shipping.roots import Roots, roots_of
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.defaults import CACHE_FOLDER
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.options.values import is_cluster, is_encrypted
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.writers import kept_folder
from pytest_agentv.runtime.processes.reaper import remove_at_end
from pytest_agentv.runtime.user_errors import user_traceback
from pytest_agentv.session.hooking.kinds import HookedKinds
from pytest_agentv.session.hooking.user_hooks import FOREIGN_FOLDERS, is_interrupt
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.workers.shares import shared_folder

_HOOK = "pytest_agentv_executor"


def executor_opener(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, places: Places, roots: Roots
) -> Callable[[], CaseExecutor | None]:
    """Return a function that opens the run's executor.

    It returns None if the hooks name none, and raises `pytest.UsageError` if they name something else.
    """
    environment = dict(os.environ)  # before any case shows the `.env` of its folder here
    passed = passed_variables(options, places)

    def open_executor() -> CaseExecutor | None:
        setup = _setup(options, identity, places, roots).replace(own_providers=_own_providers(config))
        if options.executor is not None and is_cluster(options.executor):
            if passed and not is_encrypted(options.executor):
                raise pytest.UsageError(_open_text(options.executor, "use dask+tls://"))
            return _open_cluster(options.executor, setup.replace(passed=passed))
        if options.executor is not None:
            from pytest_agentv.executors.processes import Processes  # noqa: PLC0415 - only for runs that ask for it

            setup = setup.replace(passed=passed)
            return Processes(int(options.executor.partition(":")[2]), setup, environment)
        executor = _ask_hook(config)
        if executor is None:
            return None
        from pytest_agentv.executors.futures import Futures, is_private  # noqa: PLC0415 - as above

        if passed and not is_private(executor):
            executor.shutdown(wait=False, cancel_futures=True)
            raise pytest.UsageError(
                _open_text(type(executor).__name__, "give it the attribute agentv_is_private = True")
            )
        try:
            return Futures(executor, setup.replace(passed=passed), lambda: _ask_hook(config))
        except OSError as error:
            text = f"{locate(setup.kept_folder, None)}: the workers of an executor cannot use this folder: {error}"
            raise pytest.UsageError(f"{text}; does another run write to the same results file?") from None

    return open_executor


def _setup(options: RunOptions, identity: RunIdentity, places: Places, roots: Roots) -> Setup:
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
        unjudged=places.unjudged,
        results=identity.results_path,
    )
    if setup.ships and not is_cluster(options.executor):  # workers use these folders if they see them
        setup.kept_folder.mkdir(parents=True, exist_ok=True)
        setup.shared_folder.mkdir(mode=0o700, exist_ok=True)
        remove_at_end(setup.shared_folder)
    return setup


def _own_providers(config: pytest.Config) -> tuple[str, ...]:
    try:
        return tuple(HookedKinds("pytest_agentv_providers", config.hook.pytest_agentv_providers))
    except HookError:  # each case reports the error
        return ()


def passed_variables(options: RunOptions, places: Places) -> dict[str, str]:
    """Return the variables that go to the workers. Raises `pytest.UsageError` for one that is not set."""
    if not options.pass_env:
        return {}
    variables = places.environment(places.cwd, os.environ).variables
    missing = [name for name in options.pass_env if name not in variables]
    if missing:
        raise pytest.UsageError(f"--agentv-pass-env={missing[0]}: this variable is set neither here nor in .env")
    return {name: variables[name] for name in options.pass_env}


def _open_text(name: str, way_out: str) -> str:
    return (
        f"--agentv-pass-env: the connection to {name} is not known to be encrypted or local; set the variable where "
        f"its workers start, or {way_out}"
    )


def ships(options: RunOptions) -> bool:
    """Whether the files of the cases are sent to the workers."""
    return options.ship == "bundle" or (options.ship is None and is_cluster(options.executor))


def shipper_of(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, pool: TargetPool, places: Places
) -> Shipper:
    """Return the shipper that packs the jobs of a run."""
    more = (options.dump_prompts, options.dump_traces, None if options.targets is None else options.targets.parent)
    roots = roots_of((places.repo_root, places.cwd, config.rootpath, *(path for path in more if path is not None)))
    if not ships(options):
        return Shipper(roots, pool, None)
    written = (identity.results_path, kept_folder(identity.results_path), options.html)
    folders = (options.dump_prompts, options.dump_traces)
    paths = tuple(str(path) for path in (*written, *folders) if path is not None)
    rules = ShippingRules(roots.folders[0][1], options.ship_ignore, paths, options.ship_limit)
    return Shipper(roots, pool, rules, places.cwd / CACHE_FOLDER if options.cache else None)


def _open_cluster(address: str, setup: Setup) -> CaseExecutor:
    try:
        from pytest_agentv.executors.dask.cluster import DaskWorkers  # noqa: PLC0415 - only for runs that ask for it

        return DaskWorkers(address, setup)
    except AgentvError as error:
        raise pytest.UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        raise pytest.UsageError(missing_text(address, error)) from None


def _ask_hook(config: pytest.Config) -> Executor | None:
    hook: Any = config.hook
    try:
        found = hook.pytest_agentv_executor(config=config)
    except (pytest.UsageError, pytest.exit.Exception):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        text = f"{_HOOK} raised {user_traceback(error, *FOREIGN_FOLDERS)}"
        raise pytest.UsageError(shown(text, Masker.of_environment())) from None
    if found is None or isinstance(found, Executor):
        return found
    text = f"{_HOOK} returned a value of type {type(found).__name__}: expected a concurrent.futures.Executor or None"
    raise pytest.UsageError(text)
