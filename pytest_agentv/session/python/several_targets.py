"""Evals in Python, once for each of several targets."""

from collections.abc import Sequence

import pytest

from pytest_agentv.session.compat import overrides_fixture


def parametrize_targets(metafunc: pytest.Metafunc, targets: Sequence[str]) -> None:
    """Run a test once for each target, unless it or a fixture of its project chooses the target."""
    if overrides_fixture(metafunc, "agentv_target"):
        return
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = any("agentv_target" in str(mark.args[:1] or mark.kwargs.get("argnames")) for mark in marks)
    if not chosen:
        metafunc.parametrize("agentv_target", targets)
