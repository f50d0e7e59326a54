"""Chooses the target of a case."""

from typing import Final

from pytest_agentv.models.options.run_options import RunOptions

DEFAULT_TARGET: Final = "default"


def choose_target(options: RunOptions, written: str | None) -> str:
    """Return the name of a case's target: that of the command line (unless `default`), else of the case or its file.

    Source: evaluation-2025-11, "Target Resolution"; decisions 14.
    """
    if options.target and options.target.strip() not in ("", DEFAULT_TARGET):
        return options.target.strip()
    return written or DEFAULT_TARGET
