"""Reads the facts about each case in a results file. The results themselves may be too large to keep."""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agentv.loading.problems import Hint, Problem
from pytest_agentv.models.base import Json, JsonObject, Record, is_measure, text_or_none
from pytest_agentv.models.records import record
from pytest_agentv.models.results import ShardFigures
from pytest_agentv.reporting.answers import iter_answers
from pytest_agentv.reporting.failing.expected import failed_as_expected
from pytest_agentv.reporting.readers import iter_foreign
from pytest_agentv.reporting.verdicts.case_reading import CaseName, ended_at, is_error_of, name_of, result_fault


class CaseResult(NamedTuple):
    """The facts in one line of a results file about its case."""

    line: int
    status: str
    ended: datetime | None
    """When the case ended; None: unknown."""
    took: float | None
    run_id: str | None
    shard: ShardFigures | None
    is_mocked: bool = False
    """Whether it is of a dry run."""
    target_hash: str | None = None
    """The hash of the target's definition; None: unknown."""
    is_in_baseline: bool = False
    """Whether a baseline holds its answers."""

    def is_of(self, other: "CaseResult") -> bool:
        """Whether two lines are from one attempt: a resumed run rewrites some lines, and a merged file holds copies."""
        return self.ended is not None and (self.ended, self.took) == (other.ended, other.took)


@record
class Part(Record):
    """A results file: the last result of each case, and those before."""

    path: Path
    results: Mapping[CaseName, CaseResult]
    replaced: Mapping[CaseName, CaseResult]
    """For cases with several results, the one before the last."""
    problems: tuple[Problem, ...] = ()
    hints: tuple[Hint, ...] = ()
    has_answers: bool = False
    """Whether single answers of repeated cases lie beside the file."""

    @property
    def suite(self) -> str | None:
        """The hash of the evals that the last run with shards collected; None: there is no such run."""
        newest_first = reversed(tuple(self.results.values()))
        return next((result.shard.suite for result in newest_first if result.shard is not None), None)

    @property
    def is_mocked(self) -> bool:
        """Whether a result is of a dry run."""
        return any(result.is_mocked for result in self.results.values())

    @property
    def foreign_ids(self) -> list[str]:
        """The ids of results that name neither an eval file nor a run, like those of AgentV itself."""
        return [
            name.eval_id for name, result in self.results.items() if name.eval_file is None and result.run_id is None
        ]

    @property
    def eval_files(self) -> set[str]:
        return {name.eval_file for name in self.results if name.eval_file is not None}


def read_part(path: Path) -> Part:
    """Read a results file. Raises `FileError` if it cannot be opened."""
    results: dict[CaseName, CaseResult] = {}
    replaced: dict[CaseName, CaseResult] = {}
    problems: list[Problem] = []
    hints: list[Hint] = []
    shards: dict[object, ShardFigures] = {}
    for entry in iter_foreign(path):
        fault = None if isinstance(entry, Problem) else result_fault(entry.value)
        if isinstance(entry, Hint):
            hints.append(entry)
        elif isinstance(entry, Problem):
            problems.append(entry)
        elif fault is not None:
            problems.append(Problem(path, entry.line, "", f"{fault}; it was left out", level="warning"))
        else:
            name, result = name_of(entry.value), _result(entry.line, entry.value, shards)
            before = results.pop(name, None)  # keeps cases in the order of their last results
            if before is not None and not result.is_of(before):
                replaced[name] = before
            results[name] = result
    has_answers = next(iter_answers(path), None) is not None
    return Part(path, results, replaced, tuple(problems), tuple(hints), has_answers=has_answers)


def _result(line: int, value: JsonObject, shards: dict[object, ShardFigures]) -> CaseResult:
    status = "error" if is_error_of(value) else text_or_none(value.get("status")) or "judged"
    if status == "fail" and failed_as_expected(value):
        status = "fail as expected"
    took = value.get("duration_ms")
    return CaseResult(
        line,
        status,
        ended_at(value.get("timestamp")),
        float(took) if is_measure(took) else None,
        text_or_none(value.get("run_id")),
        _figures(value.get("shard"), shards),
        value.get("dry_run") is True,
        None if (target := text_or_none(value.get("target_hash"))) is None else sys.intern(target),
        value.get("in_baseline") is not None,
    )


def _figures(value: Json, known: dict[object, ShardFigures]) -> ShardFigures | None:
    """Return a shard's figures. Equal figures share one record. None for any other value."""
    if not isinstance(value, dict):
        return None
    figures: dict[str, Any] = {field: value.get(field) for field in ("index", "count", "cases", "total", "suite")}
    *numbers, suite = figures.values()
    if not all(type(number) is int for number in numbers) or not isinstance(suite, str):
        return None
    return known.setdefault((*numbers, suite), ShardFigures(**figures))
