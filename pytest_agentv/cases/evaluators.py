"""Loads lists of evaluators. Reads each item as the kind that it names (agentv-formats 6).

An item is a mapping, a text that a judge checks, or, in Python, an object. Imports pydantic: import this lazily.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pydantic_core import PydanticCustomError

from pytest_agentv.cases.references import LoadShared, Scope
from pytest_agentv.cases.variables import Filled
from pytest_agentv.files.kind_reader import known_keys, read_part
from pytest_agentv.files.places import Place, RenamedPlace, misspelling
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.files.source import KeyPath
from pytest_agentv.model.base import Data, Json, JsonObject
from pytest_agentv.model.cases import AnyEvaluator
from pytest_agentv.model.kind import Kind, member_fault, needs_value
from pytest_agentv.model.kind_table import NEGATION, KindTable

_TYPE: Final = "type"
_NEGATE: Final = "negate"
_RUBRIC: Final = "rubric"
_STATEMENTS: Final = "statements"
"""The kinds that check the `rubrics` of a case and the bare texts of a list. The first is also a name."""
_MAPPING: Final = "an evaluator: a mapping such as {contains: 30 days}"


@dataclass(frozen=True, slots=True)
class _Written:
    """An evaluator in a file, in long or short form, of a known kind."""

    kind: Any
    keys: JsonObject
    place: Place


def load_evaluators(
    scope: Scope,
    share: LoadShared | None = None,
    beside: tuple[AnyEvaluator, ...] = (),
    turn: int | None = None,
) -> tuple[AnyEvaluator, ...]:
    """Check a list of evaluators and read their files.

    Leaves out invalid evaluators, and notes an error at the place of each. `share` finds those of other cases.
    `beside` are other evaluators of the case, whose names are taken. `turn` is the turn that all of them judge.
    Source: agentv-formats 6.1, 6.2; evaluation-2025-11, "User defines multiple evaluators in YAML".
    """
    if not isinstance(scope.value, list):
        hint = "put `- ` before its first key" if isinstance(scope.value, dict) else None
        scope.place.expected("a list of evaluators", scope.value, hint)
        return ()
    evaluators = [(evaluator, name) for evaluator, name in _load_items(scope, share) if evaluator is not None]
    if turn is not None:
        evaluators = [(each.model_copy(update={"turn": turn}), name) for each, name in evaluators]
    taken = {*(each.name for each, _ in evaluators), *(each.label for each in beside)}
    named: list[AnyEvaluator] = []
    for each, name in evaluators:
        named.append(each.with_name_beside(taken, name))
        taken.add(named[-1].label)
    return tuple(named)


def _load_items(scope: Scope, share: LoadShared | None) -> Iterator[tuple[Any, str | None]]:
    """Yield the evaluators of a list, and the names of those with variables.

    All texts of the list become one evaluator, in the place of the first text.
    """
    texts = [index for index, item in enumerate(scope.value) if isinstance(item, str) and item.strip()]
    for index, item in enumerate(scope.value):
        if not isinstance(item, str):
            inner = scope.at(item, index)
            load = partial(load_evaluator, inner)
            found = load() if share is None else share(item, scope.place, load)
            name: str | None = None
            if found is not None and isinstance(item, Filled):
                derive = partial(_written_name, item.written, inner, found)
                name = derive() if share is None else share(item.written, scope.place, derive)
            yield found, name
        elif not item.strip():
            scope.place.at(index).expected("a non-empty text", item)
        elif _names_kind(item.strip(), scope.place.at(index), scope.evaluators):
            continue
        elif index == texts[0]:
            # The judge weighs as much as one evaluator per text.
            keys = {"value": [scope.value[each] for each in texts], "weight": float(len(texts))}
            yield read_part(scope.evaluators[_STATEMENTS], keys, scope.place, context=scope), None


def _written_name(written: JsonObject, scope: Scope, filled: Any) -> str:
    """Return the name of an evaluator before its variables are filled in, so that all rows of a table have one name."""
    place = Place(scope.place.source, scope.place.keys, [])
    found: Any = load_evaluator(scope.replace(value=written, place=place))
    if found is not None:
        return str(found.derived_name())
    value = written.get(kind_word(written, scope.evaluators) or "")  # a variable may stand for a number or a list
    return str(filled.derived_name(value if isinstance(value, str) else ""))


def _names_kind(text: str, place: Place, table: KindTable) -> bool:
    """Whether a text is the name of a kind, or begins with one and a colon. Notes an error if it does.

    A model would judge in place of the check, and pass what the check fails.
    """
    word, colon, _ = text.partition(":")
    found = table.find(word) or table.find(word.lower())
    if found is not None:
        shown, kind = f"{word}: …" if colon else word, f"{NEGATION if found[1] else ''}{found[0]}"
        place.error(f"{shown!r} is a check in a text, which a model would judge", f"write a mapping: {{{kind}: …}}")
    return found is not None


def load_case_rubrics(scope: Scope) -> tuple[AnyEvaluator, ...]:
    """Return the judge for the `rubrics` of a case. `scope` is that of the case."""
    rubrics = scope.value["rubrics"]
    if rubrics == []:
        return ()
    judge = read_part(scope.evaluators[_RUBRIC], {"name": _RUBRIC, "rubrics": rubrics}, scope.place)
    return () if judge is None else (judge,)


def load_evaluator(scope: Scope) -> AnyEvaluator | None:
    """Read one evaluator that is a mapping or an object; None after a fault, which is noted."""
    found = _load(scope)
    if found is not None and found.own_code is not None and (fault := member_fault(found)):
        scope.place.error(fault)
        return None
    return found


def _load(scope: Scope) -> AnyEvaluator | None:
    if isinstance(scope.value, Kind) and hasattr(scope.value, "evaluate"):
        return adopt(scope)
    if not isinstance(scope.value, dict):
        wanted = _MAPPING if isinstance(scope.value, str) else f"{_MAPPING}, or a text that a judge checks"
        scope.place.expected(wanted, scope.value)
        return None
    written = _read_kind(scope)
    if written is None:
        return None
    inner = scope.replace(value=written.keys, place=written.place)
    found: AnyEvaluator | None = read_part(written.kind, written.keys, written.place, context=inner)
    for key in written.keys:
        if key not in known_keys(written.kind) and scope.evaluators.find(key) is not None:
            _hint_at_two(key, written.place)
    for key in ("path", "file") if found is not None and not written.kind.reads_answer else ():
        if written.keys.get(key) is not None:
            written.place.at(key).unread("nobody reads this key", f"{written.kind.kind} does not judge the answer")
    return found


def _given(built: Any) -> JsonObject:
    return {**{name: getattr(built, name) for name in built.model_fields_set}, **(built.model_extra or {})}


def _read_kind(scope: Scope) -> _Written | None:
    """Return the kind and the keys of a mapping. Notes a missing or unknown kind."""
    value, table = scope.value, scope.evaluators
    word = value.get(_TYPE)
    found = table.find(word) if isinstance(word, str) else None
    if found is not None:
        keys = {key: item for key, item in value.items() if key != _TYPE}
        return _written(table[found[0]], keys, scope.place, is_negated=found[1])
    short = kind_word(value, table) if word is None else None
    if short is not None:
        return _read_short(short, scope)
    _note_no_kind(value, table, scope.place)
    return None


def _note_no_kind(value: JsonObject, table: KindTable, place: Place) -> None:
    """Note that a mapping names no kind, at the key that is meant to name one, if there is such a key."""
    one_of = f"one of {table.listed()}"
    if _TYPE in value:
        hint = _hint(value[_TYPE], table)
        place.at(_TYPE).expected("a kind of evaluator" if hint else one_of, value[_TYPE], hint)
        return
    kinds: Any = table.values()
    known = frozenset(key for kind in kinds for key in known_keys(kind))
    slip = misspelling(_TYPE, value, known)
    word = next((key for key in value if key not in known), None)
    if word is None or slip is not None:
        place.at(_TYPE).error(f"is missing: expected {one_of}", slip)
    else:
        hint = _hint(word, table)
        place.at(word).error("is no kind of evaluator" if hint else f"is no kind of evaluator: expected {one_of}", hint)


def _hint(word: Json, table: KindTable) -> str | None:
    """Return what to write for an unknown kind: the word of another tool, or a misspelt one."""
    if not isinstance(word, str):
        return None
    plain = word.replace("_", "-").lower()
    instead = table.elsewhere.get(plain.removeprefix(NEGATION))
    return instead or did_you_mean(plain, [*table, *(f"{NEGATION}{each}" for each in table)])


def _hint_at_two(key: str, place: Place) -> None:
    """Add to the error of an unknown key that it is itself a kind."""
    for index, problem in enumerate(place.problems):
        if problem.message == "unknown key" and problem.key.endswith(f".{key}"):
            hint = "each check is an entry of the list: put `- ` before it"
            place.problems[index] = problem.replace(hint=hint)


def _written(kind: Any, keys: JsonObject, place: Place, *, is_negated: bool) -> _Written:
    if not is_negated:
        return _Written(kind, keys, place)
    if _NEGATE in keys:
        place.at(_NEGATE).error("says the same as `not-` before the kind", "write one of the two")
    return _Written(kind, {**keys, _NEGATE: True}, place)


def _read_short(word: str, scope: Scope) -> _Written | None:
    """Return the kind and the keys of `{contains: x, weight: 2}`. Faults are noted at their places in the file."""
    name, is_negated = scope.evaluators.find(word) or (word, False)
    kind: Any = scope.evaluators[name]
    value = scope.value[word]
    # Without a short key, a mapping from a variable can only be the keys.
    is_value = isinstance(value, Data) and not kind.takes_data and kind.short_key is not None
    try:
        inner = {kind.short_key: value} if is_value else kind.keys_of(value)
    except PydanticCustomError as error:
        scope.place.at(word).expected((error.context or {})["what"], value)
        return None
    if value is None and needs_value(kind, scope.value.keys() - {word}):
        hint = "null in the answer is found by `is-json: {const: null}`" if kind.takes_data else None
        scope.place.at(word).expected("a value", value, hint)
        return None
    is_mapping = isinstance(value, Mapping) and not kind.takes_data and not is_value
    # A key that the mapping lacks was added by its kind, or is missing.
    homes = {key: _home(scope, word, *([key] if key in value else [])) for key in inner} if is_mapping else {}
    main = kind.short_key
    outer = {key: item for key, item in scope.value.items() if key != word}
    for key in outer:
        if key in inner:
            scope.place.at(key).error(f"is written twice: it stands in {word!r} too")
        homes[key] = _home(scope, key)
    if main is not None:
        homes.setdefault(main, _home(scope, word, main) if is_mapping else _home(scope, word))
    place = RenamedPlace(scope.place.source, scope.place.keys, scope.place.problems, homes)
    return _written(kind, {**inner, **outer}, place, is_negated=is_negated)


def _home(scope: Scope, *keys: str) -> KeyPath:
    """Return the written places of keys, below the place of the evaluator."""
    return scope.place.at(*keys).keys[len(scope.place.keys) :]


def adopt(scope: Scope) -> AnyEvaluator | None:
    """Return an evaluator that was built in Python with its files read; None after a fault."""
    found: AnyEvaluator | None = read_part(type(scope.value), _given(scope.value), scope.place, context=scope)
    return found


def kind_word(value: JsonObject, table: KindTable) -> str | None:
    """Return the key of a short form that names its kind: the first one in the table."""
    return next((key for key in value if table.find(key) is not None), None)
