"""Loads the evaluators of cases: reads each item of a list as the kind that it names (agentv-formats 6).

An item is a mapping, a text that a judge checks, or, in Python, an object. Imports pydantic: import this lazily.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import PydanticCustomError

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.prompts import template_variables
from pytest_agentv.cases.references import LoadShared, References, Scope, WrittenCase
from pytest_agentv.cases.variables import Filled
from pytest_agentv.files.kind_reader import known_keys, read_part
from pytest_agentv.files.places import (
    EVALUATOR_LIST_KEYS,
    Place,
    RenamedPlace,
    evaluator_lists,
    first_key,
    misspelt_key,
    takes_place,
)
from pytest_agentv.files.problems import Problem, did_you_mean
from pytest_agentv.model.base import Data, Json, JsonObject, counted
from pytest_agentv.model.cases import AnyEvaluator, TurnPlan, member_fault
from pytest_agentv.model.kind import Kind, needs_value
from pytest_agentv.model.kind_table import NEGATION, KindTable

_TYPE: Final = "type"
_NEGATE: Final = "negate"
_RUBRIC: Final = "rubric"
_STATEMENTS: Final = "statements"
"""The kinds that check the `rubrics` of a case and the bare texts of a list. The first is also a name."""
_MAPPING: Final = "an evaluator: a mapping such as {contains: 30 days}"


_Written: TypeAlias = tuple[Any, JsonObject, Place]
"""The kind of an evaluator in a file, its keys without the short form, and their place."""


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
    """Yield the evaluators of a list, all its texts as one, and the names of those with variables."""
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
    """Whether a text begins with the name of a kind, which a model would judge. Notes an error if it does."""
    word, colon, _ = text.partition(":")
    found = table.find(word) or table.find(word.lower())
    if found is not None:
        shown, kind = f"{word}: …" if colon else word, f"{NEGATION if found[1] else ''}{found[0]}"
        place.error(f"{shown!r} is a check in a text, which a model would judge", f"write a mapping: {{{kind}: …}}")
    return found is not None


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
    kind, keys, place = written
    found: AnyEvaluator | None = read_part(kind, keys, place, context=scope.replace(value=keys, place=place))
    two = [f".{key}" for key in keys if key not in known_keys(kind) and scope.evaluators.find(key) is not None]
    for index, problem in enumerate(place.problems if two else ()):
        if problem.message == "unknown key" and problem.key.endswith(tuple(two)):
            hint = "each check is an entry of the list: put `- ` before it"
            place.problems[index] = problem.replace(hint=hint)
    for key in ("path", "file") if found is not None and not kind.reads_answer else ():
        if keys.get(key) is not None:
            place.at(key).unread("nobody reads this key", f"{kind.kind} does not judge the answer")
    return found


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
    slip = misspelt_key(_TYPE, value, known)
    word = next((key for key in value if key not in known), None)
    if word is None or slip is not None:
        place.at(_TYPE).error(f"is missing: expected {one_of}", slip and f"is {slip!r} a misspelling of it?")
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


def _written(kind: Any, keys: JsonObject, place: Place, *, is_negated: bool) -> _Written:
    if not is_negated:
        return kind, keys, place
    if _NEGATE in keys:
        place.at(_NEGATE).error("says the same as `not-` before the kind", "write one of the two")
    return kind, {**keys, _NEGATE: True}, place


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
    homes = {key: (word, key) if key in value else (word,) for key in inner} if is_mapping else {}
    main = kind.short_key
    outer = {key: item for key, item in scope.value.items() if key != word}
    for key in outer:
        if key in inner:
            scope.place.at(key).error(f"is written twice: it stands in {word!r} too")
        homes[key] = (key,)
    if main is not None:
        homes.setdefault(main, (word, main) if is_mapping else (word,))
    place = RenamedPlace(scope.place.source, scope.place.keys, scope.place.problems, homes)
    return _written(kind, {**inner, **outer}, place, is_negated=is_negated)


def adopt(scope: Scope) -> AnyEvaluator | None:
    """Return an evaluator that was built in Python with its files read; None after a fault."""
    built = scope.value
    given = {**{name: getattr(built, name) for name in built.model_fields_set}, **(built.model_extra or {})}
    found: AnyEvaluator | None = read_part(type(built), given, scope.place, context=scope)
    return found


def kind_word(value: JsonObject, table: KindTable) -> str | None:
    """Return the key of a short form that names its kind: the first one in the table."""
    return next((key for key in value if table.find(key) is not None), None)


# The evaluators of a case: its own, else those of its file.

_OWN_WORDS: Final = ("rubrics", "prompt", "prompt_path")


def choose_evaluators(written: WrittenCase) -> tuple[AnyEvaluator, ...] | None:
    """Return the evaluators of the case and of its file (agentv-formats 1.6, 6.4); None if there are none at all."""
    value, place = written.value, written.place
    rubrics: tuple[AnyEvaluator, ...] = ()
    if value.get("rubrics") not in (None, []):
        keys = {"name": _RUBRIC, "rubrics": value["rubrics"]}
        judge = read_part(written.context.evaluators[_RUBRIC], keys, place)
        rubrics = () if judge is None else (judge,)
    # Cases without evaluators of their own share the tuple of their file, which is hashed only once.
    of_file = () if takes_place(value) else _of_file(written)
    own = _load_list(written, value, place, beside=of_file)
    turns: tuple[AnyEvaluator, ...] = ()
    for index, turn in enumerate(value["turns"] if isinstance(value.get("turns"), list) else ()):
        key = first_key(turn, EVALUATOR_LIST_KEYS[:2]) if isinstance(turn, dict) else None
        if key is not None:  # each is a check with the key `turn`
            scope = written.scope(turn[key], place.at("turns", index, key))
            turns += load_evaluators(scope, written.share, of_file + own + turns, turn=index + 1)
    return rubrics + turns + own + of_file or None


def note_turns(evaluators: Sequence[AnyEvaluator], turns: TurnPlan | None, place: Place) -> None:
    """Note checks of turns that the conversation cannot have."""
    if turns is not None and turns.user is not None:
        return
    last = 0 if turns is None else len(turns.inputs)
    for each in (each for one in evaluators for each in one.walk() if each.own_code is None):
        if (turn := getattr(each, "turn", None) or 0) > last:
            what = f"has {counted(last, 'turn')}" if last else "is no conversation"
            place.error(f"a check has `turn: {turn}`, but the case {what}")


def _load_list(
    written: WrittenCase, mapping: JsonObject, place: Place, beside: tuple[AnyEvaluator, ...] = ()
) -> tuple[AnyEvaluator, ...]:
    """Load the first list of evaluators of a case or a file. An empty list means the default judge."""
    for keys, value in evaluator_lists(mapping)[:1]:
        return load_evaluators(written.scope(value, place.at(*keys)), written.share, beside)
    return ()


def _of_file(written: WrittenCase) -> tuple[AnyEvaluator, ...]:
    known: dict[Any, tuple[tuple[AnyEvaluator, ...], tuple[Problem, ...]]] = written.context.shared.setdefault(
        "files", {}
    )
    key = written.suite.path, tuple(written.variables or ())
    found = known.get(key)
    if found is None:
        lists = {key: each for key, each in written.suite.header.items() if key in ("execution", *EVALUATOR_LIST_KEYS)}
        place = written.header_place([])
        filled = written.fill(lists, place, is_check=True)
        is_alike = filled is lists and not place.problems  # a value of one case may be what cannot be filled in
        found = _load_list(written, filled, place), tuple(place.problems)
        if is_alike:  # evaluators with variables differ by case
            known[key] = found
    written.place.problems.extend(found[1])
    return found[0]


def wants_outcome(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or one of its members, uses the expected outcome."""
    return any(each.kind == "llm_judge" and not any(map(each.to_plain().get, _OWN_WORDS)) for each in evaluator.walk())


def looks_at_workspace(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or one of its members, looks at the workspace."""
    return any(
        each.kind == "command" or isinstance(getattr(each, "file", None), str)
        for each in evaluator.walk()
        if each.own_code is None and each.kind != "code_judge"
    )


# What several cases share: evaluators without variables.

Known: TypeAlias = dict[tuple[int, tuple[str, ...]], tuple[Json, Any]]
"""Evaluators with the mappings in the file, by the ids of these and the names of variables."""


def share_evaluators(suite: SuiteSource, entry: CaseEntry, variables: tuple[str, ...], known: Known) -> LoadShared:
    """Return a function that gives the evaluators that a case shares with others: of a template, `defaults`, the file.

    A mapping without variables stays the same object when these are filled in. `variables` are their names, and
    `known` holds the evaluators of earlier cases.
    """
    is_template = entry.row is not None and suite.has_template
    of_case = evaluator_lists(entry.value)
    shared = [each for keys, each in of_case if is_template or keys in entry.origins or keys[:1] in entry.origins]
    shared += [each for _, each in evaluator_lists(suite.header)]
    ids = frozenset(id(item) for each in shared if isinstance(each, list) for item in each)

    def share(value: Json, place: Place, load: Callable[[], Any]) -> Any:
        if id(value) not in ids:
            return load()
        key = id(value), variables
        if key not in known:
            noted = len(place.problems)
            found = load()
            if found is None or len(place.problems) > noted:
                return found
            known[key] = value, found  # keeps the mapping alive, so that no other one gets its id
        return known[key][1]

    return share


# The prompts of judges, which are texts or files, and their scripts (agentv-formats 6.3, 6.5, 6.6).

TEMPLATE_VARIABLES: Final = (
    *("candidate_answer", "expected_outcome", "reference_answer", "question"),
    *("input_messages", "expected_messages", "output_messages", "retrieved_context"),
    *("file_changes", "workspace_path"),
)
_NEWER_NAMES: Final = {
    "criteria": "expected_outcome",
    "expected_output": "reference_answer",
    "input": "question",
    "answer": "candidate_answer",
    "output": "candidate_answer",
}
"""What newer AgentV calls these variables. A judge that gets the braces in place of the text judges something else."""

AGGREGATOR_VARIABLE: Final = "EVALUATOR_RESULTS_JSON"

NO_MODEL: Final = {"model": "write the name of a target: `judge: <name>`"}
"""The hint for a key that AgentV accepts but never reads."""

_PATH: Final = re.compile(
    r"[^\s{}]+\.(?:md|mdx|markdown|txt|prompt)|[^\n{}]*/[^\n{}]*\.(?:md|mdx|markdown|txt|prompt)|[^\s{}]*/[^\s{}]+"
)
"""A prompt that can only be the path of a file."""


class JudgeTemplate(NamedTuple):
    """The text of a judge's prompt."""

    text: str
    is_file: bool


def load_template(
    prompt: str | None, prompt_path: str | None, place: Place, references: References
) -> JudgeTemplate | None:
    """Return the template of a judge's `prompt` (a text or a path) or `prompt_path`, one of which is there."""
    if prompt is not None and prompt_path is not None:
        place.error("both prompt and prompt_path are there: keep one")
        return None
    if prompt is not None and not _PATH.fullmatch(prompt):
        path = None if "\n" in prompt else references.find(prompt).path
        if path is None or not path.is_file():
            return JudgeTemplate(prompt, is_file=False)
    key = "prompt_path" if prompt is None else "prompt"
    file = references.read(prompt or prompt_path or "", place.at(key), is_text=True)
    return JudgeTemplate(file.text, is_file=True) if file else None


def check_judge_template(
    template: JudgeTemplate, place: Place, variables: Collection[str] = (), *, needs_answer: bool = True
) -> None:
    """Note faults of a judge's template: no answer to judge, variables with other names. `variables` are the case's.

    AgentV rejects a file (not an inline text) that uses neither the answer nor the expected messages. An inline text
    without the answer may be meant, unless an unknown variable stands where the answer should be.
    """
    names = template_variables(template.text)
    newer = {name: _NEWER_NAMES[name] for name in names if name in _NEWER_NAMES and name not in variables}
    for name, ours in newer.items():
        place.error(f"the template uses {{{{ {name} }}}}, a variable of newer AgentV", f"write {{{{ {ours} }}}}")
    used = [newer.get(name, name) for name in names]
    unknown = _warn_of_unknown_variables(used, (*TEMPLATE_VARIABLES, *variables), place)
    if needs_answer and not {"candidate_answer", "output_messages", "file_changes"} & set(used):
        is_error = unknown or (template.is_file and "expected_messages" not in used)
        note = place.error if is_error else place.warn
        note("the template does not use {{ candidate_answer }}: the judge does not see the answer", unknown)


def check_aggregator_template(template: JudgeTemplate, place: Place) -> None:
    """Note unknown variables of an aggregator's template, and that it does not use the results."""
    used = template_variables(template.text)
    unknown = _warn_of_unknown_variables(used, (AGGREGATOR_VARIABLE,), place)
    if AGGREGATOR_VARIABLE not in used:
        note = place.error if unknown else place.warn
        note(f"the template does not use {{{{{AGGREGATOR_VARIABLE}}}}}: the judge does not see the results", unknown)


def _warn_of_unknown_variables(used: Collection[str], known: Collection[str], place: Place) -> str | None:
    """Warn of unknown variables. Returns a hint about the first of them; None if there are none."""
    hints = {name: did_you_mean(name, known) for name in used if name not in known}
    for name, hint in hints.items():
        note = f"the template uses the unknown variable {{{{ {name} }}}}"
        place.warn(note, hint or f"known: {', '.join(known)}")
    return next((f"{{{{ {name} }}}} is not known{(hint and f'; {hint}') or ''}" for name, hint in hints.items()), None)


# The folder and the command of a script.

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node", ".sh": "sh"}
"""The interpreter of a script that is given by its path only and has no `#!` line."""
INTERPRETER: Final = re.compile(r"(python|pypy|node|bun|tsx|ts-node|sh|bash|dash|zsh)[\d.]*(\.exe)?")
SCRIPT_SUFFIXES: Final = frozenset((*_INTERPRETERS, ".ts"))


def script_command(script: str, cwd: Path, scope: Scope) -> tuple[str, ...]:
    """Return the command of a script that is a text: a shell command, or the path of a file (agentv-formats 6.5)."""
    interpreter = _INTERPRETERS.get(Path(script.strip()).suffix)
    if interpreter is not None:
        reference = scope.references.find(script.strip(), cwd)
        if reference.path is not None and reference.path.is_file():
            path = str(reference.path)
            is_program = os.access(path, os.X_OK) and reference.path.read_bytes()[:2] == b"#!"
            return (path,) if is_program else (interpreter, path)
        if "/" in script and len(script.split()) == 1:
            scope.place.at("script").error(f"file {reference.describe_missing()}")
    return "sh", "-lc", script
