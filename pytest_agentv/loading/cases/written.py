"""A case as it is written in an eval file, with the context for loading it."""

from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.loading.cases.references import LoadShared, References, Scope
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.keys import (
    CASE_KEYS,
    EXECUTION_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    MARK_KEYS,
    OUTCOME_KEYS,
    check_reason,
    is_refused,
    mark_fault,
    warn_of_evaluator_word,
    warn_of_unread_lists,
    warn_of_unread_twins,
)
from pytest_agentv.loading.places import Place, first_key, warn_of_unknown_keys
from pytest_agentv.loading.problems import Problem, near_word
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.kind_table import KindTable
from pytest_agentv.models.options.values import UnknownKeys
from pytest_agentv.models.records import record

FileEvaluators: TypeAlias = tuple[tuple[AnyEvaluator, ...], tuple[Problem, ...]]
"""The evaluators that a file sets for its cases, and their problems."""


@record
class LoadContext(Record):
    """The inputs for loading a case besides its file."""

    repo_root: Path
    cwd: Path
    guideline_patterns: tuple[str, ...] = ()
    strict: bool = False
    """Whether warnings are errors."""
    evaluators: KindTable = field(default_factory=KindTable, compare=False)
    """The kinds of evaluators that files may name."""
    unknown_keys: UnknownKeys = "error"
    """Level of unknown keys that say what is asked or checked."""
    file_evaluators: dict[tuple[Path, tuple[str, ...]], FileEvaluators] = field(default_factory=dict, compare=False)
    """The evaluators of earlier eval files, by the names of variables.

    So they are checked once instead of for each case.
    """
    shared: dict[str, Any] = field(default_factory=dict, compare=False)
    """The data that `loading.cases.sharing` keeps for cases of the same template."""


@record
class WrittenCase:
    """A case as it is written. Its readers note each fault at its place, and continue with a harmless value."""

    suite: SuiteSource
    value: JsonObject
    execution: JsonObject
    place: Place
    references: References
    context: LoadContext
    variables: JsonObject | None
    """None: the case has none."""
    share: LoadShared | None = None
    """Finds the evaluators that the case shares with others; None: it shares none."""

    def fill(self, value: Json, place: Place, *, is_check: bool = False) -> Json:
        """Return a value with the case's variables filled in; the same object if it has none."""
        if self.variables is None:
            return value
        from pytest_agentv.loading.cases.filling import fill_value  # noqa: PLC0415 - few cases have variables

        return fill_value(value, self.variables, place, is_check=is_check)

    def required_text(self, keys: tuple[str, ...], in_place_of: tuple[str, ...] = ()) -> str:
        """Return the text of one of some synonymous keys. A key of `in_place_of` may replace it."""
        key = first_key(self.value, keys) or keys[0]
        value = self.value.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if key in self.value:
            self.place.at(key).expected("a non-empty text", value, self.place.at(key).quotes(value))
        else:
            self.missing(keys, "a non-empty text", in_place_of)
        return ""

    def missing(self, keys: tuple[str, ...], what: str, in_place_of: tuple[str, ...] = ()) -> None:
        """Note that a key is missing. If a misspelt key is the reason, only that is noted: it becomes an error."""
        wanted = (*keys, *in_place_of)
        slips = [self.place.at(key).key for key in self.value if key not in CASE_KEYS and _meant(key) in wanted]
        problems = self.place.problems
        problems[:] = [each.replace(level="error") if each.key in slips else each for each in problems]
        if slips:
            return
        is_named = keys[0] == "id" and isinstance(self.value.get("name"), str)
        hint = "write `id` in place of `name`" if is_named else None
        self.place.at(keys[0]).error(f"is missing: expected {what}", hint)

    def header_place(self, problems: list[Problem] | None = None) -> Place:
        """Return the place of the file's own keys for this case. By default, faults there belong to the case."""
        return self.suite.header_place(self.place.problems if problems is None else problems, self.place.source.row)

    def scope(self, value: Json, place: Place) -> Scope:
        """Return the scope for loading the evaluators at a place."""
        return Scope(value, place, self.references.at(place), self.context.evaluators, tuple(self.variables or ()))


def _meant(key: str) -> str | None:
    from pytest_agentv.loading.foreign_keys import MEANT  # noqa: PLC0415 - only for cases that lack a key

    return MEANT.get(key) or near_word(key, CASE_KEYS)


def check_keys(written: WrittenCase, header: JsonObject) -> None:
    """Warn of unknown keys. Check the keys that only collection reads: those of the case and of its file, `header`."""
    value, place = written.value, written.place
    warn_of_unknown_keys(value, CASE_KEYS, place, is_refused)
    if written.execution:
        warn_of_unknown_keys(written.execution, EXECUTION_KEYS, place.at("execution"), is_refused)
    for key, instead in written.suite.without_effect.items():
        if value.get(key):
            place.at(key).warn("has no effect in a test", instead)
    warn_of_evaluator_word(value, place)
    warn_of_unread_lists(value, place)
    warn_of_unread_twins(value, place)
    for synonyms in (OUTCOME_KEYS, INPUT_KEYS, EXPECTED_KEYS):
        if len(value.keys() & synonyms) < 2:
            continue
        present = [key for key in synonyms if value.get(key) is not None]
        for key in present[1:]:
            place.at(key).warn(f"is not read, because {present[0]!r} is there as well")
    place.problems.extend(written.suite.refused)
    if not (MARK_KEYS.isdisjoint(value) and MARK_KEYS.isdisjoint(header)):
        _check_marks(value, place)
        _check_marks(header, written.suite.header_place(place.problems))


def _check_marks(mapping: JsonObject, place: Place) -> None:
    for key in ("marks", "fixtures", "tags"):
        value = mapping.get(key)
        names = [value] if value is None or isinstance(value, str) else value
        if not isinstance(names, list) or not all(name is None or isinstance(name, str) for name in names):
            place.at(key).expected("a name or a list of names", value)
        elif key == "marks":
            for index, name in enumerate(names):
                if name and (fault := mark_fault(name)):
                    where = place.at(key, index) if isinstance(value, list) else place.at(key)
                    where.error(f"{name!r} cannot mark a case", fault)
    for key in ("skip", "xfail"):
        check_reason(mapping, key, place)
