"""Adds tests that evaluate to the verdict on the run."""

from collections.abc import Sequence

import pytest

from pytest_agentv.session.options import run_options
from pytest_agentv.session.platforms import obstacle
from pytest_agentv.session.recording.identity import check_resumed
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.showing.terminal import RunReporter


def join(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Take part before any test is deselected or runs, if no eval file was collected.

    An incomplete run gets no verdict. Raises `pytest.UsageError` if the run cannot be judged or resumed.
    """
    if obstacle() is not None or config.getoption("collectonly"):
        return
    options = run_options(config)
    check_resumed(config)
    if not options.judges_run or options.shard is not None:  # a shard gets no verdict, and divides the items by itself
        return
    session = participate(config)
    if not hasattr(config, "workerinput"):
        reporter = RunReporter.register(config, session.identity, session.options)
        reporter.check_verdict([item.nodeid for item in items])
