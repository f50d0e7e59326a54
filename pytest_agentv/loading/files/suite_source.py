"""An eval file as collection sees it: its header, the entries of its cases, and where all of it is written."""

from dataclasses import field
from pathlib import Path

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.source import LayeredSource, Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record


@record
class SuiteSource:
    """An eval file whose cases are not loaded yet."""

    path: Path
    """Absolute."""
    dataset: str
    entries: tuple[CaseEntry, ...]
    header: JsonObject
    """The keys at file level: those beside the case list, or those of a JSONL file's sidecar; with included ones.

    Without those that are part of each entry: `defaults`, and the `case` of a table.
    """
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
    repeat: int | None = None
    """How many answers its cases are judged by, where they do not say so themselves."""
    min_pass_rate: float | None = None
    """The share of these answers that have to pass."""
    variables: JsonObject = field(default_factory=dict)
    """The `vars` of the file."""
    has_template: bool = False
    """Whether the rows of a table fill a template, `case`. Else they are cases as they are."""
    is_asked: bool = True
    """Whether targets are asked. False: Python code has the answer of its case."""

    def tags(self, entry: CaseEntry) -> tuple[str, ...]:
        """Return the tags of a case: its file's and its own. Values of wrong types are told when it is loaded."""
        own = entry.value if isinstance(entry.value, dict) else {}
        return tuple(dict.fromkeys((*names_of(self.header.get("tags")), *names_of(own.get("tags")))))

    def case_place(self, entry: CaseEntry, problems: list[Problem]) -> Place:
        source, keys, row = self.source, (*list_keys(self.cases_key), entry.index), None
        if entry.row is not None and self.has_template:
            keys, row = ("case",), entry.row.where
        elif entry.row is not None:
            source, keys = entry.row.source
            row = source.row
        if row or entry.origins:
            source = LayeredSource(source, keys, entry.origins, row)
        return Place(source, keys, problems)

    def target_of(self, entry: CaseEntry | None) -> str | None:
        """Return the target of a case that cannot be loaded, as far as it is known.

        The case's result has it, so that the one of the mended case takes its place.
        """
        if entry is None:
            return self.target
        if entry.combination is not None and entry.combination.target is not None:
            return entry.combination.target
        return _own_target(entry.value) or self.target

    def variables_of(self, entry: CaseEntry) -> JsonObject | None:
        """Return the variables of a case: those of its file, its own, the columns of its row. None: it has none.

        Those of its combination win, then the columns, then those of the case.
        """
        own = entry.value.get("vars") if isinstance(entry.value, dict) else None
        columns = entry.row.values if entry.row is not None and self.has_template else None
        combined = {} if entry.combination is None else entry.combination.variables
        if columns is None and not isinstance(own, dict) and not self.variables and not combined:
            return None
        return {**self.variables, **(own if isinstance(own, dict) else {}), **(columns or {}), **combined}

    def header_place(self, problems: list[Problem], row: str | None = None) -> Place:
        """Return the place of the header. Errors name `row`, if one fills it."""
        source = LayeredSource(self.header_source, (), {}, row) if row else self.header_source
        return Place(source, (), problems)


def _own_target(value: Json) -> str | None:
    """Return the target that a case names; None where it names none, or variables would have to fill it."""
    case = value if isinstance(value, dict) else {}
    execution = case.get("execution")
    of_execution = execution.get("target") if isinstance(execution, dict) else None
    named = (each.strip() for each in (of_execution, case.get("target")) if isinstance(each, str))
    return next((each for each in named if each and "{{" not in each), None)


def names_of(value: Json) -> tuple[str, ...]:
    """Return the texts of a key that holds a text or a list of texts. Empty ones, as of empty cells, are none."""
    names = value if isinstance(value, list) else [value]
    return tuple(name for name in names if isinstance(name, str) and name.strip())


def list_keys(cases_key: str | None) -> KeyPath:
    """Return the path of the case list in its file."""
    return () if cases_key is None else (cases_key,)
