"""Leaves out the items that the options do not let run: `--agentv-eval-id`, `--agentv-retry-errors`."""

import warnings
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.session.outcomes import AgentvWarning


def keep(config: pytest.Config, items: list[pytest.Item], selected: Collection[pytest.Item]) -> None:
    """Deselect all items but the selected ones."""
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


def select_ids(config: pytest.Config, items: list[pytest.Item], wanted: Collection[str]) -> None:
    """Keep the cases of eval files that have one of the wanted ids, and no tests."""
    cases = {item: entry.ids for item in items if (entry := getattr(item, "entry", None)) is not None}
    _warn_of_unknown_ids(wanted, {eval_id for ids in cases.values() for eval_id in ids if eval_id})
    keep(config, items, {item for item, ids in cases.items() if any(each in wanted for each in ids)})


def select_retried(
    config: pytest.Config,
    items: list[pytest.Item],
    is_retried: Callable[[str, tuple[str, str | None] | None], bool],
    eval_file: Callable[[SuiteSource], str] = lambda suite: str(suite.path),
) -> None:
    """Keep the cases and tests that a run retries.

    Args:
        config: The configuration of the run.
        items: Changed in place.
        is_retried: Tells this by a node id and, for a case, its eval file and id.
        eval_file: Returns the path of an eval file in results.
    """

    def case_of(item: Any) -> tuple[str, str | None] | None:
        return (eval_file(item.suite), item.entry.eval_id) if hasattr(item, "entry") else None

    keep(config, items, {item for item in items if is_retried(item.nodeid, case_of(item))})


def _warn_of_unknown_ids(wanted: Iterable[str], known: Collection[str]) -> None:
    for eval_id in wanted:
        if eval_id not in known:
            hint = did_you_mean(eval_id, known)
            text = f"--agentv-eval-id={eval_id}: no collected case has this id{f' ({hint})' if hint else ''}"
            warnings.warn(text, AgentvWarning, stacklevel=1)
