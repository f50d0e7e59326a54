"""Tells which fixtures and hooks of conftest files are around an item. They belong to its turn.

Reads private state of pytest, as `compat.py` does.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.errors import locate

FIXTURES: Final = "fixtures"
HOOKS: Final = "hooks"

_AROUND: Final = ("pytest_runtest_protocol", "pytest_runtest_setup")
"""Hooks that may skip an item, or change what its case sees."""
_ORIGINS: Final = pytest.StashKey[dict[Any, bool]]()
"""Whether a fixture comes from a conftest, by its definition."""
_HOOKS_AROUND: Final = pytest.StashKey[dict[pytest.Collector | None, str | None]]()
"""The text of `hook_around` for the items of each file. To look a collector up is cheaper than to find a folder."""


def is_free_to_run_ahead(item: pytest.Function) -> bool:
    """Whether no fixture that is set up for each item can change what the case sees.

    Fixtures of plugins do not count. Fixtures of conftest files count, unless they have session scope and are set up
    already.
    """
    try:
        # A name without a definition is misspelt. Its item cannot be set up.
        return all(each is not None and _is_harmless(each, item) for each in _fixtures(item))
    except AttributeError:
        return False


def hook_around(item: pytest.Item) -> str | None:
    """Return `evals/conftest.py has the hook pytest_runtest_setup`, if a conftest has a hook around the item.

    Hooks of plugins do not count.
    """
    known = item.config.stash.setdefault(_HOOKS_AROUND, {})
    place = item.parent
    if place not in known:
        known[place] = next(_hooks_around(item), None)
    return known[place]


def held_by(item: pytest.Function) -> str | None:
    """Return the hook or the fixture of a conftest that keeps the case of an item in its turn; None: there is none.

    A fixture of session scope keeps only the first case, which sets it up.
    """
    if (hook := hook_around(item)) is not None:
        return hook
    with suppress(AttributeError):
        for each in _fixtures(item):
            if each is not None and each.scope != "session" and _is_of_a_conftest(each, item):
                return f"a conftest.py has the fixture {each.argname} of {each.scope} scope"
    return None


def bound_by(item: pytest.Item) -> str | None:
    """Return what binds the case of an item to its turn and to this process; None: it may be asked at any time.

    Fixtures of a conftest bind it, also those of session scope, and so do hooks of a conftest around the item.
    """
    if isinstance(item, pytest.Function) and _has_fixtures(item):
        return FIXTURES
    return HOOKS if hook_around(item) is not None else None


def fixtures_per_case(item: pytest.Function) -> list[str]:
    """Return the fixtures of conftest files that are set up anew for each item."""
    with suppress(AttributeError):
        own = [each for each in _fixtures(item) if each is not None and each.scope == "function"]
        return [each.argname for each in own if _is_of_a_conftest(each, item)]
    return []


def _has_fixtures(item: pytest.Function) -> bool:
    """Whether a fixture of a conftest file, of any scope, is set up for an item; True if unknown."""
    with suppress(AttributeError):
        return any(each is None or _is_of_a_conftest(each, item) for each in _fixtures(item))
    return True


def _fixtures(item: pytest.Function) -> list[Any]:
    """Return the definitions of the fixtures that an item is set up with; None for a misspelt name.

    Raises `AttributeError` where pytest does not tell.
    """
    definitions = item._fixtureinfo.name2fixturedefs
    names = (name for name in item.fixturenames if name != "request")
    return [definitions[name][-1] if name in definitions else None for name in names]


def _hooks_around(item: pytest.Item) -> Iterator[str]:
    for name in _AROUND:
        for implementation in getattr(item.ihook, name).get_hookimpls():
            if _is_conftest(implementation.plugin_name):
                yield f"{locate(Path(implementation.plugin_name), None)} has the hook {name}"
            elif _is_written_in_a_conftest(implementation.function):
                yield f"a conftest.py has the hook {name}"


def _is_harmless(definition: Any, item: pytest.Item) -> bool:
    if not _is_of_a_conftest(definition, item):
        return True
    return definition.scope == "session" and definition.cached_result is not None


def _is_of_a_conftest(definition: Any, item: pytest.Item) -> bool:
    """Whether a fixture comes from a conftest file, also if that imports it, or from below; False: from a plugin."""
    known = item.config.stash.setdefault(_ORIGINS, {})
    if definition not in known:
        known[definition] = _is_written_in_a_conftest(definition.func) or _has_place(definition, item.config)
    return known[definition]


def _has_place(definition: Any, config: pytest.Config) -> bool:
    """Whether a fixture was found in a file of the tree, not in a plugin.

    Before pytest 9.1, a flag tells it. Since then a plugin's fixture belongs to the session, as may one of the conftest
    in the root folder.
    """
    if not hasattr(definition, "node"):
        return bool(getattr(definition, "has_location", True))
    if definition.node is None or isinstance(definition.node, pytest.Session):
        return _is_held_by_a_conftest(definition.func, config)
    return True


def _is_held_by_a_conftest(function: Callable[..., Any], config: pytest.Config) -> bool:
    """Whether a conftest holds a fixture with this function under any name, for example because it imports it."""
    wanted = inspect.unwrap(function)
    plugins = [plugin for name, plugin in config.pluginmanager.list_name_plugin() if _is_conftest(name)]
    return any(_function_of(value) is wanted for plugin in plugins for value in vars(plugin).values())


def _function_of(value: object) -> object:
    """Return the function of a fixture as a module holds it; None: the value is no fixture."""
    if type(value).__name__ != "FixtureFunctionDefinition":
        return None
    unwrap: Callable[[], Any] | None = getattr(value, "_get_wrapped_function", None)
    return None if unwrap is None else inspect.unwrap(unwrap())


def _is_conftest(plugin_name: str) -> bool:
    """Whether a plugin is a conftest file. pytest registers these under their paths, and knows them by that."""
    return plugin_name.endswith("conftest.py")


def _is_written_in_a_conftest(function: Callable[..., Any]) -> bool:
    """Whether a function is from a conftest, which may register objects and fixtures of its own."""
    return str(getattr(function, "__module__", "")).rpartition(".")[2] == "conftest"
