"""Remember what pytest finds out anew at each start, though it does not change: a third of the time of a short run."""

import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

import pytest
from _pytest.fixtures import FixtureManager  # noqa: TID251 - what is remembered is how it searches

_PROPERTIES = ("metadata", "entry_points", "files")


@contextmanager
def read_once() -> Iterator[None]:
    """Keep what is found in this environment's packages while this lasts; look at all other places anew."""
    with pytest.MonkeyPatch.context() as patch:
        _read_metadata_once(patch)
        _search_for_fixtures_once(patch)
        yield


def _search_for_fixtures_once(patch: pytest.MonkeyPatch) -> None:
    """Search a plugin that has no fixtures once; there are fifty of them, with thousands of names."""
    search = FixtureManager.parsefactories
    without: WeakSet[Any] = WeakSet()

    def parsefactories(self: FixtureManager, *args: Any, **options: Any) -> None:
        holder = options["holder"] if "holder" in options else args[0]
        key = holder if isinstance(holder, ModuleType | type) else type(holder)
        if key not in without:
            search(self, *args, **options)
            if _is_installed(key) and not issubclass(type(holder), pytest.Collector) and not _has_fixtures(key):
                without.add(key)

    patch.setattr(FixtureManager, "parsefactories", parsefactories)


def _is_installed(key: ModuleType | type) -> bool:
    module = key if isinstance(key, ModuleType) else sys.modules.get(key.__module__)
    return str(getattr(module, "__file__", None)).startswith(sys.prefix)


def _has_fixtures(key: ModuleType | type) -> bool:
    spaces = [vars(key)] if isinstance(key, ModuleType) else [vars(base) for base in key.__mro__]
    values = [value for space in spaces for value in space.values()]
    return any(type(value).__module__ == FixtureManager.__module__ or _is_marked(value) for value in values)


def _is_marked(value: object) -> bool:
    """Whether a value is a fixture as pytest marked them before version 8.4."""
    return isinstance(value, FunctionType) and "_pytestfixturefunction" in vars(value)


def _read_metadata_once(patch: pytest.MonkeyPatch) -> None:
    search = metadata.distributions

    @functools.cache
    def installed(place: str) -> list[metadata.Distribution]:
        return list(search(path=[place]))

    def distributions(**options: Any) -> Iterable[metadata.Distribution]:
        if options:
            return search(**options)
        found = (installed(place) if place.startswith(sys.prefix) else search(path=[place]) for place in sys.path)
        return chain.from_iterable(found)

    patch.setattr(metadata, "distributions", distributions)
    for name in _PROPERTIES:
        patch.setattr(metadata.Distribution, name, property(functools.cache(getattr(metadata.Distribution, name).fget)))
