"""Fills the variables of cases into what collection reads of them: marks, tags, fixtures, reasons to skip."""

from collections.abc import Collection, Iterator
from typing import Any

from pytest_agentv.loading.files.entries import COLLECTED_KEYS, CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.variables.filling import fill, has_template
from pytest_agentv.models.base import Json


def filled_entries(suite: SuiteSource) -> Iterator[CaseEntry]:
    """Yield the entries of a suite. What cannot be filled is the fault of its entry."""
    has_templates: dict[int, bool] = {}  # the rows of a table share one value
    for entry in suite.entries:
        written = id(entry.written)
        if written not in has_templates:
            value = entry.value
            has_templates[written] = isinstance(value, dict) and any(
                _holds_template(value[key]) for key in COLLECTED_KEYS if key in value
            )
        is_whole = entry.row is None or entry.row.fault is None
        yield _filled(suite, entry) if has_templates[written] and is_whole else entry


def _filled(suite: SuiteSource, entry: CaseEntry) -> CaseEntry:
    variables = suite.variables_of(entry)
    if variables is None:
        return entry
    problems: list[Problem] = []
    collected = {key: entry.value[key] for key in COLLECTED_KEYS if key in entry.value}
    value = {**entry.value, **fill(collected, variables, suite.case_place(entry, problems))}
    fault = entry.fault or next(iter(problems), None)
    return CaseEntry(entry.index, entry.eval_id, entry.line, value, entry.row, fault, entry.origins, entry.combination)


def _holds_template(value: Json) -> bool:
    values: Collection[Any] = value if isinstance(value, list) else (value,)
    return any(isinstance(each, str) and has_template(each) for each in values)
