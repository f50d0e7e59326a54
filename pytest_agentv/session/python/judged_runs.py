"""Prepares the run of tests that evaluate, if no eval file was collected."""

import pytest

from pytest_agentv.session.options import run_options
from pytest_agentv.session.platforms import obstacle
from pytest_agentv.session.recording.identity import check_resumed, run_identity
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.showing.terminal import RunReporter


def join(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of `--agentv-retry-errors`, and add tests to the verdict on the run before any is deselected.

    An incomplete run gets no verdict. Raises `pytest.UsageError` if the run cannot be judged or resumed.
    """
    if obstacle() is not None or config.getoption("collectonly"):
        return
    options = run_options(config)
    check_resumed(config)
    if options.retries_only and (is_retried := run_identity(config, options).retried_items()) is not None:
        from pytest_agentv.session.choosing.selecting import select_retried  # noqa: PLC0415 - only for such runs

        select_retried(config, items, is_retried)
    if not options.judges_run or options.shard is not None:  # a shard gets no verdict, and divides the items by itself
        return
    session = participate(config)
    if not hasattr(config, "workerinput"):
        reporter = RunReporter.register(config, session.identity, session.options)
        reporter.check_verdict([item.nodeid for item in items])
