"""Chooses the target of a case."""

from collections.abc import Iterable
from typing import Final

from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted

DEFAULT_TARGET: Final = "default"


def choose_target(options: RunOptions, written: str | None) -> str:
    """Return the name of a case's target: that of the command line (unless `default`), else of the case or its file.

    Source: evaluation-2025-11, "Target Resolution"; decisions 14.
    """
    if options.target and options.target.strip() not in ("", DEFAULT_TARGET):
        return options.target.strip()
    return written or DEFAULT_TARGET


def not_overridden(options: RunOptions, results: Iterable[EvalResult]) -> str | None:
    """Return a text if a run that names `default` has results of eval files with other targets; None if it has not."""
    if options.target is None or options.target.strip() != DEFAULT_TARGET:
        return None
    # Of tests in Python, only a fixture chooses the target. It overrides every option.
    others = {each.node_id: each.target for each in results if not (each.eval_file or "").endswith(".py")}
    others = {node_id: target for node_id, target in others.items() if target != DEFAULT_TARGET}
    if not others:
        return None
    targets = ", ".join(sorted(set(others.values())))
    ran = counted(len(others), "case")
    return f"--agentv-target=default leaves the choice to cases and files: {ran} ran with other targets ({targets})"
