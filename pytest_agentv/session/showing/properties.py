"""Gives items the figures of their cases as properties. JUnit files have them, and `user_properties` for others."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

from pytest_agentv.reporting.ci.properties import SCORE, Property

_OWN: Final = frozenset(
    f"agentv_{name}"
    for name in (
        *(
            "file",
            "line",
            "status",
            "score",
            "threshold",
            "target",
            "attempts",
            "duration_ms",
            "cost_usd",
            "judge_cost_usd",
        ),
        *("cached", "cost_known_for", "tokens_known_for", "judge_cost_known_for"),
        *("tokens_input", "tokens_output", "tokens_cached", "tokens_reasoning"),
        *("repeat", "judged", "passes", "pass_rate", "pass_rate_low", "pass_rate_high", "stopped"),
    )
)
"""The names of our properties, beside those of the scores of evaluators."""


def add_properties(item: pytest.Item, properties: Iterable[Property]) -> None:
    item.user_properties.extend(properties)


def forget_properties(item: pytest.Item) -> None:
    """Remove our properties, so that a rerun does not add its own to them."""
    given = item.user_properties
    if given:
        given[:] = [each for each in given if not _is_own(each)]


def _is_own(given: object) -> bool:
    return is_own(given[0] if isinstance(given, tuple) and given else None)


def is_own(name: object) -> bool:
    """Whether a property of this name is ours."""
    return isinstance(name, str) and (name in _OWN or name.startswith(SCORE))


def suite_properties(config: pytest.Config) -> list[Any]:
    """Return the list of properties that pytest writes for the whole run into the JUnit file, which is its own list."""
    found = (getattr(plugin, "global_properties", None) for plugin in config.pluginmanager.get_plugins())
    return next((each for each in found if isinstance(each, list)), [])
