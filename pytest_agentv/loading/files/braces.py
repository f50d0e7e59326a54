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
from pytest_agentv.models.base import Json, JsonObject

_VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*[A-Za-z_]\w*\s*\}\}", re.ASCII)
_REASONS: Final = ("skip", "xfail")
"""Keys for collection that a case has in place of those of its file. It has the others in addition."""
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
    """Yield the entries with the variables in marks, tags, fixtures and skip reasons filled in.

    The values are those of the entry and of its file. A template that cannot be filled is a fault of the entry.
    """
    of_file = {key: suite.header[key] for key in COLLECTED_KEYS if _holds_template(suite.header.get(key))}
    has_templates: dict[int, bool] = {}  # the rows of a table share one value
    for entry in suite.entries:
        written = id(entry.written)
        if written not in has_templates:
            value = entry.value
            has_templates[written] = isinstance(value, dict) and any(
                _holds_template(value[key]) for key in COLLECTED_KEYS if key in value
            )
        is_whole = entry.row is None or entry.row.fault is None
        yield _filled(suite, entry, of_file) if is_whole and (of_file or has_templates[written]) else entry


def _filled(suite: SuiteSource, entry: CaseEntry, of_file: JsonObject) -> CaseEntry:
    """Return an entry with its own values and those of its file filled. `of_file` has those with templates."""
    variables = suite.variables_of(entry)
    if variables is None:
        return entry
    problems: list[Problem] = []
    place = suite.case_place(entry, problems)
    value = entry.value if isinstance(entry.value, dict) else {}
    own = {key: value[key] for key in COLLECTED_KEYS if key in value and _holds_template(value[key])}
    read = {key: item for key, item in of_file.items() if key not in value or key not in _REASONS}
    filled = _fill_collected(own, variables, place)
    filled_of_file = _fill_collected(read, variables, suite.header_place(problems, place.source.row))
    return CaseEntry(
        entry.index,
        entry.eval_id,
        entry.line,
        {**value, **filled} if filled else entry.written,
        entry.row,
        entry.fault or next(iter(problems), None),
        entry.origins,
        entry.combination,
        filled_of_file,
    )


def _fill_collected(templates: JsonObject, variables: JsonObject, place: Place) -> JsonObject:
    """Return values for collection, filled. Notes faults.

    A reason to skip that cannot be filled becomes null: its case is an error, and must not be skipped.
    """
    filled: Any = fill(templates, variables, place)
    unfilled = [key for key in _REASONS if key in filled and filled[key] is templates[key]]
    return {**filled, **dict.fromkeys(unfilled)}


def _holds_template(value: Json) -> bool:
    values: Collection[Any] = value if isinstance(value, list) else (value,)
    return any(isinstance(each, str) and has_template(each) for each in values)
