"""Reads eval files for collection: the ids and lines of their cases, which are loaded later."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.cases.discovery import find_sidecar
from pytest_agentv.cases.entries import (
    CallFunction,
    CaseEntry,
    Shared,
    SuiteSource,
    TableSpec,
    list_entries,
    list_keys,
    no_functions,
    table_spec,
)
from pytest_agentv.errors import SourceError, locate
from pytest_agentv.files.places import (
    CASE_LIST_KEYS,
    FOREIGN_KEYS,
    INSTEAD,
    REFUSED,
    Layer,
    Place,
    evaluator_lists,
    first_key,
    mapping_at,
    takes_place,
    text_at,
    with_includes,
)
from pytest_agentv.files.problems import Problem, UnreadKey, describe_value, did_you_mean, with_problems
from pytest_agentv.files.source import LayeredSource, Source, read_jsonl, read_yaml
from pytest_agentv.model.base import Json, JsonObject, mapping

# The keys of an eval file that apply to all its cases.


def _defaults(header: JsonObject, place: Place) -> Layer | None:
    defaults = mapping_at(header, "defaults", place)
    if "id" in defaults:
        place.at("defaults", "id").error("each case needs an id of its own")
    return Layer(defaults, place.source, ("defaults",)) if defaults else None


def _template(header: JsonObject, place: Place) -> Layer | None:
    if header.get("case") is None:
        return None
    template = mapping_at(header, "case", place)
    if template.get("id") is None and isinstance(header["case"], dict):
        place.at("case", "id").error("is missing: expected a text that names each row, such as q-{{ number }}")
    return Layer(template, place.source, ("case",))


_NO_LIST: Final = f"has no list of cases: {CASE_LIST_KEYS[0]}"
_SHOWN_KEYS: Final = 8
_TAGS: Final = ("{{", "{%", "{#")
"""The beginnings of what a template fills, runs and leaves out."""
_OF_ENTRIES: Final = frozenset({"defaults", "case", "include", "vars", "matrix"})
"""Keys of a file that are merged into its entries."""


class _Run(NamedTuple):
    """The settings of the run that affect reading."""

    call: CallFunction
    targets: Sequence[str]


def read_suite(
    path: Path,
    call: CallFunction = no_functions,
    targets: Sequence[str] = (),
) -> SuiteSource:
    """Read an eval file: `.yaml`, `.yml`, or `.jsonl` with its sidecar.

    `call` calls functions that make rows. `targets` are those of the command line. `kinds` are the built-in evaluators,
    whose texts with braces are told.

    Raises `SourceError` if the whole file is unusable. Faults of single cases show when the cases are loaded.
    Source: agentv-formats 1.2 and 2.
    """
    path = Path(os.path.normpath(path.absolute()))
    if path.suffix == ".jsonl":
        return _read_jsonl_suite(path, _Run(no_functions, targets))
    if path.suffix in {".yaml", ".yml"}:
        return _read_yaml_suite(path, _Run(call, targets))
    raise SourceError(path, "is not an eval file: expected a name that ends in .yaml, .yml or .jsonl")


def _read_jsonl_suite(path: Path, run: _Run) -> SuiteSource:
    source = read_jsonl(path)
    sidecar = _read_sidecar(path)
    header, header_source = _included(sidecar, sidecar.value) if sidecar else ({}, source)
    suite = _create_suite(source, None, header, header_source, run)
    lines = source.lines_only()  # the entries have the values
    return replace(suite, source=lines, header_source=lines if header_source is source else header_source)


def _read_sidecar(path: Path) -> Source | None:
    """Read the sidecar of a JSONL file. A file with a case list of its own is an eval file instead."""
    sidecar_path = find_sidecar(path)
    if sidecar_path is None:
        return None
    sidecar = read_yaml(sidecar_path)
    if not isinstance(sidecar.value, dict):
        message = f"expected a mapping of file-level keys for {path.name}, got {describe_value(sidecar.value)}"
        raise SourceError(sidecar_path, message, sidecar.line_of())
    return None if first_key(sidecar.value, CASE_LIST_KEYS) else sidecar


def _included(source: Source, header: JsonObject) -> tuple[JsonObject, Source]:
    if header.get("include") is None:
        return header, source

    return with_includes(source, header)


def _create_suite(
    source: Source,
    cases_key: str | None,
    header: JsonObject,
    header_source: Source,
    run: _Run,
) -> SuiteSource:
    problems = list(dict.fromkeys([*source.warnings, *header_source.warnings]))
    place = Place(header_source, (), problems)
    dataset = text_at(header, "dataset", place)
    shared = Shared(mapping_at(header, "vars", place), _defaults(header, place), _template(header, place))
    foreign = _foreign(header, place)
    cases_place = Place(source, list_keys(cases_key), problems)
    cases = source.value if cases_key is None else source.value[cases_key]
    tables = table_spec(cases, cases_place)
    _raise_errors(problems)
    entries = _create_entries(cases, cases_place, shared, tables, run.call)
    if foreign is not None and any(each.level == "error" for each in problems):  # it may name tests as file://…
        _raise_errors([foreign])
    has_template = tables is not None and shared.template is not None
    entries = _combined(entries, header, (place, cases_place), run.targets, has_template=has_template)
    _raise_errors(problems)
    suite = SuiteSource(
        path=source.path,
        dataset=dataset or source.path.stem,
        entries=entries,
        header={key: value for key, value in header.items() if key not in _OF_ENTRIES},
        source=source,
        header_source=header_source,
        cases_key=cases_key,
        target=_target(header),
        problems=tuple(problems),
        foreign=foreign,
        variables=shared.variables,
        has_template=has_template,
    )
    for of_file, value in evaluator_lists(header)[:1]:
        suite = replace(suite, problems=(*problems, *_replaced(suite, place.at(*of_file))) if value else suite.problems)
    rows_are_cases = tables is not None and not has_template  # their templates are in the tables
    has_more = rows_are_cases or isinstance(header_source, LayeredSource)  # texts of other files
    if not has_more and not any(tag in text for text in (source.text, header_source.text) for tag in _TAGS):
        return suite
    from pytest_agentv.cases.matrix import with_braces  # noqa: PLC0415 - few files have braces

    return with_braces(suite)


def _foreign(header: JsonObject, place: Place) -> UnreadKey | None:
    """Return the error of all cases if the file is one of another tool."""
    key = first_key(header, FOREIGN_KEYS)
    if key is None:
        return None
    hints = "; ".join(f"{each}: {INSTEAD[each]}" for each in header if each in REFUSED)
    where = place.at(key)
    return UnreadKey(where.path, where.line, where.key, _of_other_tool(header), hints)


def _of_other_tool(header: JsonObject) -> str:
    """Return which tool a file with some of `FOREIGN_KEYS` belongs to, and which page shows the same here.

    promptfoo writes keys such as `defaultTest`, and the ids of providers with colons: `openai:gpt-6-luna`.
    """
    providers = header.get("providers")
    listed = providers if isinstance(providers, list) else [providers]
    ids = [each.get("id", each) if isinstance(each, dict) else each for each in listed]
    is_promptfoo = any(key != key.lower() for key in header) or any(":" in str(each) for each in ids)
    tool, section = ("promptfoo", "from-promptfoo") if is_promptfoo else ("AgentV 5", "from-agentv-5")
    return f"this is a file of {tool}, which is not read: docs/coming-from.md#{section} shows the same here"


def _target(header: JsonObject) -> str | None:
    """Return the target of a file. Wrong values are reported when its cases are loaded."""
    execution = header.get("execution")
    named = (execution.get("target") if isinstance(execution, dict) else None, header.get("target"))
    return next((each.strip() for each in named if isinstance(each, str) and each.strip()), None)


def _raise_errors(problems: list[Problem]) -> None:
    """Raise one error that names all faults."""
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first, *rest = errors
        text = str(first).removeprefix(f"{locate(first.path, first.line)}: ")
        raise with_problems(SourceError(first.path, "\n".join([text, *map(str, rest)]), first.line), problems)


def _create_entries(
    cases: Json, place: Place, shared: Shared, tables: TableSpec | None, call: CallFunction
) -> tuple[CaseEntry, ...]:
    if tables is not None:
        from pytest_agentv.cases.tables import row_entries  # noqa: PLC0415 - only for files with tables

        entries = row_entries(tables, place, shared, call)
    elif isinstance(cases, list):
        entries = list_entries(place, cases, shared.defaults)
        first: dict[str, CaseEntry] = {}
        for entry in entries:
            if entry.eval_id is not None and first.setdefault(entry.eval_id, entry) is not entry:
                line = first[entry.eval_id].line
                place.at(entry.index).warn(f"the id {entry.eval_id!r} is used twice, first in line {line}")
        if shared.template is not None:
            shared.template.place(place.problems).warn("is not read: the cases are in this file, not in a table")
    else:
        hint = None
        if cases and isinstance(cases, dict):
            hint = "put `- ` before its first key" if "id" in cases else "or `from:` with the file of a table"
            if "from" not in cases and all(isinstance(case, dict) for case in cases.values()):
                hint = "write each as an entry of a list: `- id: ` and its name"
        place.expected("a list of eval cases", cases, hint)
        return ()
    if not entries and not any(each.level == "error" for each in place.problems):
        place.warn("no eval cases in this file" if tables is None else "the table has no rows")
    return entries


def _combined(
    entries: tuple[CaseEntry, ...],
    header: JsonObject,
    places: tuple[Place, Place],
    targets: Sequence[str],
    *,
    has_template: bool,
) -> tuple[CaseEntry, ...]:
    """Return the entries of all combinations of a file. `places` are those of the header and of the cases."""
    execution = mapping(header.get("execution"))
    if not targets and header.get("matrix") is None and execution.get("targets") is None:
        return entries
    from pytest_agentv.cases import matrix  # noqa: PLC0415 - only for files with combinations

    axes = matrix.read_axes(header, places)
    read = [axis for axis in axes if not targets or axis.key != matrix.TARGET]
    matrix.warn_of_own_values(entries, read, places[1])
    matrix.warn_of_hidden_variables(entries, axes, places[0], has_template=has_template)
    return matrix.combined_entries(entries, axes, targets, places[0])


def _replaced(suite: SuiteSource, of_file: Place) -> Iterator[Problem]:
    """Yield a warning if the evaluators of the file apply to no case."""
    if suite.entries and all(takes_place(mapping(entry.value)) for entry in suite.entries):
        message = "applies to no case: each has `skip_defaults`, or a list `evaluators`, which replaces this one"
        yield Problem(
            of_file.path, of_file.line, of_file.key, message, "call the lists of the cases `assert`", "warning"
        )


def _read_yaml_suite(path: Path, run: _Run) -> SuiteSource:
    source = read_yaml(path)
    if not isinstance(source.value, dict):
        got = describe_value(source.value)
        hints = {list: " (write `cases:` above the list)", type(None): " (the file is empty)"}
        got += hints.get(type(source.value), "")
        message = f"{_NO_LIST} is missing: expected a mapping with this key, got {got}"
        raise SourceError(path, message, source.line_of())
    cases_key = _cases_key(source)
    own = {key: value for key, value in source.value.items() if key != cases_key}
    return _create_suite(source, cases_key, *_included(source, own), run)


def _cases_key(source: Source) -> str:
    present = [key for key in CASE_LIST_KEYS if key in source.value]
    if len(present) == 1:
        return present[0]
    if present:
        message = f"both {present[0]!r} and {present[1]!r} are there: put the eval cases into one list"
        raise SourceError(source.path, message, source.line_of((present[1],)))
    hint, dataset = _near_list_key(source.value), source.path.with_suffix(".jsonl")
    if not hint and dataset.is_file():
        hint = f" (this is the sidecar of {dataset.name}, which has the cases)"
    raise SourceError(source.path, f"{_NO_LIST} is missing{hint}", source.line_of())


def _near_list_key(header: JsonObject) -> str:
    if isinstance(header.get("targets"), list):
        return " (with the key targets, this is a targets file: --agentv-targets-file names one)"
    if not header.keys().isdisjoint(FOREIGN_KEYS):
        return f" ({_of_other_tool(header)})"
    from pytest_agentv.cases.keys import Suite  # noqa: PLC0415 - imports pydantic
    from pytest_agentv.files.kind_reader import known_keys  # noqa: PLC0415 - imports pydantic

    unknown = (key for key in header if key not in known_keys(Suite) or key == "case")
    hints = ((key, did_you_mean(key, CASE_LIST_KEYS)) for key in unknown)
    return next((f" (instead of {key!r}, {hint})" for key, hint in hints if hint), "")


def tables_of(path: Path) -> Iterator[Path]:
    """Yield the files that the case list of a YAML file names, absolute; none if it is broken."""
    from pytest_agentv.cases.tables import find_table  # noqa: PLC0415 - only for files with tables

    with suppress(SourceError):
        source = read_yaml(path)
        for key in CASE_LIST_KEYS if isinstance(source.value, dict) else ():
            tables = table_spec(source.value.get(key), Place(source, (key,), []))
            for name, place in () if tables is None else tables.names:
                yield from (Path(os.path.normpath(each)) for each in find_table(name, place, path))


def dataset_fault(path: Path) -> Problem:
    """Return the reason why a JSONL file is not a dataset."""
    try:
        first = next(iter(read_jsonl(path).value), None)
    except SourceError as error:
        return Problem(path, error.line, "", str(error).removeprefix(f"{locate(path, error.line)}: "))
    keys = ", ".join(list(first)[:_SHOWN_KEYS]) if first else ""
    got = f"the keys {keys}" if keys else "an empty object" if first == {} else "an empty file"
    return Problem(path, 1, "", f"has no eval cases: expected a JSON object with id and input on each line, got {got}")
