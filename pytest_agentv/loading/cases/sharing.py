"""Shares what several cases have in common: evaluators without variables, and the cases of several targets."""

from collections.abc import Callable
from typing import Any, TypeAlias

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.models.base import Json
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.records import record

Known: TypeAlias = dict[tuple[int, tuple[str, ...]], tuple[Json, Any]]
"""Evaluators with the mappings in the file, by the ids of these and the names of variables."""


def written_evaluators(
    entry: CaseEntry, variables: tuple[str, ...], known: Known, *, is_template: bool
) -> "WrittenEvaluators":
    """Return the written evaluators that a case shares with others: those of a template or of `defaults`.

    Args:
        entry: The case.
        variables: The names of its variables.
        known: The evaluators of earlier cases.
        is_template: Whether the whole case comes from the template of a table.
    """
    lists = (
        (keys, each)
        for key in EVALUATOR_LIST_KEYS
        for keys, each in (((key,), entry.value.get(key)), (("execution", key), _in_execution(entry, key)))
        if isinstance(each, list)
    )
    shared = (each for keys, each in lists if is_template or keys in entry.origins or keys[:1] in entry.origins)
    return WrittenEvaluators(frozenset(id(item) for each in shared for item in each), variables, known)


def _in_execution(entry: CaseEntry, key: str) -> Json:
    execution = entry.value.get("execution")
    return execution.get(key) if isinstance(execution, dict) else None


@record
class WrittenEvaluators:
    """The mappings of an entry before its variables are filled in.

    A mapping without variables stays the same object.
    """

    ids: frozenset[int]
    variables: tuple[str, ...]
    known: Known

    def load(self, value: Json, place: Place, load: Callable[[], Any]) -> Any:
        """Return the evaluator of a mapping. Uses that of another case, unless it has variables or a problem."""
        if id(value) not in self.ids:
            return load()
        key = id(value), self.variables
        if key not in self.known:
            noted = len(place.problems)
            found = load()
            if found is None or len(place.problems) > noted:
                return found
            self.known[key] = value, found  # keeps the mapping alive, so that no other one gets its id
        return self.known[key][1]


class RecentCases:
    """The cases of the last loaded entry. The cases of its other targets differ only by the target."""

    def __init__(self) -> None:
        self._owner: tuple[SuiteSource, int] | None = None
        self._loaded: list[tuple[CaseEntry, Any]] = []

    def find(self, suite: SuiteSource, entry: CaseEntry) -> Any:
        """Return the kept case for an entry with the same variables and prompt; None: there is none."""
        if self._owner is None or self._owner[0] is not suite or self._owner[1] != entry.index:
            return None
        return next((loaded for each, loaded in self._loaded if _is_alike(each, entry)), None)

    def keep(self, suite: SuiteSource, entry: CaseEntry, loaded: Any) -> None:
        if self._owner is None or self._owner[0] is not suite or self._owner[1] != entry.index:
            self._owner, self._loaded = (suite, entry.index), []
        self._loaded.append((entry, loaded))


def aimed(case: EvalCase, entry: CaseEntry) -> EvalCase:
    """Return a case with the id and the target of its combination."""
    combination = entry.combination
    if combination is None:
        return case
    return case.replace(eval_id=entry.eval_id or case.eval_id, target=combination.target or case.target)


def _is_alike(entry: CaseEntry, other: CaseEntry) -> bool:
    one, two = entry.combination, other.combination
    return one is not None and two is not None and (one.prompt, one.variables) == (two.prompt, two.variables)
