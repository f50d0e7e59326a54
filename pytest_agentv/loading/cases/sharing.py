"""What cases have in common, so that it is loaded once: evaluators without variables, and cases of several targets."""

from collections.abc import Callable
from typing import Any, TypeAlias

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.records import record

Known: TypeAlias = dict[tuple[int, tuple[str, ...]], tuple[Json, Any]]
"""Evaluators with the mappings that they are written as, by the ids of these and the names of variables."""


def written_evaluators(value: JsonObject, variables: tuple[str, ...], known: Known) -> "WrittenEvaluators":
    """Return the evaluators that a case, as written, shares with the others that are made from it.

    Args:
        value: The case, before its variables were filled in.
        variables: The names of its variables.
        known: The evaluators of the cases so far.
    """
    execution = value.get("execution")
    mappings = (value, execution if isinstance(execution, dict) else {})
    lists = (mapping.get(key) for mapping in mappings for key in EVALUATOR_LIST_KEYS)
    ids = frozenset(id(item) for each in lists if isinstance(each, list) for item in each)
    return WrittenEvaluators(ids, variables, known)


@record
class WrittenEvaluators:
    """The mappings of an entry before its variables were filled in. One without variables is still the same object."""

    ids: frozenset[int]
    variables: tuple[str, ...]
    known: Known

    def load(self, value: Json, place: Place, load: Callable[[], Any]) -> Any:
        """Return the evaluator of a mapping: that of another case, unless it has variables or a problem."""
        if id(value) not in self.ids:
            return load()
        key = id(value), self.variables
        if key not in self.known:
            noted = len(place.problems)
            found = load()
            if found is None or len(place.problems) > noted:
                return found
            self.known[key] = value, found  # the mapping is kept too: no other one gets its id
        return self.known[key][1]


class RecentCases:
    """The cases of the entry that was loaded last. Those of its other targets differ by the target only."""

    def __init__(self) -> None:
        self._owner: tuple[SuiteSource, int] | None = None
        self._loaded: list[tuple[CaseEntry, Any]] = []

    def find(self, suite: SuiteSource, entry: CaseEntry) -> Any:
        """Return what was kept for an entry with the same variables and prompt; None: nothing."""
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
