"""Leaves out the items that the options do not let run, and decides which cases cost money."""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.entries import SuiteSource, sample
from pytest_agentv.engine.jobs import OWN_JUDGE, OWN_PROVIDER
from pytest_agentv.engine.judging import needs_of_case
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.session.outcomes import AgentvWarning
from pytest_agentv.targets.definitions import TargetDefinition, TargetsFile

# Leaves out the items that the options do not let run: `--agentv-eval-id`, `--agentv-retry-errors`.


def keep(config: pytest.Config, items: list[pytest.Item], selected: Collection[pytest.Item]) -> None:
    """Deselect all items but the selected ones."""
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


def select_ids(config: pytest.Config, items: list[pytest.Item], wanted: Collection[str]) -> None:
    """Keep the cases of eval files that have one of the wanted ids, and no tests."""
    cases = {item: entry.ids for item in items if (entry := getattr(item, "entry", None)) is not None}
    known = {eval_id for ids in cases.values() for eval_id in ids if eval_id}
    for eval_id in wanted:
        if eval_id not in known:
            hint = did_you_mean(eval_id, known)
            text = f"--agentv-eval-id={eval_id}: no collected case has this id{f' ({hint})' if hint else ''}"
            warnings.warn(text, AgentvWarning, stacklevel=1)
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


# `--agentv-sample`: some of the selected cases, the same ones in each process and in each run.


def left_out(
    items: Sequence[pytest.Item], size: int, is_case: Callable[[pytest.Item], bool]
) -> tuple[pytest.Item, ...]:
    """Return the cases that are not in the sample. Other items are kept."""
    cases = [item for item in items if is_case(item)]
    chosen = sample([item.nodeid for item in cases], size)
    return tuple(case for index, case in enumerate(cases) if index not in chosen)


# Decides which cases cost money: those of models and coding agents, and those that a model helps to judge.


class Spending:
    """Reads targets files without variables. A target that cannot be read costs nothing: its cases become errors."""

    def __init__(self, read_targets: Callable[[Path], TargetsFile]) -> None:
        self._read_targets = read_targets
        self._files: dict[Path, TargetsFile | None] = {}

    def is_paid(self, case: EvalCase, name: str, own_fixtures: Collection[str], judge: str | None) -> bool:
        """Whether a case costs money: to ask its target or its user, or to judge the answer.

        Args:
            case: Its folder and its evaluators count.
            name: The name of its target.
            own_fixtures: The fixtures that stand in for targets.
            judge: The name of its judge; None: that of its target.
        """
        asked = () if OWN_PROVIDER in own_fixtures else (name,)
        playing = () if case.user is None else (case.user.target,)
        judging = self._asked_to_judge(case, name, own_fixtures, judge)
        return any(self.is_paid_target(case.folder, each) for each in (*asked, *playing, *judging))

    def is_paid_target(self, folder: Path, name: str) -> bool:
        """Whether a target costs money, by its name in the eval files of a folder."""
        file, definition = self._file(folder), self._find(folder, name)
        if file is None or definition is None:
            return False
        return bool(getattr(file.kinds.table.get(definition.kind), "costs_money", False))

    def _asked_to_judge(
        self, case: EvalCase, name: str, own_fixtures: Collection[str], judge: str | None
    ) -> Iterator[str]:
        """Yield the names of the targets that evaluators ask, or may ask."""
        needs = needs_of_case(case)
        yield from needs.embeddings
        yield from filter(None, needs.judges)
        if None in needs.judges and OWN_JUDGE not in own_fixtures:
            target = self._find(case.folder, name)
            yield judge or (name if target is None else target.judge_target or name)
        if needs.targets:  # a script may ask any target by its name, also beside a judge of the project
            file = self._file(case.folder)
            names = () if file is None else file.names
            yield from (each for each in names if each != name or OWN_PROVIDER not in own_fixtures)

    def _find(self, folder: Path, name: str) -> TargetDefinition | None:
        try:
            file = self._file(folder)
            return None if file is None else file.find(name)
        except AgentvError:
            return None

    def _file(self, folder: Path) -> TargetsFile | None:
        if folder not in self._files:
            try:
                self._files[folder] = self._read_targets(folder)
            except AgentvError:
                self._files[folder] = None
        return self._files[folder]
