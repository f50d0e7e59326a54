"""Expands the cases of a file to all combinations of targets, variables and prompts."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.loading.files.entries import CaseEntry, Combination
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import INPUT_KEYS
from pytest_agentv.loading.places import Place, mapping_at
from pytest_agentv.loading.variables.rendering import as_text
from pytest_agentv.models.base import Json, JsonObject

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
    found = _combinations(axes, targets)
    twice = next((name for name, count in Counter(each.name for each in found).items() if count > 1), None)
    if twice is not None:
        place.at("matrix").error(f"several combinations have the name {twice!r}", "change one of their values")
    return tuple(entry.combined(each) for entry in entries for each in found) if found else entries


def warn_of_own_values(entries: Sequence[CaseEntry], axes: Iterable[Axis], place: Place) -> None:
    """Warn of cases whose own target, input or variable is not used, because the matrix sets it.

    `place` is that of the case list.
    """
    for axis in axes:
        said, written = _INSTEAD.get(axis.key, (_TAKES_ITS_PLACE, ((_VARS, axis.key),)))
        for entry, keys in itertools.product(entries, written):
            if _has_own(entry, keys):
                place.at(entry.index, *keys).warn(f"is not read: the {said}")


def _has_own(entry: CaseEntry, keys: KeyPath) -> bool:
    """Whether a case that is no row has a value of its own at some keys, and not one of `defaults`."""
    return entry.row is None and _has_written(entry, keys)


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
        row = next((row for _, row in made if _gives(row.values if has_template else row.values.get(_VARS), key)), None)
        if row is not None:
            what = f"the {'column' if has_template else 'variable'} {key!r} of {row.where} is not read"
            place.at("matrix", key).warn(f"{what}: the {_TAKES_ITS_PLACE}")
        if has_template and made and _has_written(made[0][0], (_VARS, key)):
            place.at("case", _VARS, key).warn(f"is not read: the {_TAKES_ITS_PLACE}")


def _gives(variables: Json, name: str) -> bool:
    """Whether there is a variable with a value. An empty cell is none."""
    return isinstance(variables, dict) and variables.get(name) not in ("", None)


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
        elif key in _PLURALS and not any(_is_used(key, each.source.text) for each in places):
            # the default target would answer for each of them
            where.error(f"would be a variable, and choose no {_PLURALS[key]}", f"did you mean {_PLURALS[key]!r}?")
        else:
            axes.append(_axis(key, values, where))
    return tuple(axis for axis in axes if axis is not None)


def _is_used(variable: str, text: str) -> bool:
    return re.search(rf"\{{\{{[^{{}}]*\b{variable}\b", text) is not None


def _combinations(axes: Sequence[Axis], targets: Sequence[str]) -> tuple[Combination, ...]:
    if targets and (len(targets) > 1 or any(axis.key == TARGET for axis in axes)):
        given = Axis(TARGET, tuple(targets))
        has_own = any(axis.key == TARGET for axis in axes)
        axes = [given if axis.key == TARGET else axis for axis in axes] if has_own else [given, *axes]
    return tuple(_combination(axes, values) for values in _product(axes)) if axes else ()


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


def _product(axes: Iterable[Axis]) -> Iterable[tuple[tuple[int, Json], ...]]:
    return itertools.product(*(enumerate(axis.values) for axis in axes))


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
