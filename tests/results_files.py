"""Reads a results file at once."""

from pathlib import Path
from typing import Any, NamedTuple

from pytest_agentv.files.problems import Problem
from pytest_agentv.store.readers import iter_entries


class ResultsFile(NamedTuple):
    """The results of a file in order, and a problem for each part that could not be read."""

    results: tuple[Any, ...]
    problems: tuple[Problem, ...]


def read_results(path: Path, run_id: str | None = None) -> ResultsFile:
    """Read a results file, or only its results of one run."""
    entries = list(iter_entries(path, run_id))
    problems = tuple(entry for entry in entries if isinstance(entry, Problem))
    return ResultsFile(tuple(entry.value for entry in entries if not isinstance(entry, Problem)), problems)
