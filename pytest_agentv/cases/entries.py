"""An eval file during collection: its header, the entries of its cases, the rows of its tables, and their places."""

import hashlib
import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pytest_agentv.errors import AgentvError, locate, name_below
from pytest_agentv.files.places import INPUT_KEYS, Layer, Place, inherit
from pytest_agentv.files.problems import Problem, UnreadKey, describe_value
from pytest_agentv.files.source import KeyPath, LayeredSource, Origins, Source, source_of_line
from pytest_agentv.model.base import Json, JsonObject, mapping

# A row of a table, with its place.


@dataclass(frozen=True, slots=True)
class RowSource:
    """A file or a function that provides rows."""

    path: Path
    """The file. For a function, its own file or the folder of the eval file."""
    function: str | None = None
    """The function's name as written: `cases.py:make`."""
    has_lines: bool = True
    """Whether the number of a row is a line of the file."""
    source: Source | None = None
    """The values of a YAML file, for the places of faults in a row."""
    list_keys: KeyPath = ()
    """The path of the list of rows in `source`."""
    problems: list[Problem] = field(default_factory=list)
    """Warnings about the table, for example about cells that are not read."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a mapping of its columns, or the fault that prevented reading it."""

    table: RowSource
    number: int
    """The number of its first line or, without lines, its position; 1-based."""
    index: int
    """Its position among the rows, 0-based."""
    values: JsonObject
    fault: str | None = None

    @property
    def line(self) -> int | None:
        return self.number if self.table.has_lines else None

    @property
    def where(self) -> str:
        """The place to show: `questions.csv:17`, or `cases.py:make, row 17`."""
        name = self.table.function or locate(self.table.path, self.line)
        return name if self.table.has_lines else f"{name}, row {self.number}"

    def shown_from(self, root: Path) -> str:
        """Return the place like `where`, but relative to a parent folder."""
        name = self.table.function or name_below(self.table.path, root)
        return f"{name}:{self.number}" if self.table.has_lines else f"{name}, row {self.number}"

    def source(self) -> tuple[Source, KeyPath]:
        """Return the source of the row's values, and their path in it. All of them are on its line."""
        if self.table.source is not None:
            return self.table.source, (*self.table.list_keys, self.index)
        source = source_of_line(self.table.path, self.values, self.number)
        source.row = None if self.table.has_lines else self.where
        source.has_lines = self.table.has_lines
        return source, (self.index,)


def row_of(table: RowSource, number: int, index: int, value: Json) -> Row:
    """Return the row of a value. A value that is not a mapping becomes a row with a fault."""
    if isinstance(value, dict):
        return Row(table, number, index, value)
    return Row(table, number, index, {}, f"expected a row: a mapping of columns to values, got {describe_value(value)}")


# Names of tables: files by their suffixes, and functions.

CallFunction: TypeAlias = Callable[[str, Path], Iterable[object]]
"""Calls a function without arguments, by its name and the folder of the eval file. Returns its rows.

Raises `AgentvError`.
"""

SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".yaml", ".yml")
_FUNCTION: Final = re.compile(r"[^:*?\[\]{}]+\.py:\w+|[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names_a_table(name: str) -> bool:
    """Whether a text can only be the name of a table, by its suffix, or of a function."""
    return name.lower().endswith(SUFFIXES) or is_function(name)


def is_function(name: str) -> bool:
    """Whether a text is `file.py:function` or `package.module:function`."""
    return _FUNCTION.fullmatch(name) is not None


def no_functions(name: str, folder: Path) -> Iterable[object]:  # noqa: ARG001 - used where no project code may run
    """Raise `AgentvError`, because no function may be called here."""
    raise AgentvError(f"{name}: functions are not called here")


# The entries of a case list and the rows of tables, with the facts that collection needs.

COLLECTED_KEYS: Final = ("marks", "skip", "xfail", "fixtures", "tags")
"""The keys of a case for collection."""

_NOWHERE: Final[Origins] = {}
_NO_KEYS: Final[JsonObject] = {}
_unpacked: Final = lru_cache(maxsize=16)(marshal.loads)
"""The values of recently used cases."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One value of each axis."""

    name: str
    """The suffix of its items' names: `claude-formal`."""
    kind: str
    """The suffix without the target, which results hold under a key of its own."""
    target: str | None = None
    prompt: str | None = None
    """The file of the prompt; None: cases have prompts of their own."""
    prompt_index: int = 0
    """Its position among the prompts of the matrix."""
    variables: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """One unchecked entry of a case list."""

    index: int
    eval_id: str | None
    """None: the entry has no valid id, so loading it will fail."""
    line: int
    """The line in the eval file. For a row, the line of its template or of the table's name."""
    written: Json
    """The value. That of JSONL is packed into bytes, which take a fifth of its memory. Parts of YAML may be shared."""
    row: Row | None = None
    """The row of a table that it was made from."""
    fault: Problem | None = None
    """Why it cannot be loaded."""
    origins: Origins = field(default_factory=lambda: _NOWHERE)
    """The places of values that come from `defaults`."""
    combination: Combination | None = None
    """The target, variables and prompt from a matrix."""
    of_file: JsonObject = field(default_factory=lambda: _NO_KEYS)
    """The keys of its file for collection that hold templates, with the case's variables filled in."""

    @property
    def value(self) -> Json:
        """Return the entry as written, with the `defaults` of its file."""
        return _unpacked(self.written) if type(self.written) is bytes else self.written

    @property
    def ids(self) -> tuple[str | None, ...]:
        """Return the ids by which options may select it, with and without its combination."""
        if self.eval_id is None or self.combination is None:
            return (self.eval_id,)
        return self.eval_id, self.eval_id.removesuffix(f"@{self.combination.kind}")

    @property
    def base_name(self) -> str | None:
        """Return the name of the item, before it is made unique; None: it has none."""
        base = self.eval_id
        if base is None and self.row is not None:
            base = f"row-{self.row.number}"
        if base is None or self.combination is None:
            return base
        return f"{base.removesuffix(f'@{self.combination.kind}')}@{self.combination.name}"

    def combined(self, combination: Combination) -> "CaseEntry":
        """Return the entry for a combination. Other variables and prompts change its id."""
        is_named = self.eval_id is not None and combination.kind
        eval_id = f"{self.eval_id}@{combination.kind}" if is_named else self.eval_id
        return replace(self, eval_id=eval_id, combination=combination)


class FileKeys(NamedTuple):
    """The keys of a file that apply to all its cases."""

    variables: JsonObject
    defaults: Layer | None
    template: Layer | None
    """The template for each row of a table; None: rows are complete cases."""


class TableSpec(NamedTuple):
    """The tables of a case list."""

    names: tuple[tuple[str, Place], ...]
    sample: int | None = None
    seed: int = 0


def table_spec(value: Json, place: Place) -> TableSpec | None:
    """Return the tables of a case list; None if it is a list of cases. Notes faults."""
    if isinstance(value, dict) and "from" in value:
        names = tuple(_names(value["from"], place.at("from")))
        if len(value) == 1:
            return TableSpec(names)
        from pytest_agentv.cases.keys import read_table  # noqa: PLC0415 - imports pydantic

        keys = read_table(value, place)
        return TableSpec(names) if keys is None else TableSpec(names, keys.sample, keys.seed or 0)
    if isinstance(value, str):
        return TableSpec(((value, place),)) if names_a_table(value) else None
    if isinstance(value, list) and all(isinstance(name, str) for name in value) and any(map(names_a_table, value)):
        return TableSpec(tuple(_names(value, place)))
    return None


def _names(value: Json, place: Place) -> Iterator[tuple[str, Place]]:
    listed = [(each, place.at(index)) for index, each in enumerate(value)] if isinstance(value, list) else []
    for name, where in listed or [(value, place)]:
        if isinstance(name, str) and name.strip():
            yield name, where
        else:
            where.expected("the name of a file, a glob, or file.py:function", name)


def list_entries(place: Place, cases: Sequence[Json], defaults: Layer | None) -> tuple[CaseEntry, ...]:
    """Return the entries of a case list in the eval file."""
    source, keys = place.source, place.keys
    if defaults is None and source.tells_case_by_line:
        return tuple(
            CaseEntry(index, valid_id(value), source.line_of((*keys, index)), marshal.dumps(value))
            for index, value in enumerate(cases)
        )
    entries = []
    for index, written in enumerate(cases):
        value, origins = with_defaults(written, defaults)
        entries.append(CaseEntry(index, valid_id(value), source.line_of((*keys, index)), value, origins=origins))
    return tuple(entries)


def with_defaults(value: Json, defaults: Layer | None) -> tuple[Json, Origins]:
    """Return a case with the defaults of its file, and the places of these."""
    return (value, _NOWHERE) if defaults is None or not isinstance(value, dict) else inherit(value, defaults)


def valid_id(value: Json) -> str | None:
    """Return the id of a case as written; None if it has no valid one."""
    eval_id = mapping(value).get("id")
    return eval_id if isinstance(eval_id, str) and eval_id.strip() else None


# An eval file during collection: its header, the entries of its cases, and their places.


@dataclass(frozen=True, slots=True)
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
    problems: tuple[Problem, ...]
    """Warnings about the file as a whole."""
    foreign: UnreadKey | None = None
    """Says instead of all other errors of a case that its file is one of another tool."""
    variables: JsonObject = field(default_factory=dict)
    """The `vars` of the file."""
    has_template: bool = False
    """Whether the rows of a table fill the template `case`. Otherwise they are complete cases."""
    has_braces: bool = False
    """Whether its texts hold braces of templates. False if no text of it does, or if Python code made its case."""
    is_asked: bool = True
    """Whether a target is asked. False if Python code already has the answer of its case."""
    without_effect: Mapping[str, str] = field(default_factory=dict)
    """Keys that its cases may have, but that do nothing there, each with what to do instead."""

    def tags(self, entry: CaseEntry) -> tuple[str, ...]:
        """Return the tags of a case: its file's and its own. Wrong values are reported when the case is loaded."""
        own = mapping(entry.value).get("tags")
        of_file = entry.of_file.get("tags", self.header.get("tags"))
        return () if own is None and of_file is None else tuple(dict.fromkeys((*names_of(of_file), *names_of(own))))

    def header_of(self, entry: CaseEntry) -> JsonObject:
        """Return the header, with the variables of a case filled into its keys for collection."""
        return {**self.header, **entry.of_file} if entry.of_file else self.header

    def case_place(self, entry: CaseEntry, problems: list[Problem]) -> Place:
        source, row = self.source, None
        keys: KeyPath = (entry.index,) if self.cases_key is None else (self.cases_key, entry.index)
        if entry.row is not None and self.has_template:
            keys, row = ("case",), entry.row.where
        elif entry.row is not None:
            source, keys = entry.row.source()
            row = source.row
        origins = {**entry.origins}
        combination = entry.combination
        if combination is not None and combination.prompt is not None:
            of_prompt = self.header_source, ("matrix", "prompt", combination.prompt_index)
            origins |= {(INPUT_KEYS[0],): of_prompt, (INPUT_KEYS[0], "file"): of_prompt}
        if row or origins:
            source = LayeredSource(source, keys, origins, row)
        return Place(source, keys, problems)

    def target_of(self, entry: CaseEntry | None) -> str | None:
        """Return the target of a case that cannot be loaded: the result of the mended case replaces its own."""
        if entry is None:
            return self.target
        if entry.combination is not None and entry.combination.target is not None:
            return entry.combination.target
        case = mapping(entry.value)
        written = mapping(case.get("execution")).get("target"), case.get("target")
        named = (each.strip() for each in written if isinstance(each, str))
        return next((each for each in named if each and "{{" not in each), self.target)  # braces must be filled first

    def variables_of(self, entry: CaseEntry) -> JsonObject | None:
        """Return the variables of a case: of its file, its own, and the columns of its row. None: it has none.

        Variables of its combination win, then columns, then the case's own.
        """
        own = mapping(entry.value).get("vars")
        columns = entry.row.values if entry.row is not None and self.has_template else None
        combined = {} if entry.combination is None else entry.combination.variables
        if columns is None and not isinstance(own, dict) and not self.variables and not combined:
            return None
        return {**self.variables, **mapping(own), **(columns or {}), **combined}

    def header_place(self, problems: list[Problem], row: str | None = None) -> Place:
        """Return the place of the header. Errors name `row`, if one fills it."""
        source = LayeredSource(self.header_source, (), {}, row) if row else self.header_source
        return Place(source, (), problems)


def names_of(value: Json) -> tuple[str, ...]:
    """Return the texts of a key with a text or a list of texts. Skips empty ones, as in empty cells."""
    names = value if isinstance(value, list) else [value]
    return tuple(name for name in names if isinstance(name, str) and name.strip())


# Samples of cases, always the same ones.


def sample(names: Sequence[str], size: int, seed: int = 0) -> frozenset[int]:
    """Return the positions of `size` names, chosen by their hashes: another name changes at most one of them."""
    seeded = (f"{seed}:{name}".encode("utf-8", "surrogatepass") for name in names)
    draws = [hashlib.blake2b(each, digest_size=16).digest() for each in seeded]
    return frozenset(sorted(range(len(names)), key=lambda index: (draws[index], index))[:size])
