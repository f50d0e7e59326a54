"""The entries of a case list and the rows of tables, with the facts that collection needs."""

import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final, NamedTuple

from pytest_agentv.loading.files.layers import Layer, inherit
from pytest_agentv.loading.files.source import Origins
from pytest_agentv.loading.places import Place, number_at, warn_of_unknown_keys
from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.loading.tables.names import names_a_table
from pytest_agentv.loading.tables.rows import Row
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record

COLLECTED_KEYS: Final = ("marks", "skip", "xfail", "fixtures", "tags")
"""The keys of a case for collection."""

_TABLE_KEYS: Final = ("from", "sample", "seed")
_NOWHERE: Final[Origins] = {}
_NO_KEYS: Final[JsonObject] = {}


@record
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


@record
class CaseEntry:
    """One unchecked entry of a case list."""

    index: int
    eval_id: str | None
    """None: the entry has no valid id, so loading it will fail."""
    line: int
    """The line in the eval file. For a row, the line of its template or of the table's name."""
    written: Json
    """The value, perhaps packed into bytes by `packed`."""
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
        eval_id = self.eval_id
        if eval_id is not None and combination.kind:
            eval_id = f"{eval_id}@{combination.kind}"
        return CaseEntry(self.index, eval_id, self.line, self.written, self.row, self.fault, self.origins, combination)


class Shared(NamedTuple):
    """The keys of a file that apply to all its cases."""

    variables: JsonObject
    defaults: Layer | None
    template: Layer | None
    """The template for each row of a table; None: rows are complete cases."""


@record
class TableSpec:
    """The tables of a case list."""

    names: tuple[tuple[str, Place], ...]
    sample: int | None = None
    seed: int = 0


def table_spec(value: Json, place: Place) -> TableSpec | None:
    """Return the tables of a case list; None if it is a list of cases. Notes faults."""
    if isinstance(value, dict) and "from" in value:
        warn_of_unknown_keys(value, _TABLE_KEYS, place)
        size = _whole_number(value, "sample", place)
        return TableSpec(tuple(_names(value["from"], place.at("from"))), size, _whole_number(value, "seed", place) or 0)
    if isinstance(value, str):
        return TableSpec(((value, place),)) if names_a_table(value) else None
    if isinstance(value, list) and all(isinstance(name, str) for name in value) and any(map(names_a_table, value)):
        return TableSpec(tuple(_names(value, place)))
    return None


def list_entries(place: Place, cases: Sequence[Json], defaults: Layer | None) -> tuple[CaseEntry, ...]:
    """Return the entries of a case list in the eval file."""
    source, keys = place.source, place.keys
    if defaults is None and source.tells_case_by_line:
        return tuple(
            CaseEntry(index, valid_id(value), source.line_of((*keys, index)), packed(value))
            for index, value in enumerate(cases)
        )
    made = (
        (index, source.line_of((*keys, index)), *with_defaults(value, defaults)) for index, value in enumerate(cases)
    )
    return tuple(
        CaseEntry(index, valid_id(value), line, value, origins=origins) for index, line, value, origins in made
    )


def packed(value: Json) -> Json:
    """Return a value as bytes, which take a fifth of its memory, because a file may have 100,000 cases.

    Values of YAML files stay unchanged, because aliases and `defaults` share parts of them among cases.
    """
    try:
        return marshal.dumps(value)
    except ValueError:  # nested too deeply
        return value


_unpacked: Final = lru_cache(maxsize=16)(marshal.loads)
"""The values of recently used cases."""


def with_defaults(value: Json, defaults: Layer | None) -> tuple[Json, Origins]:
    """Return a case with the defaults of its file, and the places of these."""
    return (value, _NOWHERE) if defaults is None or not isinstance(value, dict) else inherit(value, defaults)


def valid_id(value: Json) -> str | None:
    """Return the id of a case as written; None if it has no valid one."""
    eval_id = value.get("id") if isinstance(value, dict) else None
    return eval_id if isinstance(eval_id, str) and eval_id.strip() else None


def _names(value: Json, place: Place) -> Iterator[tuple[str, Place]]:
    listed = [(each, place.at(index)) for index, each in enumerate(value)] if isinstance(value, list) else []
    for name, where in listed or [(value, place)]:
        if isinstance(name, str) and name.strip():
            yield name, where
        else:
            got = describe_value(name)
            where.error(f"expected the name of a file, a glob, or file.py:function, got {got}")


def _whole_number(mapping: Mapping[str, Json], key: str, place: Place) -> int | None:
    number = number_at(mapping, key, place, "a whole number, 0 or more")
    if number is not None and not number.is_integer():
        place.at(key).expected("a whole number, 0 or more", mapping[key])
        return None
    return None if number is None else int(number)
