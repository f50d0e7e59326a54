"""Remember what pytest finds out anew at each start, though it does not change."""

import functools
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest
from _pytest import fixtures  # noqa: TID251 - what is remembered is how it searches
from jinja2 import Environment

import pytest_agentv

CONSTANT: Final = (sys.prefix, str(Path(pytest_agentv.__file__).parent))
_SHOWN_VERSIONS = ("pluggy",)
"""Packages whose version pytest shows at the start of each run."""
_PROPERTIES = ("metadata", "entry_points", "files")


@contextmanager
def read_once() -> Iterator[None]:
    """Keep what is found in this environment's packages while this lasts; look at all other places anew."""
    if _is_remembered():  # this process was forked from one that does
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        _read_metadata_once(patch)
        _search_for_fixtures_once(patch)
        _search_for_hooks_once(patch)
        _list_modules_of_plugins_once(patch)
        _compile_templates_once(patch)
        importlib.import_module("warm.hooks").find_hooks_once(patch)
        yield


def is_constant(key: ModuleType | type) -> bool:
    """Whether a module, or that of a class, does not change: those of this environment, and those under test."""
    module = key if isinstance(key, ModuleType) else sys.modules.get(key.__module__)
    return str(getattr(module, "__file__", None)).startswith(CONSTANT)


def _is_remembered() -> bool:
    return hasattr(metadata.distributions, "__wrapped__")


def _search_for_fixtures_once(patch: pytest.MonkeyPatch) -> None:
    """Search a plugin for fixtures once: from then on it is searched for those names only."""
    search = fixtures.FixtureManager.parsefactories
    names: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    def parsefactories(self: fixtures.FixtureManager, *args: Any, **options: Any) -> None:
        holder = options["holder"] if "holder" in options else args[0]
        key = holder if isinstance(holder, ModuleType | type) else type(holder)
        if isinstance(holder, pytest.Collector) or not is_constant(key):
            search(self, *args, **options)
            return
        if key not in names:
            names[key] = _fixtures_of(key)
        if names[key]:
            with pytest.MonkeyPatch.context() as searching:
                searching.setattr(fixtures, "dir", lambda _: names[key], raising=False)
                search(self, *args, **options)

    patch.setattr(fixtures.FixtureManager, "parsefactories", parsefactories)


def _fixtures_of(key: ModuleType | type) -> list[str]:
    """Return the names of a module or a class that may be fixtures."""
    spaces = [vars(key)] if isinstance(key, ModuleType) else [vars(base) for base in key.__mro__]
    found = {name for space in spaces for name, value in space.items() if _is_fixture(value)}
    return sorted(found)


def _is_fixture(value: object) -> bool:
    """Whether a value is a fixture; before pytest 8.4 these were marked functions."""
    value = getattr(value, "__func__", value)
    return type(value).__module__ == fixtures.__name__ or (
        isinstance(value, FunctionType) and "_pytestfixturefunction" in vars(value)
    )


def _search_for_hooks_once(patch: pytest.MonkeyPatch) -> None:
    """Search a plugin for hooks once, and read what each hook takes once: each run registers forty plugins."""
    names: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()
    found: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
    taken: WeakKeyDictionary[Any, dict[bool, Any]] = WeakKeyDictionary()
    manager: Any = importlib.import_module("pluggy._manager")
    search = getattr(manager, "_static_hook_attr", None)
    if search is None:  # another release of pluggy
        return
    read = importlib.import_module("pluggy._impl").varnames

    def names_of_hooks(plugin: Any) -> list[str]:
        key = plugin if isinstance(plugin, ModuleType | type) else type(plugin)
        if not is_constant(key):
            return dir(plugin)
        if key not in names:
            names[key] = [name for name in dir(key) if name.startswith("pytest_")]
            found[key] = {}
        own = () if key is plugin else (name for name in getattr(plugin, "__dict__", ()) if name.startswith("pytest_"))
        return sorted({*names[key], *own})

    def hook_of(plugin: Any, name: str) -> Any:
        key = plugin if isinstance(plugin, ModuleType | type) else type(plugin)
        if key not in names or (key is not plugin and name in getattr(plugin, "__dict__", ())):
            return search(plugin, name)
        known = found[key]
        if name not in known:
            known[name] = search(key, name)
        if key is plugin or known[name] is None or not isinstance(known[name][0], FunctionType):
            return known[name]
        return known[name][0], known[name][1].__get__(plugin)

    def arguments_of(function: Any, **options: Any) -> Any:
        if not isinstance(function, FunctionType):
            return read(function, **options)
        known = taken.setdefault(function, {})
        if bool(options) not in known:
            known[bool(options)] = read(function, **options)
        return known[bool(options)]

    patch.setattr(manager, "dir", names_of_hooks, raising=False)
    patch.setattr(manager, "_static_hook_attr", hook_of)
    for name in ("_decorators", "_impl"):
        patch.setattr(f"pluggy.{name}.varnames", arguments_of)


def _list_modules_of_plugins_once(patch: pytest.MonkeyPatch) -> None:
    """List the modules of installed plugins once: each run goes through the names of all their files."""
    mark = pytest.Config._mark_plugins_for_rewrite
    known: dict[tuple[metadata.Distribution, ...], set[str]] = {}

    def mark_plugins(self: pytest.Config, hook: Any, *disable_autoload: bool) -> None:
        found = tuple(metadata.distributions())  # those of this environment are the same objects each time
        loads_none = any(disable_autoload) or bool(os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"))
        if loads_none or found not in known:
            before = set(hook._must_rewrite)
            mark(self, hook, *disable_autoload)  # before pytest 8.4 without an argument
            if not loads_none:
                known[found] = hook._must_rewrite - before
        else:
            self.pluginmanager.rewrite_hook = hook
            hook.mark_rewrite(*known[found])

    patch.setattr(pytest.Config, "_mark_plugins_for_rewrite", mark_plugins)


def _compile_templates_once(patch: pytest.MonkeyPatch) -> None:
    """Compile the templates of the package once: each HTML report does."""
    compile_ = Environment.compile
    known: dict[tuple[type, str, str | None, str], Any] = {}

    def compiled(
        self: Environment, source: Any, name: str | None = None, filename: str | None = None, *flags: bool, **more: bool
    ) -> Any:
        if not (isinstance(source, str) and str(filename).startswith(CONSTANT)) or any(flags) or any(more.values()):
            return compile_(self, source, name, filename, *flags, **more)
        key = (type(self), source, name, str(filename))
        if key not in known:
            known[key] = compile_(self, source, name, filename)
        return known[key]

    patch.setattr(Environment, "compile", compiled)


def _read_metadata_once(patch: pytest.MonkeyPatch) -> None:
    search = metadata.distributions

    @functools.cache
    def installed(place: str) -> list[metadata.Distribution]:
        return list(search(path=[place]))

    @functools.wraps(search)
    def distributions(**options: Any) -> Iterable[metadata.Distribution]:
        if options:
            return search(**options)
        found = (installed(place) if place.startswith(sys.prefix) else search(path=[place]) for place in sys.path)
        return chain.from_iterable(found)

    patch.setattr(metadata, "distributions", distributions)
    versions = {name: metadata.version(name) for name in _SHOWN_VERSIONS}
    version = metadata.version
    patch.setattr(metadata, "version", lambda name: versions.get(name) or version(name))
    for name in _PROPERTIES:
        patch.setattr(metadata.Distribution, name, property(functools.cache(getattr(metadata.Distribution, name).fget)))
