"""The run that another one goes on from."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.reporting.readers import iter_results


@dataclass(frozen=True, slots=True)
class JournalSource(Record):
    """A run in a results file."""

    path: Path
    run_id: str


def find_last_run(path: Path, flag: str) -> JournalSource:
    """Return the last run in a results file, or in the newest results file of a folder.

    Raises `pytest.UsageError` when there is none, in the name of the flag that asks for it.
    """
    file = _newest_file(path) if path.is_dir() else path
    if file is None or not file.is_file():
        raise pytest.UsageError(f"{flag}: {locate(path, None)} holds no results file to go on from")
    try:
        run_ids = [entry.get("run_id") for entry in iter_results(file) if not isinstance(entry, Problem)]
    except AgentvError as error:
        raise pytest.UsageError(f"{flag}: {error}") from None
    last = next((run_id for run_id in reversed(run_ids) if isinstance(run_id, str)), None)
    if last is None:
        raise pytest.UsageError(f"{flag}: {locate(file, None)} holds no results of a run of pytest-agentv")
    return JournalSource(file, last)


def broken_cases(source: JournalSource) -> tuple[tuple[str, str], ...]:
    """Return eval file and id of the cases of a run that could not be judged in the end."""
    last = {
        (str(entry.get("eval_file", "")), str(entry.get("eval_id"))): entry.get("status")
        for entry in iter_results(source.path, source.run_id)
        if not isinstance(entry, Problem)
    }
    return tuple(place for place, status in last.items() if status == "error")


def _newest_file(folder: Path) -> Path | None:
    files = [path for path in folder.glob("eval_*") if path.suffix in {".jsonl", ".yaml"}]
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=None)
