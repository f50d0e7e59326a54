"""An eval file during collection: its header, the entries of its cases, and their places."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.source import LayeredSource, Origins, Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import INPUT_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Problem, UnreadKey
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
    """The keys at file level, including included ones: beside the case list, or in a JSONL file's sidecar.

    Without those that are merged into each entry: `defaults`, and the `case` of a table.
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
    refused: tuple[UnreadKey, ...] = ()
    """Errors of each case: keys of the file that say what is asked or checked and that nobody reads."""
    foreign: UnreadKey | None = None
    """Says instead of all other errors of a case that its file is one of another tool."""
    repeat: int | None = None
    """How many answers its cases are judged by, unless they set it themselves."""
    min_pass_rate: float | None = None
    """The share of these answers that have to pass."""
    variables: JsonObject = field(default_factory=dict)
    """The `vars` of the file."""
    has_template: bool = False
    """Whether the rows of a table fill the template `case`. Otherwise they are complete cases."""
    is_asked: bool = True
    """Whether a target is asked. False if Python code already has the answer of its case."""
    hashed_id: Json = None
    """The id by which its case is hashed; None: its own. Evaluations of a test are numbered as they come."""
    without_effect: Mapping[str, str] = field(default_factory=dict)
    """Keys that its cases may have, but that do nothing there, each with what to do instead."""

    def tags(self, entry: CaseEntry) -> tuple[str, ...]:
        """Return the tags of a case: its file's and its own. Wrong values are reported when the case is loaded."""
        own = entry.value.get("tags") if isinstance(entry.value, dict) else None
        of_file = entry.of_file.get("tags", self.header.get("tags"))
        return () if own is None and of_file is None else tuple(dict.fromkeys((*names_of(of_file), *names_of(own))))

    def header_of(self, entry: CaseEntry) -> JsonObject:
        """Return the header, with the variables of a case filled into its keys for collection."""
        return {**self.header, **entry.of_file} if entry.of_file else self.header

    def case_place(self, entry: CaseEntry, problems: list[Problem]) -> Place:
        source, keys, row = self.source, (*list_keys(self.cases_key), entry.index), None
        if entry.row is not None and self.has_template:
            keys, row = ("case",), entry.row.where
        elif entry.row is not None:
            source, keys = entry.row.source
            row = source.row
        origins = {**entry.origins, **self._prompt_origins(entry)}
        if row or origins:
            source = LayeredSource(source, keys, origins, row)
        return Place(source, keys, problems)

    def _prompt_origins(self, entry: CaseEntry) -> Origins:
        """Return the place of the input that a matrix gives to a case."""
        combination = entry.combination
        if combination is None or combination.prompt is None:
            return {}
        origin = self.header_source, ("matrix", "prompt", combination.prompt_index)
        return {(INPUT_KEYS[0],): origin, (INPUT_KEYS[0], "file"): origin}

    def target_of(self, entry: CaseEntry | None) -> str | None:
        """Return the target of a case that cannot be loaded, as far as it is known.

        Its result needs the target, so that the result of the mended case replaces it.
        """
        if entry is None:
            return self.target
        if entry.combination is not None and entry.combination.target is not None:
            return entry.combination.target
        return _own_target(entry.value) or self.target

    def variables_of(self, entry: CaseEntry) -> JsonObject | None:
        """Return the variables of a case: of its file, its own, and the columns of its row. None: it has none.

        Variables of its combination win, then columns, then the case's own.
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
    """Return the target that a case names; None if it names none, or if variables must fill it first."""
    case = value if isinstance(value, dict) else {}
    execution = case.get("execution")
    of_execution = execution.get("target") if isinstance(execution, dict) else None
    named = (each.strip() for each in (of_execution, case.get("target")) if isinstance(each, str))
    return next((each for each in named if each and "{{" not in each), None)


def names_of(value: Json) -> tuple[str, ...]:
    """Return the texts of a key with a text or a list of texts. Skips empty ones, as in empty cells."""
    names = value if isinstance(value, list) else [value]
    return tuple(name for name in names if isinstance(name, str) and name.strip())


def list_keys(cases_key: str | None) -> KeyPath:
    """Return the path of the case list in its file."""
    return () if cases_key is None else (cases_key,)
