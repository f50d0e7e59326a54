"""Reads eval files for collection: the ids and lines of their cases. The cases are loaded later."""

import os
from pathlib import Path
from typing import Final

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.loading.files.source import Source, read_jsonl, read_yaml
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import (
    CASE_LIST_KEYS,
    EXECUTION_KEYS,
    HEADER_KEYS,
    threshold_at,
    warn_of_evaluator_word,
)
from pytest_agentv.loading.places import Place, first_key, mapping_at, text_at, warn_of_unknown_keys
from pytest_agentv.loading.problems import Problem, describe_value, did_you_mean, with_problems
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record

_NO_LIST: Final = "has no list of cases: evalcases"
_SHOWN_KEYS: Final = 8


@record
class CaseEntry:
    """One unchecked entry of a case list."""

    index: int
    eval_id: str | None
    """None: the entry has no valid id, so loading it will fail."""
    line: int
    value: Json


@record
class SuiteSource:
    """An eval file whose cases are not loaded yet."""

    path: Path
    """Absolute."""
    dataset: str
    entries: tuple[CaseEntry, ...]
    header: JsonObject
    """The keys at file level: those beside the case list, or those of a JSONL file's sidecar."""
    source: Source
    """The source of the cases."""
    header_source: Source
    """The source of the header: the sidecar if a JSONL file has one."""
    cases_key: str | None
    """The key of the case list; None in a JSONL file."""
    target: str | None
    threshold: float | None
    problems: tuple[Problem, ...]
    """Warnings about the file as a whole."""

    def case_place(self, entry: CaseEntry, problems: list[Problem]) -> Place:
        return Place(self.source, (*_list_keys(self.cases_key), entry.index), problems)

    def header_place(self, problems: list[Problem]) -> Place:
        return Place(self.header_source, (), problems)


def read_suite(path: Path) -> SuiteSource:
    """Read an eval file: `.yaml`, `.yml`, or `.jsonl` with its sidecar.

    Raises `SourceError` if the whole file is unusable. Faults of single cases show when the cases are loaded.
    Source: agentv-formats 1.2 and 2.
    """
    path = Path(os.path.normpath(path.absolute()))
    if path.suffix == ".jsonl":
        return _read_jsonl_suite(path)
    if path.suffix in {".yaml", ".yml"}:
        return _read_yaml_suite(path)
    raise SourceError(path, "is not an eval file: expected a name that ends in .yaml, .yml or .jsonl")


def dataset_fault(path: Path) -> Problem:
    """Return the reason why a JSONL file is not a dataset."""
    try:
        first = next(iter(read_jsonl(path).value), None)
    except SourceError as error:
        return Problem(path, error.line, "", str(error).removeprefix(f"{locate(path, error.line)}: "))
    keys = ", ".join(list(first)[:_SHOWN_KEYS]) if first else ""
    got = f"the keys {keys}" if keys else "an empty object" if first == {} else "an empty file"
    return Problem(path, 1, "", f"has no eval cases: expected a JSON object with id and input on each line, got {got}")


def find_sidecar(path: Path) -> Path | None:
    """Return the file beside a JSONL file, of the same name but ending in .yaml or .yml."""
    sidecars = (path.with_suffix(suffix) for suffix in (".yaml", ".yml"))
    return next((sidecar for sidecar in sidecars if sidecar.is_file()), None)


def _read_yaml_suite(path: Path) -> SuiteSource:
    source = read_yaml(path)
    if not isinstance(source.value, dict):
        got = describe_value(source.value)
        message = f"{_NO_LIST} is missing: expected a mapping with this key, got {got}"
        raise SourceError(path, message, source.line_of())
    cases_key = _cases_key(source)
    cases = source.value[cases_key]
    if not isinstance(cases, list):
        message = f"{cases_key}: expected a list of eval cases, got {describe_value(cases)}"
        raise SourceError(path, message, source.line_of((cases_key,)))
    header = {key: value for key, value in source.value.items() if key != cases_key}
    return _create_suite(source, cases_key, header, source)


def _cases_key(source: Source) -> str:
    present = [key for key in CASE_LIST_KEYS if key in source.value]
    if len(present) == 1:
        return present[0]
    if present:
        message = f"both {present[0]!r} and {present[1]!r} are there: put the eval cases into one list"
        raise SourceError(source.path, message, source.line_of((present[1],)))
    message = f"{_NO_LIST} is missing{_near_list_key(source.value)}"
    raise SourceError(source.path, message, source.line_of())


def _near_list_key(header: JsonObject) -> str:
    unknown = (key for key in header if key not in HEADER_KEYS)
    hints = ((key, did_you_mean(key, CASE_LIST_KEYS)) for key in unknown)
    return next((f" (instead of {key!r}, {hint})" for key, hint in hints if hint), "")


def _read_jsonl_suite(path: Path) -> SuiteSource:
    source = read_jsonl(path)
    sidecar = _read_sidecar(path)
    return _create_suite(source, None, sidecar.value if sidecar else {}, sidecar or source)


def _read_sidecar(path: Path) -> Source | None:
    """Read the sidecar of a JSONL file. A file with its own case list is an eval file and not a sidecar."""
    sidecar_path = find_sidecar(path)
    if sidecar_path is None:
        return None
    sidecar = read_yaml(sidecar_path)
    if not isinstance(sidecar.value, dict):
        message = f"expected a mapping of file-level keys for {path.name}, got {describe_value(sidecar.value)}"
        raise SourceError(sidecar_path, message, sidecar.line_of())
    return None if first_key(sidecar.value, CASE_LIST_KEYS) else sidecar


def _create_suite(source: Source, cases_key: str | None, header: JsonObject, header_source: Source) -> SuiteSource:
    problems: list[Problem] = []
    place = Place(header_source, (), problems)
    execution, execution_place = mapping_at(header, "execution", place), place.at("execution")
    targets = (text_at(execution, "target", execution_place), text_at(header, "target", place))
    thresholds = (threshold_at(header, place), threshold_at(execution, execution_place))
    dataset = text_at(header, "dataset", place) or source.path.stem
    warn_of_unknown_keys(header, HEADER_KEYS, place)
    warn_of_unknown_keys(execution, EXECUTION_KEYS, execution_place)
    warn_of_evaluator_word(header, place)
    entries = _create_entries(Place(source, _list_keys(cases_key), problems))
    _raise_errors(problems)
    return SuiteSource(
        path=source.path,
        dataset=dataset,
        entries=entries,
        header=header,
        source=source,
        header_source=header_source,
        cases_key=cases_key,
        target=next(filter(None, targets), None),
        threshold=next((threshold for threshold in thresholds if threshold is not None), None),
        problems=tuple(problems),
    )


def _create_entries(place: Place) -> tuple[CaseEntry, ...]:
    source, keys = place.source, place.keys
    cases = source.value[keys[0]] if keys else source.value
    entries = tuple(
        CaseEntry(index, _eval_id(value), source.line_of((*keys, index)), value) for index, value in enumerate(cases)
    )
    if not entries:
        place.warn("no eval cases in this file")
    _warn_of_duplicates(entries, place)
    return entries


def _eval_id(value: Json) -> str | None:
    eval_id = value.get("id") if isinstance(value, dict) else None
    return eval_id if isinstance(eval_id, str) and eval_id.strip() else None


def _warn_of_duplicates(entries: tuple[CaseEntry, ...], place: Place) -> None:
    first: dict[str, CaseEntry] = {}
    for entry in entries:
        if entry.eval_id is not None and first.setdefault(entry.eval_id, entry) is not entry:
            line = first[entry.eval_id].line
            place.at(entry.index).warn(f"the id {entry.eval_id!r} is used twice, first in line {line}")


def _list_keys(cases_key: str | None) -> KeyPath:
    return () if cases_key is None else (cases_key,)


def _raise_errors(problems: list[Problem]) -> None:
    """Raise one error that names all faults."""
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first, *rest = errors
        text = str(first).removeprefix(f"{locate(first.path, first.line)}: ")
        raise with_problems(SourceError(first.path, "\n".join([text, *map(str, rest)]), first.line), problems)
