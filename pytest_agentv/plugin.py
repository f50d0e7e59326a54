"""The pytest plugin: hooks that forward to `session/`. The first eval file imports most of it."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.model.options import parse_shard
from pytest_agentv.session import hookspecs
from pytest_agentv.session.collect import collect_file, is_of_workspace
from pytest_agentv.session.compat import obstacle
from pytest_agentv.session.fixtures import (  # noqa: F401 - pytest finds fixtures in the plugin's module
    agentv,
    agentv_judge,
    agentv_options,
    agentv_provider,
    agentv_target,
    agentv_targets,
    parametrize_targets,
    python_evals,
)
from pytest_agentv.session.options import add_options, attach_optional_values, check_options

_SUFFIXES = (".yaml", ".yml", ".jsonl")
_IDLE = ("collectonly", "setupplan", "showfixtures", "show_fixtures_per_test")
"""Options of pytest with which nothing runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_load_initial_conftests(args: list[str]) -> None:
    attach_optional_values(args)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse wrong options before anything is collected. They need modules that other runs do not load."""
    check_options(config)
    is_first = obstacle() is None and not hasattr(config, "workerinput")
    if is_first and any(map(config.getoption, ("agentv_resume", "agentv_rejudge", "agentv_retry_errors"))):
        from pytest_agentv.session.identity import check_resumed

        check_resumed(config)
    is_idle = any(config.getoption(name, False) for name in _IDLE)
    if is_first and not is_idle and config.getoption("agentv_baseline"):
        from pytest_agentv.session.gates import refuse_gone

        refuse_gone(config)
    shard = config.getoption("agentv_shard")
    if shard is not None:
        from pytest_agentv.session.selection import Sharding

        config.pluginmanager.register(Sharding(config, parse_shard(shard)), "agentv-shard")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders that targets get copies of."""
    return is_of_workspace(collection_path, config) or None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Add our collector to those of other plugins. A file that another plugin collects is not an error."""
    collectors = yield
    if file_path.suffix not in _SUFFIXES:
        return collectors
    own = collect_file(file_path, parent, is_claimed=bool(collectors))
    return collectors if own is None else [*collectors, own]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Mask what was captured, and send the short line of a broken file."""
    report = yield  # with what was captured
    if report.sections and hasattr(collector, "agentv_mask"):
        collector.agentv_mask(report)
    headline = getattr(collector, "agentv_headline", None)
    if headline is not None:
        vars(report)["agentv_headline"] = headline  # xdist sends it along
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run evals in Python once for each of several targets."""
    if "agentv_target" in metafunc.fixturenames:
        parametrize_targets(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Prepare the verdict on the run for tests that evaluate, if no eval file was collected."""
    if obstacle() is not None or config.pluginmanager.has_plugin("agentv-session"):
        return
    if any("agentv" in getattr(item, "fixturenames", ()) for item in items):
        python_evals().join(config, items)


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Say that no evaluation was collected. Otherwise the run would look like a success."""
    options = ("agentv_baseline", "agentv_update_baseline")
    wants_verdict = any(map(config.getoption, options)) and not config.getoption("collectonly")
    has_evals = config.pluginmanager.has_plugin("agentv-session") or config.pluginmanager.has_plugin("dsession")
    return "agentv: no evaluation was collected, so there is no verdict" if wants_verdict and not has_evals else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take part in the run before the fixtures of a test that evaluates: they may fail with a secret in their text."""
    if obstacle() is None and "agentv" in getattr(item, "fixturenames", ()):
        python_evals().take_part(item)


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show a test whose evaluation could not be judged as an error, not as failed."""
    return ("error", "E", "ERROR") if getattr(report, "agentv_errored", False) and report.failed else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if obstacle() is None:
        from pytest_agentv.session.terminal import configure_worker

        configure_worker(node)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Generator[None, object, object]:
    """Keep the workers of pytest-xdist supplied with cases."""
    chosen = yield
    if obstacle() is not None:
        return chosen
    from pytest_agentv.session.schedule import fitting

    return fitting(chosen, config, log)
