"""Expands cases to all combinations, and fills variables for collection. Import this lazily: few files need it."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_agentv.cases.entries import COLLECTED_KEYS, CaseEntry, Combination, SuiteSource
from pytest_agentv.cases.variables import as_text, fill, has_template
from pytest_agentv.files.places import INPUT_KEYS, Place, mapping_at
from pytest_agentv.files.problems import Problem
from pytest_agentv.files.source import KeyPath
from pytest_agentv.model.base import Json, JsonObject

TARGET: Final = "target"
PROMPT: Final = "prompt"
_INSTEAD: Final[Mapping[str, tuple[str, Sequence[KeyPath]]]] = {
    TARGET: ("targets of the file's matrix are asked", ((TARGET,), ("execution", TARGET))),
    PROMPT: ("prompts of the file's matrix are sent", tuple((key,) for key in INPUT_KEYS)),
}
"""What takes the place of keys of a case, and these keys."""
_VARS: Final = "vars"
_TAKES_ITS_PLACE: Final = "variable of the matrix takes its place"
_PLURALS: Final = {"targets": TARGET, "prompts": PROMPT}


class Axis(NamedTuple):
    """The values of a target, a prompt or a variable."""

    key: str
    values: tuple[Json, ...]


def combined_entries(
    entries: tuple[CaseEntry, ...], axes: Sequence[Axis], targets: Sequence[str], place: Place
) -> tuple[CaseEntry, ...]:
    """Return the entries of all combinations; the same entries if there are none.

    `targets` are those of the command line. They replace the file's, and several of them form an axis. `place` is that
    of the file. Notes an error there for combinations with the same name.
    """
    has_own = any(axis.key == TARGET for axis in axes)
    if targets and (len(targets) > 1 or has_own):
        given = Axis(TARGET, tuple(targets))
        axes = [given if axis.key == TARGET else axis for axis in axes] if has_own else [given, *axes]
    if not axes:
        return entries

    found = [_combination(axes, values) for values in itertools.product(*(enumerate(axis.values) for axis in axes))]
    twice = next((name for name, count in Counter(each.name for each in found).items() if count > 1), None)
    if twice is not None:
        place.at("matrix").error(f"several combinations have the name {twice!r}", "change one of their values")
    return tuple(entry.combined(each) for entry in entries for each in found)


def _combination(axes: Sequence[Axis], values: Sequence[tuple[int, Json]]) -> Combination:
    chosen = {axis.key: value for axis, (_, value) in zip(axes, values, strict=True)}
    names = {axis.key: _name(axis.key, value, index) for axis, (index, value) in zip(axes, values, strict=True)}
    return Combination(
        name="-".join(names.values()),
        kind="-".join(name for key, name in names.items() if key != TARGET),
        target=chosen.pop(TARGET, None),
        prompt=chosen.pop(PROMPT, None),
        prompt_index=next((index for axis, (index, _) in zip(axes, values, strict=True) if axis.key == PROMPT), 0),
        variables=chosen,
    )


def _name(key: str, value: Json, index: int) -> str:
    """Return the name of a value: itself, the stem of a file, or its number."""
    if key == PROMPT:
        return Path(str(value)).stem
    return str(index + 1) if isinstance(value, list | dict) else as_text(value) or str(index + 1)


def warn_of_own_values(entries: Sequence[CaseEntry], axes: Iterable[Axis], place: Place) -> None:
    """Warn of cases whose own target, input or variable is not used, because the matrix sets it.

    `place` is that of the case list.
    """
    for axis in axes:
        said, written = _INSTEAD.get(axis.key, (_TAKES_ITS_PLACE, ((_VARS, axis.key),)))
        for entry, keys in itertools.product(entries, written):
            if entry.row is None and _has_written(entry, keys):
                place.at(entry.index, *keys).warn(f"is not read: the {said}")


def _has_written(entry: CaseEntry, keys: KeyPath) -> bool:
    """Whether a case or the template of a row has a value at some keys that does not come from `defaults`."""
    value: Json = entry.value
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None and not any(keys[: len(known)] == known for known in entry.origins)


def warn_of_hidden_variables(
    entries: Iterable[CaseEntry], axes: Sequence[Axis], place: Place, *, has_template: bool
) -> None:
    """Warn of columns and of variables of rows that no case can read, because a variable of the matrix has their name.

    `place` is that of the file. With a template, the columns of the rows are variables, and the template may have some.
    """
    made = [(entry, entry.row) for entry in entries if entry.row is not None]
    for key in (axis.key for axis in axes if axis.key not in _INSTEAD):
        for _, row in made:
            variables = row.values if has_template else row.values.get(_VARS)
            if isinstance(variables, dict) and variables.get(key) not in ("", None):  # an empty cell is none
                what = f"the {'column' if has_template else 'variable'} {key!r} of {row.where} is not read"
                place.at("matrix", key).warn(f"{what}: the {_TAKES_ITS_PLACE}")
                break
        if has_template and made and _has_written(made[0][0], (_VARS, key)):
            place.at("case", _VARS, key).warn(f"is not read: the {_TAKES_ITS_PLACE}")


def read_axes(header: JsonObject, places: tuple[Place, Place]) -> tuple[Axis, ...]:
    """Return the axes of a file, from `matrix` and `execution.targets`. Notes faults.

    `places` are those of the header and of the cases.
    """
    place = places[0]
    axes = []
    execution = header.get("execution")
    targets = execution.get("targets") if isinstance(execution, dict) else None
    if targets is not None:
        axes.append(_axis(TARGET, targets, place.at("execution", "targets")))
    for key, values in mapping_at(header, "matrix", place).items():
        where = place.at("matrix", key)
        if key == TARGET and targets is not None:
            where.error("execution.targets is there as well: keep one")
        elif key in _PLURALS and not any(re.search(rf"\{{\{{[^{{}}]*\b{key}\b", each.source.text) for each in places):
            # the default target would answer for each of them
            where.error(f"would be a variable, and choose no {_PLURALS[key]}", f"did you mean {_PLURALS[key]!r}?")
        else:
            axes.append(_axis(key, values, where))
    return tuple(axis for axis in axes if axis is not None)


def _axis(key: str, values: Json, place: Place) -> Axis | None:
    if not isinstance(values, list) or not values:
        place.expected("a list of at least one value", values)
        return None
    if key in (TARGET, PROMPT):
        for index, value in enumerate(values):
            if not isinstance(value, str) or not value.strip():
                place.at(index).expected("the name of a target" if key == TARGET else "the path of a prompt", value)
                return None
    names = [_name(key, value, index) for index, value in enumerate(values)]
    for index, name in enumerate(names):
        if name in names[:index]:
            place.at(index).error(f"{name!r} is there twice")
            return None
    return Axis(key, tuple(values))


# Files with `{{`: fills the variables that collection needs, and finds braces that stay as they are.

_REASONS: Final = ("skip", "xfail")
"""Keys for collection that a case has in place of those of its file. It has the others in addition."""


def with_braces(suite: SuiteSource) -> SuiteSource:
    """Return a suite with its variables filled in as far as collection needs them."""
    return replace(suite, entries=tuple(_filled_entries(suite)), has_braces=True)


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


def _holds_template(value: Json) -> bool:
    values: Collection[Any] = value if isinstance(value, list) else (value,)
    return any(isinstance(each, str) and has_template(each) for each in values)


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
