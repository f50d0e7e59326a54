"""Decides which cases cost money: those of models and coding agents, and those that a model helps to judge."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from pytest_agentv.engine.overrides import OWN_JUDGE, OWN_PROVIDER
from pytest_agentv.engine.targets.judging import evaluators_of, needs_of
from pytest_agentv.engine.targets.pool import choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.targets.definitions import TargetDefinition, TargetsFile
from pytest_agentv.models.cases import AnyEvaluator, EvalCase
from pytest_agentv.models.options.run_options import RunOptions


class Spending:
    """Reads targets files without variables. A target that cannot be read costs nothing: its cases become errors."""

    def __init__(self, options: RunOptions, read_targets: Callable[[Path], TargetsFile]) -> None:
        self._options = options
        self._read_targets = read_targets
        self._files: dict[Path, TargetsFile | None] = {}

    def is_paid(self, case: EvalCase, own_fixtures: Collection[str]) -> bool:
        """Whether a case costs money. `own_fixtures` are those that stand in for targets."""
        folder = Path(case.path).parent
        name = choose_target(self._options, case.target)
        if OWN_PROVIDER not in own_fixtures and self.is_paid_target(folder, name):
            return True
        return self.is_paid_judging(folder, name, evaluators_of(case), own_fixtures)

    def is_paid_judging(
        self, folder: Path, name: str, evaluators: tuple[AnyEvaluator, ...], own_fixtures: Collection[str]
    ) -> bool:
        """Whether it costs money to judge the answers of a target. Takes its name and fixtures as `is_paid` does."""
        asked = self._asked_to_judge(folder, name, evaluators, own_fixtures)
        return any(self.is_paid_target(folder, each) for each in asked)

    def is_paid_target(self, folder: Path, name: str) -> bool:
        """Whether a target costs money, by its name in the eval files of a folder."""
        file, definition = self._file(folder), self._find(folder, name)
        if file is None or definition is None:
            return False
        return bool(getattr(file.kinds.find(definition.kind), "costs_money", False))

    def _asked_to_judge(
        self, folder: Path, name: str, evaluators: tuple[AnyEvaluator, ...], own_fixtures: Collection[str]
    ) -> Iterator[str]:
        """Yield the names of the targets that evaluators ask, or may ask."""
        needs = needs_of(evaluators)
        yield from needs.embeddings
        if needs.judge and OWN_JUDGE not in own_fixtures:
            target = self._find(folder, name)
            yield name if target is None else target.judge_target or name
        if needs.targets:  # a script may ask any target by its name, also beside a judge of the project
            file = self._file(folder)
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
