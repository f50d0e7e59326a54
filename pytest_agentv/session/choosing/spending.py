"""Decides which cases cost money: those of models and coding agents, and those that a model helps to judge."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from pytest_agentv.engine.overrides import OWN_JUDGE, OWN_PROVIDER
from pytest_agentv.engine.targets.judging import needs_of
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.targets.definitions import TargetDefinition, TargetsFile
from pytest_agentv.models.cases import AnyEvaluator


class Spending:
    """Reads targets files without variables. A target that cannot be read costs nothing: its cases become errors."""

    def __init__(self, read_targets: Callable[[Path], TargetsFile]) -> None:
        self._read_targets = read_targets
        self._files: dict[Path, TargetsFile | None] = {}

    def is_paid(
        self, folder: Path, name: str, evaluators: tuple[AnyEvaluator, ...], own_fixtures: Collection[str]
    ) -> bool:
        """Whether a case costs money: to ask its target, or to judge the answer.

        Args:
            folder: That of its eval file.
            name: The name of its target.
            evaluators: Those that judge it.
            own_fixtures: The fixtures that stand in for targets.
        """
        asked = () if OWN_PROVIDER in own_fixtures else (name,)
        judging = self._asked_to_judge(folder, name, evaluators, own_fixtures)
        return any(self.is_paid_target(folder, each) for each in (*asked, *judging))

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
