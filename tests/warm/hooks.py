"""Remember which functions of installed plugins are hooks: each run asks for all names of some forty plugins."""

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import pluggy
import pytest
from pluggy import _decorators, _manager

from warm.installed import is_constant

_PREFIX = "pytest_"
"""Of the names of all hooks, for pytest."""


def find_hooks_once(patch: pytest.MonkeyPatch) -> None:
    """Find out once what hooks a plugin of this environment has; look at all others anew."""
    patch.setattr(_manager, "dir", _names_once(), raising=False)
    for name in ("parse_hookimpl_opts", "parse_hookspec_opts"):
        patch.setattr(pytest.PytestPluginManager, name, _parse_once(getattr(pytest.PytestPluginManager, name)))
    if hasattr(_manager, "_static_hook_attr"):
        patch.setattr(_manager, "_static_hook_attr", _without_search(_manager._static_hook_attr))
    for module in (_manager, inspect.getmodule(pluggy.HookImpl)):
        if hasattr(module, "varnames"):
            patch.setattr(module, "varnames", _names_of_arguments_once(_decorators.varnames))


def _key(holder: object) -> Any:
    """Return the module or the class whose hooks a plugin has; None if they may change."""
    key = holder if isinstance(holder, ModuleType | type) else type(holder)
    return key if is_constant(key) else None


def _own_hooks(holder: object) -> list[str]:
    """Return the names that an object has, and its class has not."""
    own = () if isinstance(holder, ModuleType | type) else getattr(holder, "__dict__", ())
    return [name for name in own if name.startswith(_PREFIX)]


def _names_once() -> Callable[[object], list[str]]:
    known: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    def names(holder: object) -> list[str]:
        key = _key(holder)
        if key is None or _own_hooks(holder):
            return dir(holder)
        if key not in known:
            known[key] = [name for name in dir(holder) if name.startswith(_PREFIX)]
        return known[key]

    return names


def _parse_once(parse: Callable[..., Any]) -> Callable[..., Any]:
    known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()

    def parse_once(self: pytest.PytestPluginManager, holder: object, name: str) -> Any:
        key = _key(holder)
        if key is None or name in _own_hooks(holder):
            return parse(self, holder, name)
        options = known.setdefault(key, {})
        if name not in options:
            options[name] = parse(self, holder, name)
        found = options[name]
        return found if found is None else {**found}  # pluggy completes it

    return parse_once


def _without_search(search: Callable[..., Any]) -> Callable[..., Any]:
    def static_hook_attr(holder: object, name: str) -> Any:
        value = vars(holder).get(name) if type(holder) is ModuleType else None
        return (value, value) if type(value) is FunctionType else search(holder, name)

    return static_hook_attr


def _names_of_arguments_once(read: Callable[..., Any]) -> Callable[..., Any]:
    known: WeakKeyDictionary[Any, dict[bool, Any]] = WeakKeyDictionary()

    def varnames(function: Any, **options: bool) -> Any:
        plain = getattr(function, "__func__", function)
        if options or type(plain) is not FunctionType:
            return read(function, **options)
        names = known.setdefault(plain, {})
        is_bound = plain is not function
        if is_bound not in names:
            names[is_bound] = read(function)
        return names[is_bound]

    return varnames
