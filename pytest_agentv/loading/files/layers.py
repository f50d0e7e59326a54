"""Merges mappings with inherited keys: a file with its included files, a case with its `defaults`."""

from collections.abc import Collection
from typing import Final, NamedTuple

from pytest_agentv.loading.files.source import Origins, Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import (
    EVALUATOR_LIST_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    LEGACY_EVALUATOR_KEYS,
    OUTCOME_KEYS,
)
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject

_MERGED: Final = frozenset({"execution", "vars", "metadata"})
"""Mappings that are merged key by key. Other mappings are replaced as a whole."""
_ALTERNATIVES: Final = (
    EVALUATOR_LIST_KEYS,
    OUTCOME_KEYS,
    INPUT_KEYS,
    EXPECTED_KEYS,
    LEGACY_EVALUATOR_KEYS,
    ("target",),
    ("threshold",),
)
"""Synonymous keys, also within `execution`."""


class Layer(NamedTuple):
    """A mapping to inherit from, with its place."""

    value: JsonObject
    source: Source
    keys: KeyPath = ()

    def place(self, problems: list[Problem]) -> Place:
        return Place(self.source, self.keys, problems)


class Layered(NamedTuple):
    """A mapping with inherited keys, and the places of these."""

    value: dict[str, Json]
    origins: Origins


def inherit(own: JsonObject, elsewhere: Layer, *, deep: Collection[str] = ()) -> Layered:
    """Return a mapping that inherits missing keys from another one. Its own keys win, and null is a value.

    `deep` names keys whose mappings inherit in the same way.
    """
    answered = _answered(own)
    value: dict[str, Json] = dict(own)
    origins: dict[KeyPath, tuple[Source, KeyPath]] = {}
    for key, item in elsewhere.value.items():
        where = (*elsewhere.keys, key)
        if key in answered:
            continue
        if isinstance(item, dict) and key in deep and isinstance(own.get(key), dict):
            nested = inherit(own[key], Layer(item, elsewhere.source, where))
            value[key] = nested.value
            origins |= {(key, *keys): origin for keys, origin in nested.origins.items()}
        elif isinstance(item, dict) and key in _MERGED and isinstance(own.get(key, {}), dict):
            given = own.get(key, {})
            drop = {*given, *(answered if key == "execution" else ())}
            rest = {name: each for name, each in item.items() if name not in drop}
            value[key] = {**rest, **given}
            origins |= {(key, name): (elsewhere.source, (*where, name)) for name in rest}
            if key not in own:
                origins[key,] = elsewhere.source, where
        elif key not in own:
            value[key] = item
            origins[key,] = elsewhere.source, where
    return Layered(value, origins)


def _answered(own: JsonObject) -> frozenset[str]:
    """Return the keys that a mapping has under one of their synonyms."""
    execution = own.get("execution")
    within = execution if isinstance(execution, dict) else {}
    groups = (group for group in _ALTERNATIVES if any(key in own or key in within for key in group))
    return frozenset(key for group in groups for key in group)
