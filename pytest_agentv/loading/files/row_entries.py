"""Makes the entries for the rows of tables."""

import re
from collections.abc import Iterable, Iterator

from pytest_agentv.loading.files.entries import CaseEntry, Shared, TableSpec, valid_id, with_defaults
from pytest_agentv.loading.files.layers import Layer
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.tables.names import CallFunction
from pytest_agentv.loading.tables.reading import read_tables
from pytest_agentv.loading.tables.rows import Row
from pytest_agentv.loading.tables.sampling import sample
from pytest_agentv.loading.variables.filling import has_template, render
from pytest_agentv.loading.variables.rendering import ALL_VARIABLES, TemplateFault, as_text
from pytest_agentv.models.base import Json, JsonObject


def row_entries(spec: TableSpec, place: Place, shared: Shared, call: CallFunction) -> tuple[CaseEntry, ...]:
    """Return the entries of the rows of tables, or of a sample of them.

    `place` is that of the case list. `call` calls functions that make rows.
    """
    rows = read_tables(spec.names, place.path, call)
    if shared.template is None:
        line = place.source.line_of(place.keys)
        made = [_row_as_case(row, index, line, shared.defaults) for index, row in enumerate(rows)]
    else:
        _warn_of_columns(rows, shared.template, place)
        made = list(_templated(shared.template, rows, shared))
    entries = tuple(_unlike(made))
    if spec.sample is None:
        return entries
    chosen = sample([entry.base_name or "" for entry in entries], spec.sample, spec.seed)
    return tuple(entry for index, entry in enumerate(entries) if index in chosen)


def _templated(template: Layer, rows: Iterable[Row], shared: Shared) -> Iterator[CaseEntry]:
    """Yield the entry of each row. Only the id is filled now."""
    value, origins = with_defaults(template.value, shared.defaults)
    line = template.source.line_of(template.keys)
    own = value.get("vars")
    variables = {**shared.variables, **(own if isinstance(own, dict) else {})}
    for index, row in enumerate(rows):
        known = {**variables, **row.values} if variables else row.values
        eval_id = None if row.fault else _filled_id(value.get("id"), known)
        yield CaseEntry(index, eval_id, line, value, row, _row_fault(row, value), origins)


def _warn_of_columns(rows: Iterable[Row], template: Layer, place: Place) -> None:
    """Warn once of each column that promptfoo reads by its name, unless the template uses it."""
    names = {
        name: row for row in reversed([*rows]) for name in row.values if name.startswith("__") and row.values[name]
    }
    if not names:
        return
    from pytest_agentv.loading.foreign_keys import column_fault  # noqa: PLC0415 - few tables are from promptfoo

    used = str(template.value)
    for name, row in names.items():
        fault = column_fault(name)
        if fault is not None and not re.search(rf"\b{name}\b", used):
            what, hint = fault
            place.warn(f"the column {name!r} of {row.where} is not read: {what}", hint)


def _row_as_case(row: Row, index: int, line: int, defaults: Layer | None) -> CaseEntry:
    value, origins = with_defaults(row.case, defaults)
    return CaseEntry(index, None if row.fault else valid_id(value), line, value, row, _row_fault(row), origins)


def _row_fault(row: Row, template: Json = None) -> Problem | None:
    """Return why a row cannot be read. Bytes that are no text are no fault if its template names no such column."""
    message = row.fault
    if row.unread:
        used = (name for name in row.unread if template is None or _names(str(template), name))
        message = next((f"the column {name!r} holds bytes that are no text (UTF-8)" for name in used), None)
    if message is None:
        return None
    told = None if row.table.has_lines else row.where
    return Problem(row.table.path, row.line, "", message, row=told)


def _names(template: str, column: str) -> bool:
    """Whether a template names a column, or all of them: `{{ vars | tojson }}`."""
    named = rf"(?:{re.escape(column)}(?!\w)|{ALL_VARIABLES}\b(?!\s*[\[.]))"
    return re.search(rf"\{{[{{%][^}}]*?(?<!\w){named}", template) is not None


def _unlike(entries: Iterable[CaseEntry]) -> Iterator[CaseEntry]:
    """Add a fault to each entry with the id of an earlier row."""
    first: dict[str, Row] = {}
    for entry in entries:
        row, eval_id = entry.row, entry.eval_id
        if row is None or eval_id is None or first.setdefault(eval_id, row) is row:
            yield entry
        else:
            message = f"the id {eval_id!r} is that of {first[eval_id].where} already: expected one of its own"
            told = None if row.table.has_lines else row.where
            fault = entry.fault or Problem(row.table.path, row.line, "id", message, row=told)
            yield CaseEntry(entry.index, eval_id, entry.line, entry.value, row, fault, entry.origins)


def _filled_id(template: Json, variables: JsonObject) -> str | None:
    """Return the id of a row; None if it is invalid. Loading the case reports why."""
    if not isinstance(template, str):
        return None
    try:
        filled = as_text(render(template, variables)) if has_template(template) else template
    except TemplateFault:
        return None
    return filled if filled.strip() else None
