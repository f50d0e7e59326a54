"""The accounts of failed and broken cases, with the command that runs them again."""

import shlex

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.reporting.render import error_text, failure_text

_REPEATED_FLAGS = ("target", "targets", "threshold")
"""Flags that shape a case's outcome and so belong to the command that runs it again."""


def failure_account(config: pytest.Config, result: EvalResult, masker: Masker) -> str:
    rerun = rerun_command(config, result.node_id)
    return failure_text(result, threshold_source=result.threshold_source, rerun_command=rerun, masker=masker)


def error_account(config: pytest.Config, result: EvalResult, masker: Masker) -> str:
    return error_text(result, rerun_command=rerun_command(config, result.node_id), masker=masker)


def rerun_command(config: pytest.Config, node_id: str | None) -> str | None:
    """Return what to type in the root directory to run a case again, as it was run."""
    if node_id is None:
        return None
    given = ((name, config.getoption(f"agentv_{name}")) for name in _REPEATED_FLAGS)
    flags = [f"--agentv-{name}={value}" for name, value in given if value is not None]
    return shlex.join(["pytest", node_id, *flags])
