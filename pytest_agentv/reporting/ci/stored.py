"""Reads the results of a finished run."""

from pathlib import Path

from pytest_agentv.errors import FileError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.checked import iter_recorded
from pytest_agentv.reporting.figures import moment_of


@record
class StoredRun(Record):
    """The results of a file."""

    results: tuple[EvalResult, ...]
    """The last result of each case."""
    remarks: tuple[str, ...] = ()
    """What could not be read, and how many earlier results of the same cases were left out."""
    earlier: tuple[EvalResult, ...] = ()
    """Results of this run that reruns replaced. Only their cost and tokens count."""
    is_whole: bool = True
    """Whether the whole file could be read."""


def read_stored(path: Path) -> StoredRun:
    """Read a results file. Raises `FileError` if it cannot be opened, or holds no result."""
    latest: dict[tuple[str | None, str, str], EvalResult] = {}
    replaced: list[EvalResult] = []
    remarks: list[str] = []
    for entry in iter_recorded(path):
        if isinstance(entry, Problem):
            remarks.append(str(entry))
            continue
        result = entry.result
        key = (result.node_id, result.eval_id, result.target)
        if key in latest:
            replaced.append(latest[key])
        latest[key] = result
    if not latest:
        raise FileError(path, "; ".join(["holds no results of a run", *remarks[:1]]))
    is_whole = not remarks
    if replaced:
        were = "was" if len(replaced) == 1 else "were"
        remarks.append(
            f"{locate(path, None)}: {counted(len(replaced), 'earlier result')} of the same cases {were} left out"
        )
    reruns = (each for each in replaced if _is_rerun(each, latest[each.node_id, each.eval_id, each.target]))
    # A line that says an attempt anew, as after a change of tags, has its time and was paid for once.
    earlier = {(each.node_id, each.eval_id, each.target, *moment_of(each)): each for each in reruns}
    return StoredRun(tuple(latest.values()), tuple(remarks), tuple(earlier.values()), is_whole)


def _is_rerun(result: EvalResult, last: EvalResult) -> bool:
    """Whether a result was paid for in the same run as the last one, whose figures do not include it."""
    if result.run_id is None or result.run_id != last.run_id or (last.repeat is not None and last.repeat.goes_on):
        return False
    return moment_of(result) != moment_of(last)
