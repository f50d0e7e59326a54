"""Reads results of earlier runs for reuse. Skips and reports every line that no run could have written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import JsonObject, Record, is_number
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.readers import Entry, KnownLine, iter_entries, version_fault

_DEFAULT_THRESHOLD: Final = 1.0
"""The threshold of a result that has none."""


@record
class RecordedResult(Record):
    """A checked result of a file."""

    line: int
    result: EvalResult
    is_known: bool = False
    """Whether it was known before its line was read."""


def iter_recorded(
    path: Path, run_id: str | None = None, find: KnownLine | None = None
) -> Iterator[RecordedResult | Problem]:
    """Yield the results of a file, or of one run in it, and a problem for each skipped line.

    `find` knows lines of the run. Raises `FileError` if the file cannot be opened.
    """
    for entry in iter_entries(path, run_id, find):
        yield entry if isinstance(entry, Problem) else check_entry(path, entry)


def check_entry(path: Path, entry: Entry) -> RecordedResult | Problem:
    """Return the result that an entry holds, or the problem if it holds none."""
    if entry.known is not None:
        return RecordedResult(entry.line, entry.known, is_known=True)
    fault = version_fault(entry.value) or _score_fault(entry.value)
    if fault is None:
        try:
            return RecordedResult(entry.line, EvalResult.from_plain(_with_status(entry.value)))
        except ValueError as error:  # a fault of pydantic, which is not imported for this
            fault = _first_fault(error)
    return Problem(path, entry.line, "", f"{fault}; the result was skipped", level="warning")


def _with_status(value: JsonObject) -> JsonObject:
    """Return a result with a status. AgentV's own results have none, but an error in them is an error here.

    Source: evaluation-2026-01, "Multiple evaluators aggregation": a score below the threshold, by default 1, fails.
    """
    if value.get("status") is not None:
        return value
    if value.get("error") is not None:
        return {**value, "status": "error"}
    from pytest_agentv.statistics.repeats import passing  # noqa: PLC0415 - results of our runs have a status

    written = value.get("threshold")
    threshold = written if is_number(written) else _DEFAULT_THRESHOLD
    is_passed = passing([value["score"]], threshold)
    return {**value, "status": "pass" if is_passed else "fail"}


def _score_fault(value: JsonObject) -> str | None:
    """Return the fault of the score, if any. pydantic would accept texts and booleans as numbers."""
    score = value.get("score")
    if not is_number(score) or not 0 <= score <= 1:
        return f"score: expected a number from 0 to 1, got {describe_value(score)}"
    return None


def _first_fault(error: Any) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] in ("missing", "missing_argument"):
        return f"{first['loc'][0]}: the key is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"{first['loc'][0]}: unknown key"
    expected = first["msg"].replace("Input should be", "expected")
    return f"{'.'.join(map(str, first['loc']))}: {expected}, got {describe_value(first['input'])}"
