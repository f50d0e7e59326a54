"""The pytest plugin: hooks that forward to `session/`, most of which is imported when a first eval file is met."""

from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.session.options import add_options, attach_optional_values

_SUFFIXES = (".yaml", ".yml", ".jsonl")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_load_initial_conftests(args: list[str]) -> None:
    attach_optional_values(args)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_agentv.session import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in _SUFFIXES:
        return None
    from pytest_agentv.session.collection import collect_file

    return collect_file(file_path, parent)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from pytest_agentv.session.controller import configure_worker

    configure_worker(node)
