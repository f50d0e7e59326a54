"""Evals in Python, once for each of several targets."""

import pytest

from pytest_agentv.session.options import run_options


def parametrize_targets(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each target of the command line, unless it chooses its targets itself."""
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = any("agentv_target" in str(mark.args[:1] or mark.kwargs.get("argnames")) for mark in marks)
    if not chosen:
        metafunc.parametrize("agentv_target", run_options(metafunc.config).several_targets)
