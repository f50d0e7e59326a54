"""Rewrite the asserts of test modules before workers start: each would rewrite all of them, at the same time."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

FEWEST: Final = 20
"""Workers rewrite fewer modules as quickly as processes that are forked for it."""


def rewrite_once(config: pytest.Config) -> None:
    """Let each processor rewrite a share of the modules that are to be collected, and wait for all.

    Whatever fails here fails again in the workers, which report it.
    """
    stale = sorted(filter(_is_stale, _modules_of(config)), key=lambda module: module.stat().st_size)
    if len(stale) < FEWEST or sys.dont_write_bytecode or not hasattr(os, "fork"):
        return
    shares = os.cpu_count() or 1
    for child in [_fork_to_rewrite(config, stale[number::shares]) for number in range(shares)]:
        os.waitpid(child, 0)


def _modules_of(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        place = Path(argument.partition("::")[0])
        yield from place.rglob("test_*.py") if place.is_dir() else filter(Path.is_file, [place])


def _is_stale(module: Path) -> bool:
    written = module.stat().st_mtime
    rewritten = (module.parent / "__pycache__").glob(f"{module.stem}.{sys.implementation.cache_tag}-pytest-*.pyc")
    return not any(each.stat().st_mtime >= written for each in rewritten)


def _fork_to_rewrite(config: pytest.Config, modules: list[Path]) -> int:
    child = os.fork()
    if child:
        return child
    hook: Any = config.pluginmanager.rewrite_hook
    with contextlib.suppress(BaseException):
        for module in modules:
            _import(hook, module)
    os._exit(0)


def _import(hook: Any, path: Path) -> None:
    """Import a module by pytest's own hook, which keeps what it has rewritten."""
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=hook)
    if spec is not None:
        with contextlib.suppress(BaseException):  # modules that cannot be imported here are skipped there
            hook.exec_module(importlib.util.module_from_spec(spec))
