"""Handles files with `{{`: fills variables that collection needs, and hints at braces in a file without variables."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from pytest_agentv.loading.files.entries import COLLECTED_KEYS, CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.keys import EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Hint, Problem
from pytest_agentv.loading.variables.filling import fill, has_template
from pytest_agentv.models.base import Json

_VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*[A-Za-z_]\w*\s*\}\}", re.ASCII)
_SHOWN_KEYS: Final = (*INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS)


def missing_variables(entries: Iterable[CaseEntry], place: Place) -> list[Hint]:
    """Return one hint for the first text of a case that holds `{{ word }}` where there are no variables.

    `place` is that of the case list.
    """
    if not _VARIABLE.search(place.source.text):
        return []
    for entry in entries:
        value = entry.value
        combined = entry.combination is not None and entry.combination.variables
        if entry.row is None and not combined and isinstance(value, dict) and value.get("vars") is None:
            for key in _SHOWN_KEYS:
                if found := next(_texts_with_variables(value.get(key)), None):
                    return [_hint(found, place.at(entry.index, key))]
    return []


def _hint(text: str, place: Place) -> Hint:
    message = f"{text} stays as it is, because the case has no variables"
    line = place.source.line_of(place.keys)
    return Hint(place.path, line, place.key, message, "`vars:` of the case or its file fill it in", "warning")


def _texts_with_variables(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        if found := _VARIABLE.search(value):
            yield found[0]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_with_variables(item)


def filled_entries(suite: SuiteSource) -> Iterator[CaseEntry]:
    """Yield the entries with the variables in their marks, tags, fixtures and skip reasons filled in.

    A template that cannot be filled is a fault of its entry.
    """
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
    filled: Any = fill(collected, variables, suite.case_place(entry, problems))
    # A case with an unfilled skip reason is an error, and must not be skipped.
    unfilled = [key for key in ("skip", "xfail") if key in filled and filled[key] is collected[key]]
    unfilled = [key for key in unfilled if _holds_template(filled[key])]
    value = {**entry.value, **filled, **dict.fromkeys(unfilled)}
    fault = entry.fault or next(iter(problems), None)
    return CaseEntry(entry.index, entry.eval_id, entry.line, value, entry.row, fault, entry.origins, entry.combination)


def _holds_template(value: Json) -> bool:
    values: Collection[Any] = value if isinstance(value, list) else (value,)
    return any(isinstance(each, str) and has_template(each) for each in values)
