"""The controller's part of an xdist run: it collects nothing, names the run, and owns the terminal."""

from typing import Any

import pytest

from pytest_agentv.session.options import run_options
from pytest_agentv.session.recording.identity import refuse_in_worker, run_identity
from pytest_agentv.session.showing.terminal import RunReporter


def configure_worker(node: Any) -> None:
    """Tell a worker which run it is part of. Wrong ini values are reported by the workers, if they collect evals."""
    try:
        options = run_options(node.config)
    except pytest.UsageError:
        return
    try:
        identity = run_identity(node.config, options)
    except pytest.UsageError as error:
        refuse_in_worker(node, error)
        return
    RunReporter.register(node.config, identity, options).configure_worker(node)
