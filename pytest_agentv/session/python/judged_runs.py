"""Tests that evaluate, in a run that is judged as a whole."""

from collections.abc import Sequence

import pytest

from pytest_agentv.session.options import run_options
from pytest_agentv.session.platforms import obstacle
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.showing.terminal import RunReporter


def join(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Take part before a test is left out or run, where eval files did not: a part of the tests gets no verdict.

    Raises `pytest.UsageError` where the run cannot be judged.
    """
    if obstacle() is not None or config.getoption("collectonly"):
        return
    options = run_options(config)
    if not options.judges_run or options.shard is not None:  # a shard, which gets no verdict, divides by itself
        return
    session = participate(config)
    if not hasattr(config, "workerinput"):
        reporter = RunReporter.register(config, session.identity, session.options)
        reporter.check_verdict([item.nodeid for item in items])
