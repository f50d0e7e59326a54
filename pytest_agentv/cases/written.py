"""A case as it is written in an eval file, its variables, its evaluators, and what it shares with other cases."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_agentv.cases.entries import COLLECTED_KEYS, CaseEntry, SuiteSource
from pytest_agentv.cases.references import LoadShared, References, Scope
from pytest_agentv.cases.variables import (
    IN_CHECKS,
    UNFILLED,
    TemplateFault,
    as_text,
    fill,
    has_template,
    raw_keys,
    render,
)
from pytest_agentv.errors import locate
from pytest_agentv.files.places import (
    EVALUATOR_LIST_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    OUTCOME_KEYS,
    Place,
    evaluator_lists,
    first_key,
    takes_place,
)
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Json, JsonObject, Record, counted
from pytest_agentv.model.cases import AnyEvaluator, EvalCase, TurnPlan, Workspace
from pytest_agentv.model.kind_table import KindTable
from pytest_agentv.model.options import UnknownKeys

if TYPE_CHECKING:
    from pytest_agentv.cases.keys import Shared, Suite

FileEvaluators: TypeAlias = tuple[tuple[AnyEvaluator, ...], tuple[Problem, ...]]
"""The evaluators that a file sets for its cases, and their problems."""


@dataclass(frozen=True, slots=True)
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
    """What is kept for other cases of the same template."""


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """A case as it is written. Its readers note each fault at its place, and continue with a harmless value."""

    suite: SuiteSource
    value: JsonObject
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

        return fill_value(value, self.variables, place, is_check=is_check)

    def header_place(self, problems: list[Problem] | None = None) -> Place:
        """Return the place of the file's own keys for this case. By default, faults there belong to the case."""
        return self.suite.header_place(self.place.problems if problems is None else problems, self.place.source.row)

    def scope(self, value: Json, place: Place) -> Scope:
        """Return the scope for loading the evaluators at a place."""
        return Scope(value, place, self.references.at(place), self.context.evaluators, tuple(self.variables or ()))


def note_twins(mapping: JsonObject, place: Place) -> None:
    """Note a target, a threshold or a list of evaluators that is not read because there is another one.

    For the target, `execution` wins; for the threshold, the key beside it. Source: agentv-formats 1.2.
    """
    lists = [(keys, value) for keys, value in evaluator_lists(mapping)]
    for keys, value in lists[1:]:
        if value != []:
            place.at(*keys).unread(f"is not read, because {'.'.join(lists[0][0])!r} is there as well", _KEEP_ONE)
    execution = mapping.get("execution")
    if isinstance(execution, dict):
        for key, unread, read in (
            ("target", ("target",), "execution.target"),
            ("threshold", ("execution", "threshold"), "threshold"),
        ):
            values = [
                each.strip() if isinstance(each, str) else each for each in (mapping.get(key), execution.get(key))
            ]
            if all(each is not None and each != "" for each in values) and values[0] != values[1]:
                place.at(*unread).unread(f"is not read, because {read!r} is there as well", _KEEP_ONE)


_KEEP_ONE: Final = "keep one of them"


def read_header(suite: SuiteSource, context: LoadContext) -> tuple["Suite | None", tuple[Problem, ...]]:
    """Return the keys of a file that apply to its cases, and their faults, which are faults of each case."""
    from pytest_agentv.cases.keys import Suite  # noqa: PLC0415 - imports pydantic
    from pytest_agentv.files.kind_reader import read_part  # noqa: PLC0415 - imports pydantic

    known = context.shared.setdefault("headers", {})
    if suite.path not in known:
        place = suite.header_place([])
        keys = read_part(Suite, suite.header, place)
        note_twins(suite.header, place)
        known[suite.path] = keys, tuple(place.problems)
    found: tuple[Suite | None, tuple[Problem, ...]] = known[suite.path]
    return found


# The evaluators of a case: its own, else those of its file.

_OWN_WORDS: Final = ("rubrics", "prompt", "prompt_path")


def choose_evaluators(written: WrittenCase) -> tuple[AnyEvaluator, ...] | None:
    """Return the evaluators of the case and of its file; None if there are none at all.

    Those of the file come behind a list called `assert`, or in place of a missing one, unless `skip_defaults` is true.
    Source: agentv-formats 1.6, 6.4.
    """
    value, place = written.value, written.place
    rubrics: tuple[AnyEvaluator, ...] = ()
    if value.get("rubrics") is not None:
        from pytest_agentv.cases.evaluators import load_case_rubrics  # noqa: PLC0415 - imports pydantic

        rubrics = load_case_rubrics(written.scope(value, place))
    keys = next((keys for keys, _ in evaluator_lists(value)), None)
    # Cases without evaluators of their own share the tuple of their file, which is hashed only once.
    of_file = () if takes_place(value) else _of_file(written)
    own = () if keys is None else _load_list(written, value, place, beside=of_file)
    turns = _of_turns(written, beside=of_file + own)
    return rubrics + turns + own + of_file or None


def _of_turns(written: WrittenCase, beside: tuple[AnyEvaluator, ...]) -> tuple[AnyEvaluator, ...]:
    """Load the checks of the turns of a conversation, each as a check with the key `turn`."""
    found: tuple[AnyEvaluator, ...] = ()
    turns = written.value.get("turns")
    for index, turn in enumerate(turns if isinstance(turns, list) else ()):
        key = first_key(turn, EVALUATOR_LIST_KEYS[:2]) if isinstance(turn, dict) else None
        if key is not None:
            from pytest_agentv.cases.evaluators import load_evaluators  # noqa: PLC0415 - imports pydantic

            scope = written.scope(turn[key], written.place.at("turns", index, key))
            found += load_evaluators(scope, written.share, beside + found, turn=index + 1)
    return found


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
        from pytest_agentv.cases.evaluators import load_evaluators  # noqa: PLC0415 - imports pydantic

        return load_evaluators(written.scope(value, place.at(*keys)), written.share, beside)
    return ()


def _of_file(written: WrittenCase) -> tuple[AnyEvaluator, ...]:
    known, key = written.context.file_evaluators, (written.suite.path, tuple(written.variables or ()))
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


# The folder that the target works in.


def load_workspace(written: WrittenCase, case: "Shared | None", suite: "Shared | None") -> Workspace | None:
    """Return the workspace of a case, each key of its own or that of its file; None: there is none, or a fault."""
    of_case, of_file = case and case.workspace, suite and suite.workspace
    if of_case is None and of_file is None:
        return None
    places = {True: written.place, False: written.header_place()}
    own = {} if of_case is None else of_case.to_plain()
    shared = {} if of_file is None else written.fill(of_file.to_plain(), places[False].at("workspace"))
    keys = {**shared, **own}
    noted = len(written.place.problems)

    def folder(key: str, value: str) -> str:
        place = places[key in own].at("workspace")
        found = written.references.at(place).find_folder(value, place)
        return "" if found is None else str(found)

    source, hidden, overlay = keys.get("source"), keys.get("hidden") or (), keys.get("overlay")
    if not source:
        written.place.at("workspace").error("`from` is missing: the folder that each answer gets a copy of")
        return None
    source = source if keys.get("ref") and re.search(r"://|^\S+@\S+:", source) else folder("source", source)
    folders = tuple(folder("hidden", each) for each in ([hidden] if isinstance(hidden, str) else hidden))
    for each in folders:
        if source and Path(each).is_relative_to(source):
            places["hidden" in own].at("workspace").error(
                f"the hidden folder {locate(Path(each), None)} lies in `from`, where the target sees it"
            )
    has_overlay = overlay not in (None, "", "none")
    rest = {key: keys[key] for key in ("ref", "setup", "before", "check", "keep", "sandbox") if key in keys}
    laid_over = folder("overlay", str(overlay)) if has_overlay else None
    return None if len(written.place.problems) > noted else Workspace(source, hidden=folders, overlay=laid_over, **rest)


def looks_at_workspace(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or one of its members, looks at the workspace."""
    return any(
        each.kind == "command" or isinstance(getattr(each, "file", None), str)
        for each in evaluator.walk()
        if each.own_code is None and each.kind != "code_judge"
    )


# The variables of a case, filled into it, and prompt files, replaced by their texts.

_NOT_OF_CASES: Final = frozenset((*COLLECTED_KEYS, "vars", "metadata", "description", "note"))
"""Keys of a case that are filled at collection, or never."""
_TEXTS: Final = frozenset(("id", "conversation_id", "target", "judge", *INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS))
"""Keys whose numbers become texts."""
_CHECKS: Final = frozenset(("execution", "turns", *EVALUATOR_LIST_KEYS))
_CONTENT_KEYS: Final = frozenset(("content", "value", "name"))
_FILE: Final = "file"


def fill_case(
    value: JsonObject, variables: JsonObject | None, place: Place, references: References, *, is_row: bool
) -> JsonObject:
    """Return a case with its variables and its prompt file filled in. Notes faults at their places.

    The id of a case in a list stays unchanged, because it names the item.
    """
    if variables is not None:
        kept = _NOT_OF_CASES if is_row else _NOT_OF_CASES | {"id"}
        value = {
            key: item if key in kept else _filled(key, item, variables, place.at(key)) for key, item in value.items()
        }
    key = first_key(value, INPUT_KEYS)
    if key is None or not isinstance(value[key], dict) or _FILE not in value[key]:
        return value
    where = place.at(key)
    return {**value, key: _prompt(value[key], where, references.at(where), variables)}


def _filled(key: str, template: Json, variables: JsonObject, place: Place) -> Json:
    filled = fill_value(template, variables, place, is_check=key in _CHECKS)
    return _texts(filled, template) if key in _TEXTS and filled is not template else filled


def _texts(filled: Json, template: Json) -> Json:
    """Convert numbers from templates to texts: whole texts, and the contents of messages. Data keeps its types."""
    if isinstance(template, str):
        return filled if isinstance(filled, list | dict) else as_text(filled)
    if isinstance(template, list):
        return [_message_texts(new, old) for new, old in zip(filled, template, strict=True)]
    return filled


def _message_texts(filled: Json, template: Json) -> Json:
    if not isinstance(template, dict):
        return _texts(filled, template)
    return {key: _texts(filled[key], item) if key in _CONTENT_KEYS else filled[key] for key, item in template.items()}


def _prompt(value: JsonObject, place: Place, references: References, variables: JsonObject | None) -> str:
    """Return the text of `input: {file: …}`, filled; empty after a fault. Notes faults."""
    name = value[_FILE]
    if not isinstance(name, str) or not name.strip() or len(value) > 1:
        place.expected("a text, a list of messages, or {file: path of a prompt}", value)
        return ""
    file = references.read(name, place.at(_FILE), is_text=True)
    text = "" if file is None else file.text.rstrip("\n")
    if file is None or variables is None or not has_template(text):
        return text
    try:
        return as_text(render(text, variables))
    except TemplateFault as fault:
        place.at(_FILE).error(f"{locate(file.path, fault.line)}: {fault}", fault.hint)
        return ""


def fill_value(value: Json, variables: JsonObject, place: Place, *, is_check: bool = False) -> Json:
    """Return a value of a case or file with its templates filled in; the same object if it has none."""
    return fill(value, variables, place, IN_CHECKS if is_check else UNFILLED)


_VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*[A-Za-z_]\w*\s*\}\}|\$\{\{\s*[A-Z][A-Z0-9_]*\s*\}\}", re.ASCII)
"""A variable of a case, or, with `$`, one of the environment as AgentV 4 reads it."""
_FIRST_NAME: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_]\w*)", re.ASCII)
_WRITE_CASE: Final = "write `case:` with id and input: columns are variables there"


def note_unfilled(written: WrittenCase, entry: CaseEntry) -> None:
    """Note braces that stay as they are, because the case has no variables: once per file, as a hint.

    Checks of a file, or of its `defaults`, that name a column of a row which is a whole case are errors:
    `not-contains: "{{ answer }}"` would pass for any answer. A row's own values are data.
    """
    value, columns = written.value, {} if entry.row is None else entry.row.values
    keys = (*INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS, "rubrics", *_CHECKS)
    own = {key: value[key] for key in keys if key in value and (entry.row is None or (key,) in entry.origins)}
    of_file = {} if takes_place(value) else {key: each for key, each in written.suite.header.items() if key in _CHECKS}
    told = written.context.shared.setdefault("unfilled", set())
    for mapping, around in ((own, written.place), (of_file, written.header_place())):
        for place, text in _texts_of(mapping, around, written.context.evaluators):
            column = next((name for name in _FIRST_NAME.findall(text) if name in columns), None)
            word = _VARIABLE.search(text)
            if column is not None and place.keys[len(around.keys)] in ("rubrics", *_CHECKS):
                place.error(f"{{{{ {column} }}}} stays as it is, because the rows are whole cases", _WRITE_CASE)
            elif word is not None and written.suite.path not in told:
                told.add(written.suite.path)
                if word[0].startswith("$"):
                    place.suggest(f"{word[0]} stays as it is", "only targets files read variables of the environment")
                else:
                    hint = _WRITE_CASE if column else "`vars:` of the case or its file fill it in"
                    place.suggest(f"{word[0]} stays as it is, because the case has no variables", hint)


def _texts_of(value: Json, place: Place, kinds: KindTable) -> Iterator[tuple[Place, str]]:
    """Yield the texts with `{{`. Code, prompts of judges and evaluators of the project have templates of their own."""
    if isinstance(value, str) and "{{" in value:
        yield place, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if not (isinstance(item, dict) and _has_own_keys(item, kinds)):
                yield from _texts_of(item, place.at(index), kinds)
    elif isinstance(value, dict):
        raw = raw_keys(value, UNFILLED)
        for key, item in value.items():
            if key not in raw and (key not in ("llm_judge", "code_judge") or isinstance(item, dict)):
                yield from _texts_of(item, place.at(key), kinds)


def _has_own_keys(check: JsonObject, kinds: KindTable) -> bool:
    """Whether a mapping may be an evaluator of the project, or a script."""
    word = check.get("type")
    found = next(filter(None, map(kinds.find, check if word is None else (str(word),))), None)
    kind: Any = None if found is None else kinds[found[0]]
    return kind is not None and (kind.model_config.get("extra") == "allow" or not kind.__module__.startswith(_OURS))


_OURS: Final = "pytest_agentv."


# What several cases share: evaluators without variables, and the cases of several targets.

Known: TypeAlias = dict[tuple[int, tuple[str, ...]], tuple[Json, Any]]
"""Evaluators with the mappings in the file, by the ids of these and the names of variables."""


def written_evaluators(
    entry: CaseEntry, header: JsonObject, variables: tuple[str, ...], known: Known, *, is_template: bool
) -> "WrittenEvaluators":
    """Return the written evaluators that a case shares with others: those of a template, of `defaults` or of the file.

    Args:
        entry: The case.
        header: The keys of its file.
        variables: The names of its variables.
        known: The evaluators of earlier cases.
        is_template: Whether the whole case comes from the template of a table.
    """
    of_case = evaluator_lists(entry.value)
    shared = [each for keys, each in of_case if is_template or keys in entry.origins or keys[:1] in entry.origins]
    shared += [each for _, each in evaluator_lists(header)]
    ids = frozenset(id(item) for each in shared if isinstance(each, list) for item in each)
    return WrittenEvaluators(ids, variables, known)


@dataclass(frozen=True, slots=True)
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
        wanted = entry.combination
        for each, loaded in self._loaded:
            known = each.combination
            if known and wanted and (known.prompt, known.variables) == (wanted.prompt, wanted.variables):
                return loaded
        return None

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
