"""Writes the verdict of a run to the summary page of a GitHub step: to the file that `GITHUB_STEP_SUMMARY` names."""

import os
from pathlib import Path
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.ci.markdown import MARKDOWN_LIMIT, RunVerdict, markdown_lines
from pytest_agentv.reporting.escaping import visible

VARIABLE: Final = "GITHUB_STEP_SUMMARY"

_FILE_LIMIT: Final = 1_048_576
"""In bytes. GitHub shows nothing of a longer file."""


def append_step_summary(verdict: RunVerdict) -> list[str]:
    """Append the verdict if the environment asks for it. Return the reason if that failed."""
    fault = _append(verdict, os.environ.get(VARIABLE, ""))
    return [fault] if fault else []


def _append(verdict: RunVerdict, name: str) -> str | None:
    if not name:
        return None
    masker = Masker.of_environment()
    path = Path(name)
    try:
        size = path.stat().st_size if path.exists() else 0
        limit = min(MARKDOWN_LIMIT, _FILE_LIMIT - size - len("\n\n"))
        text = "".join(f"{line}\n" for line in markdown_lines(verdict, masker, limit))
        if not text:
            return f"{VARIABLE}: {visible(name)} is full, so this run's verdict was not added to it"
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n\n{text}" if size else text)
    except OSError as error:
        return f"{VARIABLE}: {visible(name)} cannot be written: {error.strerror or error}"
    return None
