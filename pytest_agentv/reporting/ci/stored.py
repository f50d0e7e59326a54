"""Reads the results of a run that is over."""

from pathlib import Path

from pytest_agentv.errors import FileError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.checked import iter_recorded


@record
class StoredRun(Record):
    """The results of a file."""

    results: tuple[EvalResult, ...]
    """The last result of each case."""
    remarks: tuple[str, ...] = ()
    """What could not be read, and how many earlier results of the same cases were left out."""


def read_stored(path: Path) -> StoredRun:
    """Read a results file. Raises `FileError` if it cannot be opened, or holds no result."""
    latest: dict[tuple[str | None, str, str], EvalResult] = {}
    remarks: list[str] = []
    count = 0
    for entry in iter_recorded(path):
        if isinstance(entry, Problem):
            remarks.append(str(entry))
            continue
        count += 1
        result = entry.result
        latest[result.node_id, result.eval_id, result.target] = result
    if not latest:
        raise FileError(path, "; ".join(["holds no results of a run", *remarks[:1]]))
    if dropped := count - len(latest):
        remarks.append(f"{locate(path, None)}: {dropped} earlier results of the same cases were left out")
    return StoredRun(tuple(latest.values()), tuple(remarks))
