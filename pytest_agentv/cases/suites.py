"""Reads eval files for collection: the ids and lines of their cases, which are loaded later."""

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_agentv.cases.discovery import find_sidecar
from pytest_agentv.cases.entries import (
    COLLECTED_KEYS,
    CallFunction,
    CaseEntry,
    Combination,
    FileKeys,
    SuiteSource,
    list_entries,
    no_functions,
    table_spec,
)
from pytest_agentv.cases.tables import find_table, row_entries
from pytest_agentv.cases.variables import as_text, fill, has_template
from pytest_agentv.errors import SourceError
from pytest_agentv.files.places import (
    CASE_LIST_KEYS,
    FOREIGN_KEYS,
    INPUT_KEYS,
    Layer,
    Place,
    evaluator_lists,
    first_key,
    instead_of_key,
    is_refused,
    mapping_at,
    takes_place,
    with_includes,
)
from pytest_agentv.files.problems import Problem, UnreadKey, describe_value, did_you_mean, raise_errors
from pytest_agentv.files.source import KeyPath, LayeredSource, Source, read_jsonl, read_yaml
from pytest_agentv.model.base import Json, JsonObject, mapping, text_or_none

_NO_LIST: Final = f"has no list of cases: {CASE_LIST_KEYS[0]}"
_SHOWN_KEYS: Final = 8
_TAGS: Final = ("{{", "{%", "{#")
"""The beginnings of what a template fills, runs and leaves out."""
_OF_ENTRIES: Final = frozenset({"defaults", "case", "include", "vars", "matrix"})
"""Keys of a file that are merged into its entries."""


def read_suite(
    path: Path,
    call: CallFunction = no_functions,
    targets: Sequence[str] = (),
) -> SuiteSource:
    """Read an eval file: `.yaml`, `.yml`, or `.jsonl` with its sidecar.

    `call` calls functions that make rows. `targets` are those of the command line.

    Raises `SourceError` if the whole file is unusable. Faults of single cases show when the cases are loaded.
    Source: agentv-formats 1.2 and 2.
    """
    path = Path(os.path.normpath(path.absolute()))
    if path.suffix == ".jsonl":
        return _read_jsonl_suite(path, targets)
    if path.suffix in {".yaml", ".yml"}:
        return _read_yaml_suite(path, call, targets)
    raise SourceError(path, "is not an eval file: expected a name that ends in .yaml, .yml or .jsonl")


def _read_jsonl_suite(path: Path, targets: Sequence[str]) -> SuiteSource:
    source = read_jsonl(path)
    sidecar = _read_sidecar(path)
    header, header_source = with_includes(sidecar, sidecar.value) if sidecar else ({}, source)
    suite = _create_suite(source, None, header, header_source, call=no_functions, targets=targets)
    source.value, source.text = None, ""  # the entries have the values, which take most of the memory
    return suite


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


def _create_suite(
    source: Source,
    cases_key: str | None,
    header: JsonObject,
    header_source: Source,
    *,
    call: CallFunction,
    targets: Sequence[str],
) -> SuiteSource:
    problems = list(dict.fromkeys([*source.warnings, *header_source.warnings]))
    place = Place(header_source, (), problems)
    shared = _shared(header, place)
    foreign = _foreign(header, place)
    cases_place = Place(source, () if cases_key is None else (cases_key,), problems)
    cases = source.value if cases_key is None else source.value[cases_key]
    tables = table_spec(cases, cases_place)
    raise_errors(problems, SourceError)
    entries: tuple[CaseEntry, ...]
    if tables is not None:
        entries = row_entries(tables, cases_place, shared, call)
    else:
        entries = _listed(cases, cases_place, shared)
    if not entries and not any(each.level == "error" for each in problems):
        cases_place.warn("no eval cases in this file" if tables is None else "the table has no rows")
    if foreign is not None and any(each.level == "error" for each in problems):  # it may name tests as file://…
        raise_errors([foreign], SourceError)
    entries = _combined(entries, header, (place, cases_place), targets)
    raise_errors(problems, SourceError)
    has_template = tables is not None and shared.template is not None
    for of_file, value in evaluator_lists(header)[:1]:
        if value and entries and all(takes_place(mapping(entry.value)) for entry in entries):
            what = "applies to no case: each has `skip_defaults`, or a list `evaluators`, which replaces this one"
            place.at(*of_file).warn(what, "call the lists of the cases `assert`")
    named = (mapping(header.get("execution")).get("target"), header.get("target"))  # the loader notes wrong values
    suite = SuiteSource(
        path=source.path,
        dataset=(text_or_none(header.get("dataset")) or "").strip() or source.path.stem,
        entries=entries,
        header={key: value for key, value in header.items() if key not in _OF_ENTRIES},
        source=source,
        header_source=header_source,
        cases_key=cases_key,
        target=next((each.strip() for each in named if isinstance(each, str) and each.strip()), None),
        problems=tuple(problems),
        foreign=foreign,
        variables=shared.variables,
        has_template=has_template,
    )
    rows_are_cases = tables is not None and not has_template  # their templates are in the tables
    has_more = rows_are_cases or isinstance(header_source, LayeredSource)  # texts of other files
    if not has_more and not any(tag in text for text in (source.text, header_source.text) for tag in _TAGS):
        return suite
    return replace(suite, entries=tuple(_filled_entries(suite)), has_braces=True)


def _shared(header: JsonObject, place: Place) -> FileKeys:
    defaults, template = mapping_at(header, "defaults", place), mapping_at(header, "case", place)
    if "id" in defaults:
        place.at("defaults", "id").error("each case needs an id of its own")
    if isinstance(header.get("case"), dict) and template.get("id") is None:
        place.at("case", "id").error("is missing: expected a text that names each row, such as q-{{ number }}")
    return FileKeys(
        variables=mapping_at(header, "vars", place),
        defaults=Layer(defaults, place.source, ("defaults",)) if defaults else None,
        template=None if header.get("case") is None else Layer(template, place.source, ("case",)),
    )


def _foreign(header: JsonObject, place: Place) -> UnreadKey | None:
    """Return the error of all cases if the file is one of another tool."""
    key = first_key(header, FOREIGN_KEYS)
    if key is None:
        return None
    hints = "; ".join(f"{each}: {instead_of_key(each)}" for each in header if is_refused(each, header[each]))
    where = place.at(key)
    return UnreadKey(where.path, where.line, where.key, _of_other_tool(header), hints)


def _of_other_tool(header: JsonObject) -> str:
    """Return which tool a file with some of `FOREIGN_KEYS` belongs to, and which page shows the same here."""
    providers = header.get("providers")
    listed = providers if isinstance(providers, list) else [providers]
    ids = [each.get("id", each) if isinstance(each, dict) else each for each in listed]
    is_promptfoo = any(key != key.lower() for key in header) or any(":" in str(each) for each in ids)
    tool, section = ("promptfoo", "from-promptfoo") if is_promptfoo else ("AgentV 5", "from-agentv-5")
    return f"this is a file of {tool}, which is not read: docs/coming-from.md#{section} shows the same here"


def _listed(cases: Json, place: Place, shared: FileKeys) -> tuple[CaseEntry, ...]:
    if not isinstance(cases, list):
        hint = None
        if cases and isinstance(cases, dict):
            hint = "put `- ` before its first key" if "id" in cases else "or `from:` with the file of a table"
            if "from" not in cases and all(isinstance(case, dict) for case in cases.values()):
                hint = "write each as an entry of a list: `- id: ` and its name"
        place.expected("a list of eval cases", cases, hint)
        return ()
    entries = list_entries(place, cases, shared.defaults)
    first: dict[str, CaseEntry] = {}
    for entry in entries:
        if entry.eval_id is not None and first.setdefault(entry.eval_id, entry) is not entry:
            line = first[entry.eval_id].line
            place.at(entry.index).warn(f"the id {entry.eval_id!r} is used twice, first in line {line}")
    if shared.template is not None:
        of_template = Place(shared.template.source, shared.template.keys, place.problems)
        of_template.warn("is not read: the cases are in this file, not in a table")
    return entries


def _read_yaml_suite(path: Path, call: CallFunction, targets: Sequence[str]) -> SuiteSource:
    source = read_yaml(path)
    if not isinstance(source.value, dict):
        got = describe_value(source.value)
        hints = {list: " (write `cases:` above the list)", type(None): " (the file is empty)"}
        got += hints.get(type(source.value), "")
        message = f"{_NO_LIST} is missing: expected a mapping with this key, got {got}"
        raise SourceError(path, message, source.line_of())
    cases_key = _cases_key(source)
    own = {key: value for key, value in source.value.items() if key != cases_key}
    return _create_suite(source, cases_key, *with_includes(source, own), call=call, targets=targets)


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
    unknown = (key for key in header if key not in ("evaluators", "targets"))
    hints = ((key, did_you_mean(key, CASE_LIST_KEYS)) for key in unknown)
    return next((f" (instead of {key!r}, {hint})" for key, hint in hints if hint), "")


def tables_of(path: Path) -> Iterator[Path]:
    """Yield the files that the case list of a YAML file names, absolute; none if it is broken."""
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
        return Problem(path, error.line, "", error.reason)
    keys = ", ".join(list(first)[:_SHOWN_KEYS]) if first else ""
    got = f"the keys {keys}" if keys else "an empty object" if first == {} else "an empty file"
    return Problem(path, 1, "", f"has no eval cases: expected a JSON object with id and input on each line, got {got}")


# All combinations of a matrix.

_TARGET: Final = "target"
_PROMPT: Final = "prompt"
_OVERRULED: Final[Mapping[str, Sequence[KeyPath]]] = {
    _TARGET: ((_TARGET,), ("execution", _TARGET)),
    _PROMPT: tuple((key,) for key in INPUT_KEYS),
}
"""The keys of a case that a matrix takes the place of."""
_PLURALS: Final = {"targets": _TARGET, "prompts": _PROMPT}


class _Axis(NamedTuple):
    """The values of a target, a prompt or a variable."""

    key: str
    values: Sequence[Json]


def _combined(
    entries: tuple[CaseEntry, ...], header: JsonObject, places: tuple[Place, Place], targets: Sequence[str]
) -> tuple[CaseEntry, ...]:
    """Return the entries of all combinations; the same entries if there are none. Notes faults.

    `places` are those of the header and of the cases. `targets` are those of the command line: they replace the file's,
    and several of them form an axis.
    """
    axes = _read_axes(header, places)
    has_own = any(axis.key == _TARGET for axis in axes)
    _warn_of_own_values(entries, [axis for axis in axes if not targets or axis.key != _TARGET], places[1])
    if targets and (len(targets) > 1 or has_own):
        given = _Axis(_TARGET, targets)
        axes = [given if axis.key == _TARGET else axis for axis in axes] if has_own else [given, *axes]
    if not axes:
        return entries
    found = [_combination(axes, values) for values in itertools.product(*(enumerate(axis.values) for axis in axes))]
    twice = next((name for name, count in Counter(each.name for each in found).items() if count > 1), None)
    if twice is not None:
        message = f"several combinations have the name {twice!r}"
        places[0].at("matrix").error(message, "change one of their values")
    return tuple(entry.combined(each) for entry in entries for each in found)


def _combination(axes: Sequence[_Axis], values: Sequence[tuple[int, Json]]) -> Combination:
    chosen = {axis.key: value for axis, (_, value) in zip(axes, values, strict=True)}
    indices = {axis.key: index for axis, (index, _) in zip(axes, values, strict=True)}
    names = {key: _name(key, value, indices[key]) for key, value in chosen.items()}
    return Combination(
        name="-".join(names.values()),
        kind="-".join(name for key, name in names.items() if key != _TARGET),
        target=chosen.pop(_TARGET, None),
        prompt=chosen.pop(_PROMPT, None),
        prompt_index=indices.get(_PROMPT, 0),
        variables=chosen,
    )


def _name(key: str, value: Json, index: int) -> str:
    """Return the name of a value: itself, the stem of a file, or its number."""
    if key == _PROMPT:
        return Path(str(value)).stem
    return str(index + 1) if isinstance(value, list | dict) else as_text(value) or str(index + 1)


def _warn_of_own_values(entries: Sequence[CaseEntry], axes: Sequence[_Axis], place: Place) -> None:
    """Warn of cases whose own target, input or variable is not used, because the matrix sets it."""
    for axis in axes:
        for entry, keys in itertools.product(entries, _OVERRULED.get(axis.key, (("vars", axis.key),))):
            value: Json = entry.value
            for key in keys:
                value = mapping(value).get(str(key))
            is_own = value is not None and not any(keys[: len(known)] == known for known in entry.origins)
            if is_own and entry.row is None:
                place.at(entry.index, *keys).warn("is not read: the file's matrix takes its place")


def _read_axes(header: JsonObject, places: tuple[Place, Place]) -> list[_Axis]:
    """Return the axes of a file, from `matrix` and `execution.targets`. Notes faults."""
    place = places[0]
    axes = []
    targets = mapping(header.get("execution")).get("targets")
    if targets is not None:
        axes.append(_axis(_TARGET, targets, place.at("execution", "targets")))
    for key, values in mapping_at(header, "matrix", place).items():
        where = place.at("matrix", key)
        if key == _TARGET and targets is not None:
            where.error("execution.targets is there as well: keep one")
        elif key in _PLURALS and not any(re.search(rf"\{{\{{[^{{}}]*\b{key}\b", each.source.text) for each in places):
            # the default target would answer for each of them
            where.error(f"would be a variable, and choose no {_PLURALS[key]}", f"did you mean {_PLURALS[key]!r}?")
        else:
            axes.append(_axis(key, values, where))
    return [axis for axis in axes if axis is not None]


def _axis(key: str, values: Json, place: Place) -> _Axis | None:
    if not isinstance(values, list) or not values:
        place.expected("a list of at least one value", values)
        return None
    noted = len(place.problems)
    for index, value in enumerate(values if key in (_TARGET, _PROMPT) else ()):
        if not isinstance(value, str) or not value.strip():
            place.at(index).expected("the name of a target" if key == _TARGET else "the path of a prompt", value)
    return _Axis(key, values) if len(place.problems) == noted else None


# Files with `{{`: the variables that collection needs are filled in.

_REASONS: Final = ("skip", "xfail")
"""Keys for collection that a case has in place of those of its file. It has the others in addition."""


def _filled_entries(suite: SuiteSource) -> Iterator[CaseEntry]:
    """Yield the entries with the variables filled in that collection needs. What cannot be filled is their fault."""
    of_file = {key: suite.header[key] for key in COLLECTED_KEYS if _holds_template(suite.header.get(key))}
    with_own: dict[int, dict[str, Json]] = {}  # the rows of a table share one value
    for entry in suite.entries:
        own = with_own.get(id(entry.written))
        if own is None:
            value = mapping(entry.value)
            own = {key: value[key] for key in COLLECTED_KEYS if key in value and _holds_template(value[key])}
            with_own[id(entry.written)] = own
        yield _filled(suite, entry, own, of_file) if own or of_file else entry


def _holds_template(value: Json) -> bool:
    values: Sequence[Any] = value if isinstance(value, list) else (value,)
    return any(isinstance(each, str) and has_template(each) for each in values)


def _filled(suite: SuiteSource, entry: CaseEntry, own: JsonObject, of_file: JsonObject) -> CaseEntry:
    """Return an entry with the values that hold templates filled: its own, and those of its file."""
    value, variables = mapping(entry.value), suite.variables_of(entry)
    is_readable = isinstance(entry.value, dict) and isinstance(value.get("vars"), dict | None)  # else the loader tells
    if variables is None and is_readable:
        return entry
    problems: list[Problem] = []
    place = suite.case_place(entry, problems)
    read = {key: item for key, item in of_file.items() if key not in value or key not in _REASONS}
    filled = _fill_collected(own, variables or {}, place)
    filled_of_file = _fill_collected(read, variables or {}, suite.header_place(problems, place.source.row))
    return replace(
        entry,
        written={**value, **filled} if filled else entry.written,
        fault=entry.fault or next(iter(problems if is_readable else ()), None),
        of_file=filled_of_file,
    )


def _fill_collected(templates: JsonObject, variables: JsonObject, place: Place) -> JsonObject:
    """Return values for collection, filled. After a fault, no filled ones: such a case is an error, and not skipped."""
    noted = len(place.problems)
    filled: JsonObject = fill(templates, variables, place)
    if len(place.problems) == noted:
        return filled
    return {
        key: [each for each in item if not _holds_template(each)] if isinstance(item, list) else None
        for key, item in templates.items()
    }
