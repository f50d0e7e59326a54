"""Reads the results of a finished run."""

from pathlib import Path

from pytest_agentv.errors import FileError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.checked import iter_recorded
from pytest_agentv.reporting.merging.replaced import Replaced, attempt_of
from pytest_agentv.reporting.verdicts.case_reading import CaseName, name_of_result


@record
class StoredRun(Record):
    """The results of a file."""

    results: tuple[EvalResult, ...]
    """The last result of each case."""
    remarks: tuple[str, ...] = ()
    """What could not be read, and how many earlier results of the same cases were left out."""
    earlier: tuple[EvalResult, ...] = ()
    """Results of this run that later ones replaced, unless these include their figures. Only cost and tokens count."""
    is_whole: bool = True
    """Whether the whole file could be read."""


def read_stored(path: Path) -> StoredRun:
    """Read a results file. Raises `FileError` if it cannot be opened, or holds no result."""
    latest: dict[CaseName, EvalResult] = {}
    replaced: Replaced[CaseName, EvalResult] = Replaced(attempt_of)
    left_out = 0
    remarks: list[str] = []
    for entry in iter_recorded(path):
        if isinstance(entry, Problem):
            remarks.append(str(entry))
            continue
        result = entry.result
        key = name_of_result(result)
        if key in latest:
            replaced.add(key, latest[key], result)
            left_out += 1
        latest[key] = result
    if not latest:
        raise FileError(path, "; ".join(["holds no results of a run", *remarks[:1]]))
    is_whole = not remarks
    if left_out:
        were = "was" if left_out == 1 else "were"
        remarks.append(f"{locate(path, None)}: {counted(left_out, 'earlier result')} of the same cases {were} left out")
    earlier = tuple(each for key, each in replaced.results() if each.run_id and each.run_id == latest[key].run_id)
    return StoredRun(tuple(latest.values()), tuple(remarks), earlier, is_whole)
