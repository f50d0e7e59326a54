"""What a usual run of the tests leaves out: more kills, more random input, and variations of other tests."""

import os
from typing import Any, Final

import pytest

THOROUGH: Final = os.environ.get("AGENTV_TEST_THOROUGH") == "1"

variation: Final = pytest.mark.thorough
"""Marks a test, or a parameter, that varies another test which every run has: another mode, flag or program."""


def tries(usual: int, thorough: int) -> int:
    return thorough if THOROUGH else usual


def varied(*values: Any, id: str | None = None) -> Any:  # noqa: A002 - the name that `pytest.param` has
    """Return a parameter that only thorough runs have."""
    return pytest.param(*values, id=id, marks=variation)


def leave_out_variations(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect variations, except in thorough runs."""
    if THOROUGH:
        return
    left_out = [item for item in items if item.get_closest_marker(variation.name)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker(variation.name)]
