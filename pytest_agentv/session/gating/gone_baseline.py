"""Refuses a baseline that no run can be compared with: all its files are gone."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError, name_below
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.session.options import run_options

_SHOWN: Final = 3


def refuse_gone(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a baseline of files that are no longer there, unless the run writes it anew.

    A baseline that cannot be read is told where it is used.
    """
    path = _compared(config)
    if path is None:
        return
    try:
        files = {case.eval_file for case in read_baseline(path).cases}
    except AgentvError:
        return
    folders = config.rootpath, path.parent  # a run with another root directory has other names for the files
    if not files or None in files or any((folder / str(file)).exists() for folder in folders for file in files):
        return
    shown = ", ".join(sorted(map(str, files))[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")
    text = f"the baseline {name_below(path, config.rootpath)} is stale: the files of its cases are gone ({shown})"
    raise pytest.UsageError(f"{text}; --agentv-update-baseline writes it anew")


def _compared(config: pytest.Config) -> Path | None:
    """Return the baseline that the run is compared with, if it is there and the options are in order."""
    with suppress(pytest.UsageError):
        options = run_options(config)
        if options.baseline is not None and options.update_baseline is None and not options.dry_run:
            return options.baseline if options.baseline.is_file() else None
    return None
