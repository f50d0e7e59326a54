"""Handles files with `{{`: fills variables that collection needs, and finds braces that stay as they are.

Import this lazily: few files have braces.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from pytest_agentv.loading.files.entries import COLLECTED_KEYS, CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS, EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Hint, Problem
from pytest_agentv.loading.variables.filling import UNFILLED, fill, has_template, raw_keys
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind_table import KindTable

_VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*[A-Za-z_]\w*\s*\}\}|\$\{\{\s*[A-Z][A-Z0-9_]*\s*\}\}", re.ASCII)
"""A variable of a case, or, with `$`, one of the environment as AgentV 4 reads it."""
_FIRST_NAME: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_]\w*)", re.ASCII)
_REASONS: Final = ("skip", "xfail")
"""Keys for collection that a case has in place of those of its file. It has the others in addition."""
_SHOWN_KEYS: Final = (*INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS)
_SHORT_FORMS: Final = ("llm_judge", "code_judge")
"""Short forms of a prompt and of a script."""
_SCRIPTS: Final = ("code", "code_judge")
"""Kinds whose keys a script is given as they are written."""
_WRITE_CASE: Final = "write `case:` with id and input: columns are variables there"


def with_braces(suite: SuiteSource, kinds: KindTable) -> SuiteSource:
    """Return a suite with its variables filled in as far as collection needs them, and with what stays unfilled.

    `kinds` are the built-in evaluators. Others may have templates of their own.
    """
    return _with_unfilled_told(replace(suite, entries=tuple(_filled_entries(suite))), kinds)


def _filled_entries(suite: SuiteSource) -> Iterator[CaseEntry]:
    """Yield the entries with the variables in marks, tags, fixtures and skip reasons filled in.

    A template that cannot be filled is a fault of the entry.
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
        if not of_file and not has_templates[written]:
            yield entry
        else:
            yield _filled(suite, entry, of_file) if _has_values(entry) else _without_templates(entry, of_file)


def _has_values(entry: CaseEntry) -> bool:
    """Whether the variables of an entry are known: its row could be read, and its `vars` are a mapping."""
    if entry.row is not None and entry.row.fault is not None:
        return False
    return isinstance(entry.value, dict) and isinstance(entry.value.get("vars"), dict | None)


def _without_templates(entry: CaseEntry, of_file: JsonObject) -> CaseEntry:
    """Return an entry without values for collection that need its variables. It is an error, which no one may skip."""
    value = entry.value if isinstance(entry.value, dict) else {}
    own = {key: _plain(value[key]) for key in COLLECTED_KEYS if _holds_template(value.get(key))}
    kept = {key: _plain(item) for key, item in of_file.items()}
    return replace(entry, written={**value, **own} if own else entry.written, of_file=kept)


def _plain(value: Json) -> Json:
    return [each for each in value if not _holds_template(each)] if isinstance(value, list) else None


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
    written = {**value, **filled} if filled else entry.written
    fault, origins = entry.fault or next(iter(problems), None), entry.origins
    return CaseEntry(
        entry.index, entry.eval_id, entry.line, written, entry.row, fault, origins, entry.combination, filled_of_file
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


class _Text(NamedTuple):
    """A text with `{{`, and its path in its case or file."""

    keys: KeyPath
    text: str
    is_of_file: bool = False

    @property
    def is_check(self) -> bool:
        return self.keys[0] not in _SHOWN_KEYS

    def is_shared(self, entry: CaseEntry) -> bool:
        """Whether the text is that of a file or its `defaults`, and not of the case itself."""
        return self.is_of_file or any(self.keys[: len(known)] == known for known in entry.origins)

    def place(self, suite: SuiteSource, entry: CaseEntry) -> Place:
        row = entry.row.where if entry.row else None
        around = suite.header_place([], row) if self.is_of_file else suite.case_place(entry, [])
        return around.at(*self.keys)


def _with_unfilled_told(suite: SuiteSource, kinds: KindTable) -> SuiteSource:
    """Return a suite that tells of braces in cases without variables.

    It has one hint at the first `{{ word }}`. A row of a table that is a whole case has a fault if the evaluators of
    its file name a column: `not-contains: "{{ answer }}"` would pass for any answer. Its own evaluators are data.
    """
    if suite.variables or suite.has_template:
        return suite
    of_file = tuple(_texts(_checks(suite.header), kinds, is_of_file=True))
    is_in_cases = _VARIABLE.search(suite.source.text) is not None
    entries: list[CaseEntry] = []
    hint: Hint | None = None
    for entry in suite.entries:
        fault: Problem | None = None
        if entry.fault is None and (entry.row is not None or hint is None):
            for text in _unfilled(suite, entry, kinds, of_file, is_in_cases=is_in_cases):
                fault = fault or _column_fault(suite, entry, text)
                hint = hint or (None if fault else _hint(suite, entry, text))
        entries.append(replace(entry, fault=fault) if fault else entry)
    return replace(suite, entries=tuple(entries), problems=(*suite.problems, *([hint] if hint else [])))


def _unfilled(
    suite: SuiteSource, entry: CaseEntry, kinds: KindTable, of_file: tuple[_Text, ...], *, is_in_cases: bool
) -> Iterator[_Text]:
    """Yield the texts of a case without variables, and those of its file's evaluators."""
    may_hold = of_file or is_in_cases or entry.origins or entry.row is not None
    if not may_hold or not isinstance(entry.value, dict) or suite.variables_of(entry) is not None:
        return
    value = entry.value
    # The cells of a row are data: a data set may be about templates.
    are_own = is_in_cases and entry.row is None
    asked = {key: value[key] for key in _SHOWN_KEYS if key in value and (are_own or (key,) in entry.origins)}
    checks = _checks(value)
    if own := {**asked, **_present(value, ("rubrics",)), **checks}:
        yield from _texts(own, kinds)
    if not checks:
        yield from of_file


def _checks(mapping: JsonObject) -> JsonObject:
    """Return the lists of evaluators of a case or a file, at their keys."""
    execution = mapping.get("execution")
    within = _present(execution, EVALUATOR_LIST_KEYS) if isinstance(execution, dict) else {}
    return {**({"execution": within} if within else {}), **_present(mapping, EVALUATOR_LIST_KEYS)}


def _present(mapping: JsonObject, keys: Collection[str]) -> JsonObject:
    return {key: mapping[key] for key in keys if mapping.get(key) is not None}


def _texts(value: JsonObject, kinds: KindTable, *, is_of_file: bool = False) -> Iterator[_Text]:
    """Yield the texts with `{{` in a mapping. Code and the prompts of judges have templates of their own.

    So may the evaluators of a project, and scripts, whose keys are left out.
    """
    left: list[tuple[KeyPath, Json]] = [((), value)]
    while left:
        keys, item = left.pop()
        if isinstance(item, str):
            if "{{" in item:
                yield _Text(keys, item, is_of_file)
        elif isinstance(item, dict) and not (_is_evaluator(keys) and _fills_itself(item, kinds)):
            raw = raw_keys(item, UNFILLED)
            inner = ((key, each) for key, each in item.items() if key not in raw and not _is_short_form(key, each))
            left += reversed([((*keys, key), each) for key, each in inner])
        elif isinstance(item, list):
            left += reversed([((*keys, index), each) for index, each in enumerate(item)])


def _is_evaluator(keys: KeyPath) -> bool:
    return keys[-2:-1] in [(key,) for key in EVALUATOR_LIST_KEYS]


def _fills_itself(evaluator: JsonObject, kinds: KindTable) -> bool:
    """Whether an evaluator gets its keys as they are written: a script, or one that is not built in."""
    word = evaluator.get("type")
    words = evaluator if word is None else (str(word),)
    found = next(filter(None, map(kinds.find, words)), None)
    return found is None or found[0] in _SCRIPTS


def _is_short_form(key: str, value: Json) -> bool:
    return key in _SHORT_FORMS and not isinstance(value, dict)


def _column_fault(suite: SuiteSource, entry: CaseEntry, found: _Text) -> Problem | None:
    """Return the fault of a file's evaluator that names a column of a row; None if this text does not."""
    name = _column(entry, found) if found.is_check and found.is_shared(entry) else None
    if name is None:
        return None
    place = found.place(suite, entry)
    place.error(f"{{{{ {name} }}}} stays as it is, because the rows are whole cases", _WRITE_CASE)
    return place.problems[-1]


def _column(entry: CaseEntry, found: _Text) -> str | None:
    """Return the first column of the entry's row that a text names."""
    columns = {} if entry.row is None else entry.row.values
    return next((name for name in _FIRST_NAME.findall(found.text) if name in columns), None)


def _hint(suite: SuiteSource, entry: CaseEntry, found: _Text) -> Hint | None:
    word = _VARIABLE.search(found.text)
    if word is None:
        return None
    place = found.place(suite, entry)
    message = f"{word[0]} stays as it is"
    if word[0].startswith("$"):
        instead = "only targets files read variables of the environment"
    else:
        message += ", because the case has no variables"
        is_column = found.is_shared(entry) and _column(entry, found)
        instead = _WRITE_CASE if is_column else "`vars:` of the case or its file fill it in"
    return Hint(place.path, place.line, place.key, message, instead, "warning")
