"""Remember what pluggy finds out about a plugin when it registers it: each run registers the same fifty modules."""

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

import pluggy._manager
import pytest

import pytest_agentv

CONSTANT: Final = (sys.prefix, str(Path(pytest_agentv.__file__).parent))
_PARSERS: Final = ("parse_hookimpl_opts", "parse_hookspec_opts")
_HOLDERS_OF_VARNAMES: Final = ("pluggy._hooks", "pluggy._decorators", "pluggy._impl")
"""Modules of pluggy; which of them use the function depends on the version."""


def search_for_hooks_once(patch: pytest.MonkeyPatch) -> None:
    """Search a module that does not change for hooks and their specifications once, and all others anew."""
    manager: Any = pluggy._manager
    patch.setattr(pluggy.PluginManager, "register", _registered_once(pluggy.PluginManager.register))
    patch.setattr(manager, "dir", _names_of_hooks(), raising=False)
    for parser in _PARSERS:
        patch.setattr(pytest.PytestPluginManager, parser, _parsed_once(getattr(pytest.PytestPluginManager, parser)))
    if hasattr(manager, "_static_hook_attr"):
        patch.setattr(manager, "_static_hook_attr", _found_quickly(manager._static_hook_attr))
    for module in filter(None, map(sys.modules.get, _HOLDERS_OF_VARNAMES)):
        if hasattr(module, "varnames"):
            patch.setattr(module, "varnames", _named_once(module.varnames))


def is_constant(key: ModuleType | type) -> bool:
    """Whether a module, or that of a class, does not change: those of this environment, and those under test."""
    module = key if isinstance(key, ModuleType) else sys.modules.get(key.__module__)
    return str(getattr(module, "__file__", None)).startswith(CONSTANT)


def _registered_once(register: Callable[..., str | None]) -> Callable[..., str | None]:
    """Make the hooks of a plugin once, and add them to each manager that it is registered with."""
    known: WeakKeyDictionary[ModuleType, dict[tuple[str, int], list[Any]]] = WeakKeyDictionary()

    @wraps(register)
    def register_once(self: Any, plugin: Any, name: str | None = None) -> str | None:
        if not isinstance(plugin, ModuleType) or not is_constant(plugin):
            return register(self, plugin, name)
        plugins, own_name = self._name2plugin, name or plugin.__name__
        found, case = known.setdefault(plugin, {}), (own_name, len(vars(plugin)))
        hooks = found.get(case, [])
        if not hooks or not _are_of(plugin, hooks) or own_name in plugins or plugin in plugins.values():
            registered = register(self, plugin, name)
            if registered is not None:
                found[case] = _hooks_of(self, plugin)
            return registered
        plugins[own_name] = plugin
        for hook_name, implementation in hooks:
            if not hasattr(self.hook, hook_name):
                setattr(self.hook, hook_name, pluggy.HookCaller(hook_name, self._hookexec))
            caller = getattr(self.hook, hook_name)
            caller._maybe_apply_history(implementation)
            caller._add_hookimpl(implementation)
        return own_name

    return register_once


def _hooks_of(manager: Any, plugin: ModuleType) -> list[Any]:
    callers = manager.get_hookcallers(plugin) or []
    found = [(caller.name, each) for caller in callers for each in caller.get_hookimpls() if each.plugin is plugin]
    return found if _are_of(plugin, found) else []


def _are_of(plugin: ModuleType, hooks: list[Any]) -> bool:
    """Whether the hooks are the functions that a plugin has under these names now: tests replace some."""
    return all(vars(plugin).get(name) is implementation.function for name, implementation in hooks)


def _names_of_hooks() -> Callable[[Any], Iterable[str]]:
    """Return a `dir` that leaves out names that cannot be hooks."""
    known: WeakKeyDictionary[ModuleType, tuple[int, list[str]]] = WeakKeyDictionary()

    def names_of(holder: Any) -> Iterable[str]:
        if not isinstance(holder, ModuleType | type):
            return [name for name in dir(holder) if name.startswith("pytest_")]
        if isinstance(holder, type) or not is_constant(holder):
            return dir(holder)
        size, names = known.get(holder, (-1, []))
        if size != len(vars(holder)):
            names = [name for name in dir(holder) if name.startswith("pytest_") or _is_spec(getattr(holder, name))]
            known[holder] = len(vars(holder)), names
        return names

    return names_of


def _is_spec(value: object) -> bool:
    return isinstance(value, FunctionType) and "pytest_spec" in vars(value)


def _parsed_once(parse: Callable[..., Any]) -> Callable[..., Any]:
    known: WeakKeyDictionary[ModuleType, dict[str, Any]] = WeakKeyDictionary()

    @wraps(parse)
    def parse_once(self: pytest.PytestPluginManager, holder: Any, name: str) -> Any:
        if not (isinstance(holder, ModuleType) and is_constant(holder)):
            return parse(self, holder, name)
        found = known.setdefault(holder, {})
        if name not in found:
            found[name] = parse(self, holder, name)
        return found[name] and dict(found[name])

    return parse_once


def _found_quickly(find: Callable[..., Any]) -> Callable[..., Any]:
    """Look up a function of a module, or a method of an object; pluggy looks for slots and descriptors first."""

    @wraps(find)
    def find_quickly(holder: Any, name: str) -> Any:
        if type(holder) is ModuleType:
            value = vars(holder).get(name)
            if type(value) is FunctionType:
                return value, value
        elif not isinstance(holder, type) and name not in getattr(holder, "__dict__", ()):
            value = next((vars(base)[name] for base in type(holder).__mro__ if name in vars(base)), None)
            if type(value) is FunctionType:
                return value, MethodType(value, holder)
        return find(holder, name)

    return find_quickly


def _named_once(names_of: Callable[..., Any]) -> Callable[..., Any]:
    known: WeakKeyDictionary[FunctionType, dict[Any, Any]] = WeakKeyDictionary()

    @wraps(names_of)
    def names_once(function: Any, **options: Any) -> Any:
        is_bound = type(function) is MethodType
        key = function.__func__ if is_bound else function
        if type(key) is not FunctionType:
            return names_of(function, **options)
        found = known.setdefault(key, {})
        case = is_bound, *options.items()
        if case not in found:
            found[case] = names_of(function, **options)
        return found[case]

    return names_once
