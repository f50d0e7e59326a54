"""Loads an entry of an eval file into the case that the engine runs. Imports pydantic: import this lazily."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.entries import COLLECTED_KEYS, CaseEntry, SuiteSource
from pytest_agentv.cases.evaluators import (
    choose_evaluators,
    looks_at_workspace,
    note_turns,
    share_evaluators,
    wants_outcome,
)
from pytest_agentv.cases.keys import Case, Execution, Message, Shared, Suite
from pytest_agentv.cases.prompts import asks_nothing
from pytest_agentv.cases.references import (
    LoadContext,
    LoadedCase,
    ReferencedFile,
    References,
    WrittenCase,
    is_address,
)
from pytest_agentv.cases.variables import (
    TemplateFault,
    as_text,
    fill,
    has_template,
    raw_keys,
    render,
)
from pytest_agentv.errors import CaseError, locate
from pytest_agentv.files.kind_reader import read_part
from pytest_agentv.files.places import (
    EVALUATOR_LIST_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    OUTCOME_KEYS,
    Place,
    RenamedPlace,
    evaluator_lists,
    first_key,
    takes_place,
)
from pytest_agentv.files.problems import (
    BlankInput,
    Problem,
    UnreadKey,
    did_you_mean,
    join_problems,
    quotes,
    with_problems,
)
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json, JsonObject, pretty_json, unshared
from pytest_agentv.model.base import mapping as as_mapping
from pytest_agentv.model.cases import EvalCase, SimulatedUser, TurnPlan, Workspace
from pytest_agentv.model.kind_table import KindTable
from pytest_agentv.model.messages import ContentPart, FilePart, InputMessage, ObjectPart, OtherPart, Role, TextPart


def load_case(suite: SuiteSource, entry: CaseEntry, context: LoadContext) -> LoadedCase:
    """Check an entry and read the files it names. Raises `CaseError` with all faults (agentv-formats 1.3 to 1.9)."""
    if entry.fault is not None:
        raise with_problems(CaseError(str(entry.fault)), [entry.fault])
    if suite.foreign is not None and context.unknown_keys == "error":
        raise with_problems(CaseError(str(suite.foreign)), [suite.foreign])
    combination = entry.combination
    if combination is None:
        return _load_case(suite, entry, context)

    # The cases of an entry that differ only by their targets are loaded once.
    owner: tuple[Path, int] | None
    recent: dict[tuple[str | None, str], LoadedCase]
    owner, recent = context.shared.get("recent", (None, {}))
    if owner != (suite.path, entry.index):
        recent = {}
        context.shared["recent"] = (suite.path, entry.index), recent
    key = combination.prompt, as_text(combination.variables)
    if key not in recent:
        recent[key] = _load_case(suite, entry, context)
    case = recent[key].case
    target = combination.target or case.target
    return recent[key].replace(case=case.replace(eval_id=entry.eval_id or case.eval_id, target=target))


def _load_case(suite: SuiteSource, entry: CaseEntry, context: LoadContext) -> LoadedCase:
    problems: list[Problem] = []
    try:
        case, value = _load(suite, entry, context, suite.case_place(entry, problems))
    except RecursionError:
        raise CaseError(f"{locate(suite.path, entry.line)}: the values of the case are nested too deeply") from None
    if context.unknown_keys == "warn":
        softer = {"level": "warning", "row": None}  # it is shown once, not for each row
        problems = [each.replace(**softer) if isinstance(each, UnreadKey) else each for each in problems]
    faults = [problem for problem in problems if context.strict or problem.level == "error"]
    if case is None or any(not isinstance(problem, BlankInput) for problem in faults):
        raise with_problems(CaseError(join_problems(faults)), problems)
    return LoadedCase(case, tuple(problems), value)


def _load(
    suite: SuiteSource, entry: CaseEntry, context: LoadContext, place: Place
) -> tuple[EvalCase | None, JsonObject]:
    if not isinstance(entry.value, dict):
        place.expected("an eval case: a mapping with id, input and criteria or checks", entry.value)
        return None, {}
    references = References(folder_of(suite.path), context.repo_root, context.cwd, context.guideline_patterns)
    value, variables = _filled(suite, entry, place, references)
    if entry.row is not None and entry.eval_id is None and value.get("id") and not place.problems:
        # The columns of the matrix are not in the id, because rows are named before they are combined.
        place.at("id").error("uses a variable of the matrix", "the names of the matrix follow each id by themselves")
    share = None
    if variables is not None or entry.origins:
        known = context.shared.setdefault("evaluators", {})
        share = share_evaluators(suite, entry, tuple(variables or ()), known)
    written = WrittenCase(suite, value, place, references, context, variables, share)
    if suite.has_braces and variables is None:
        note_unfilled(written, entry)
    return _case(written, entry.line), value


def _filled(
    suite: SuiteSource, entry: CaseEntry, place: Place, references: References
) -> tuple[JsonObject, JsonObject | None]:
    """Return an entry with its variables and prompt file filled in, and its variables; None: it has none."""
    value, variables = entry.value, suite.variables_of(entry)
    if entry.combination is not None and entry.combination.prompt is not None:
        rest = {key: item for key, item in value.items() if key not in INPUT_KEYS}
        value = {**rest, INPUT_KEYS[0]: {"file": entry.combination.prompt}}
    if variables is not None:  # the id of a case in a list stays, because it names the item
        kept = _NOT_OF_CASES if entry.row is not None else _NOT_OF_CASES | {"id"}
        value = {
            key: item if key in kept else _filled_key(key, item, variables, place.at(key))
            for key, item in value.items()
        }
    key = first_key(value, INPUT_KEYS)
    if key is None or not isinstance(value[key], dict) or _FILE not in value[key]:
        return value, variables
    where = place.at(key)
    return {**value, key: _prompt(value[key], where, references.at(where), variables)}, variables


def _case(written: WrittenCase, line: int) -> EvalCase | None:
    """Return the checked case; None after a fault. Each part of it is read, so that all faults are noted."""
    suite, value, place, references = written.suite, written.value, written.place, written.references
    is_talk = any(value.get(key) for key in ("turns", "user"))
    keys = read_part(Case, {INPUT_KEYS[0]: [], **value} if is_talk else value, place, context=written)
    note_twins(value, place)
    for key, instead in suite.without_effect.items():
        if value.get(key):
            place.at(key).warn("has no effect in a test", instead)
    header, faults = read_header(suite, written.context)
    place.problems.extend(faults)
    asked = load_asked(written)
    if keys is not None and keys.turns:
        first = keys.turns[0].input
        asked += (WrittenMessage("user", {"role": "user", "content": first}, place.at("turns", 0, "input")),)
    messages = tuple(load_input_message(each, references.at(each.place)) for each in asked)
    question = raw_question(messages)
    input_messages = tuple(message.value for message in asked)
    is_whole = not any(each.level == "error" for each in place.problems)
    is_asked = suite.is_asked and not value.get("user")
    if not question and is_asked and is_whole and asks_nothing(input_messages, messages):
        # such a call is paid for as well
        place.at(first_key(value, INPUT_KEYS) or INPUT_KEYS[0]).warn_of_blank()
    expected = _messages(written, EXPECTED_KEYS, "assistant")
    expected_messages = tuple(load_expected_message(each, references.at(each.place)) for each in expected)
    parts = [part for message in messages for part in message.parts if isinstance(part, FilePart)]
    guidelines = tuple([part.resolved_path for part in parts if part.is_guideline])
    evaluators = choose_evaluators(written)
    noted = len(place.problems)
    workspace = load_workspace(written, keys, header)
    is_without = workspace is None and is_whole and len(place.problems) == noted
    if is_without and any(map(looks_at_workspace, evaluators or ())):
        place.at("workspace").error("is missing: `command` and `file` look at the folder that the target worked in")
    if keys is None or header is None:
        return None
    turns = _turns(keys, place)
    note_turns(evaluators or (), turns, place)
    # Other faults are told first: without them, the criteria may be needless.
    is_soft = written.context.unknown_keys == "warn"
    is_sure = all(each.level != "error" or (is_soft and isinstance(each, UnreadKey)) for each in place.problems)
    if keys.criteria is None and is_sure and (not evaluators or any(map(wants_outcome, evaluators))):
        place.at(OUTCOME_KEYS[0]).error("is missing: expected a text that says what a good answer achieves")
    inner, of_file = keys.execution or Execution(), header.execution or Execution()
    return EvalCase(
        eval_id=keys.id,
        dataset=suite.dataset,
        path=str(suite.path),
        line=line,
        expected_outcome=keys.criteria or "",
        question=question,
        messages=messages,
        input_messages=input_messages,
        expected_messages=expected_messages,
        reference_answer=reference_answer(expected_messages),
        guideline_paths=guidelines,
        file_paths=guidelines + tuple([part.resolved_path for part in parts if not part.is_guideline]),
        guideline_patterns=references.guideline_patterns,
        evaluators=evaluators,
        conversation_id=keys.conversation_id,
        target=inner.target or keys.target or suite.target,
        judge=inner.judge or keys.judge or of_file.judge or header.judge,
        **_limit(
            "threshold",
            inner.threshold if keys.threshold is None else keys.threshold,
            of_file.threshold if header.threshold is None else header.threshold,
        ),
        **_limit("repeat", keys.repeat, header.repeat),
        **_limit("min_pass_rate", keys.min_pass_rate, header.min_pass_rate),
        required=keys.required is True,
        group=keys.group,
        turns=turns,
        workspace=workspace,
        vars=written.variables and {name: unshared(each) for name, each in written.variables.items()},
    )


def _turns(keys: Case, place: Place) -> TurnPlan | None:
    if not keys.turns and keys.user is None:
        if keys.on_turn_failure is not None:
            place.at("on_turn_failure").unread("nobody reads this key", "the case has no `turns`")
        return None
    inputs = tuple(turn.input for turn in keys.turns or ())
    user = None if keys.user is None else SimulatedUser(**dict(keys.user))
    lines = tuple(place.at("turns", index).line for index in range(len(inputs)))
    return TurnPlan(inputs, user, keys.on_turn_failure or "continue", lines)


def _limit(name: str, of_case: float | None, of_file: float | None) -> dict[str, Any]:
    """Return a field that decides what passes, with its source: the case, else its file."""
    if of_case is not None:
        return {name: of_case, f"{name}_source": "case"}
    return {} if of_file is None else {name: of_file, f"{name}_source": "file"}


# The keys of a file that apply to its cases.


def note_twins(mapping: JsonObject, place: Place) -> None:
    """Note a target, a threshold or a list of evaluators beside another one that is read (agentv-formats 1.2)."""
    lists = evaluator_lists(mapping)
    twins = [(keys, ".".join(lists[0][0])) for keys, value in lists[1:] if value != []]
    execution = as_mapping(mapping.get("execution"))
    for key in ("target", "threshold"):
        values = [each.strip() if isinstance(each, str) else each for each in (mapping.get(key), execution.get(key))]
        if all(each not in (None, "") for each in values) and values[0] != values[1]:
            inner = ("execution", key)
            twins.append(((key,), ".".join(inner)) if key == "target" else (inner, key))
    for unread, read in twins:
        place.at(*unread).unread(f"is not read, because {read!r} is there as well", "keep one of them")


def read_header(suite: SuiteSource, context: LoadContext) -> tuple[Suite | None, tuple[Problem, ...]]:
    """Return the keys of a file that apply to its cases, and their faults, which are faults of each case."""
    known: dict[Path, tuple[Suite | None, tuple[Problem, ...]]] = context.shared.setdefault("headers", {})
    if suite.path not in known:
        place = suite.header_place([])
        keys = read_part(Suite, suite.header, place)
        note_twins(suite.header, place)
        known[suite.path] = keys, tuple(place.problems)
    return known[suite.path]


# The folder that the target works in.


def load_workspace(written: WrittenCase, case: Shared | None, suite: Shared | None) -> Workspace | None:
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


# The variables of a case, filled into it, and prompt files, replaced by their texts.

_NOT_OF_CASES: Final = frozenset((*COLLECTED_KEYS, "vars", "metadata", "description", "note"))
"""Keys of a case that are filled at collection, or never."""
_TEXTS: Final = frozenset(("id", "conversation_id", "target", "judge", *INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS))
"""Keys whose numbers become texts."""
_CHECKS: Final = frozenset(("execution", "turns", *EVALUATOR_LIST_KEYS))
_CONTENT_KEYS: Final = frozenset(("content", "value", "name"))
_FILE: Final = "file"


def _filled_key(key: str, template: Json, variables: JsonObject, place: Place) -> Json:
    filled = fill(template, variables, place, is_check=key in _CHECKS)
    return _texts(filled, template) if key in _TEXTS and filled is not template else filled


def _texts(filled: Json, template: Json, *, is_part: bool = False) -> Json:
    """Convert numbers from templates to texts: whole texts, and the contents of messages. Data keeps its types."""
    if isinstance(template, str):
        return filled if isinstance(filled, list | dict) else as_text(filled)
    if isinstance(template, list):
        return [_texts(new, old, is_part=True) for new, old in zip(filled, template, strict=True)]
    if is_part and isinstance(template, dict):
        return {key: _texts(each, template[key]) if key in _CONTENT_KEYS else each for key, each in filled.items()}
    return filled


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
        raw = raw_keys(value)
        for key, item in value.items():
            if key not in raw and (key not in ("llm_judge", "code_judge") or isinstance(item, dict)):
                yield from _texts_of(item, place.at(key), kinds)


def _has_own_keys(check: JsonObject, kinds: KindTable) -> bool:
    """Whether a mapping may be an evaluator of the project, or a script."""
    word = check.get("type")
    found = next(filter(None, map(kinds.find, check if word is None else (str(word),))), None)
    kind: Any = None if found is None else kinds[found[0]]
    is_ours = kind is None or kind.__module__.startswith("pytest_agentv.")
    return not is_ours or (kind is not None and kind.model_config.get("extra") == "allow")


# The messages of a case, the input and the expected ones.


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A message as written, with its shape checked."""

    role: Role
    value: JsonObject
    place: Place
    of_files: tuple[Place, ...] = ()
    """The places of the last items of its content, which are `input_files`."""

    @property
    def content(self) -> Json:
        return self.value.get("content")


def _check_message(value: Json, place: Place) -> WrittenMessage | None:
    if not isinstance(value, dict):
        place.expected("a message: a mapping with role and content", value)
        return None
    message = read_part(Message, value, place)
    if message is not None and message.content is None and not message.tool_calls:
        place.error("the message has no content")
        return None
    return None if message is None else WrittenMessage(message.role, value, place)


def load_asked(written: WrittenCase) -> tuple[WrittenMessage, ...]:
    """Return the messages to the target. The first one of the user gets the `input_files` of the case or its file."""
    messages = _messages(written, INPUT_KEYS, "user")
    place, value = written.place.at("input_files"), written.value.get("input_files")
    if value is None and (of_file := written.suite.header.get("input_files")) is not None:
        place = written.header_place().at("input_files")
        value = written.fill(of_file, place)
    if value is None:
        return messages
    files = value if isinstance(value, list) else [value]
    message = next((message for message in messages if message.role == "user"), None)
    if not all(isinstance(file, str) and file.strip() for file in files):
        place.expected("the path of a file, or a list of paths", value)
    elif message is None:
        place.error("there is no message of the user to attach the files to")
    else:
        content = message.content
        if isinstance(content, dict) and content.get("type") not in ("text", "file", "image"):
            content = pretty_json(content)  # as prompts show it
        items = content if isinstance(content, list) else [] if content is None else [content]
        parts = [{"type": "text", "value": item} if isinstance(item, str) else item for item in items]
        parts += [{"type": "file", "value": file} for file in files]
        each_place = [place.at(index) for index in range(len(files))] if isinstance(value, list) else [place]
        of_items = [RenamedPlace(each.source, each.keys, each.problems, {"value": ()}) for each in each_place]
        attached = WrittenMessage(message.role, {**message.value, "content": parts}, message.place, tuple(of_items))
        return tuple(attached if each is message else each for each in messages)
    return messages


def _messages(written: WrittenCase, keys: tuple[str, ...], role: Role) -> tuple[WrittenMessage, ...]:
    """Return the messages under a key. A text, or the data of an answer, becomes one message of the role."""
    key = first_key(written.value, keys)
    if key is None:
        return ()
    value, place = written.value[key], written.place.at(key)
    is_mapping = isinstance(value, dict)
    messages: tuple[WrittenMessage, ...]
    if is_mapping and "role" in value and not value.keys().isdisjoint(("content", "tool_calls")):
        message = _check_message(value, place)
        messages = () if message is None else (message,)
    elif isinstance(value, str) or (is_mapping and role == "assistant"):
        messages = (WrittenMessage(role, {"role": role, "content": value}, place),)
    elif isinstance(value, list):
        checked = (_check_message(item, place.at(index)) for index, item in enumerate(value))
        messages = tuple(message for message in checked if message is not None)
    else:
        place.expected("a list of messages", value, quotes(value))
        messages = ()
    called = next((each for each in messages if role == "user" and each.value.get("tool_calls")), None)
    if called is not None:
        what = "is not sent to the target; only the `content` of a message is"
        called.place.at("tool_calls").warn(what, "write into it what was called, or leave the message out")
    return messages


# What targets and judges get of the written messages (agentv-formats 1.4, 1.7, 1.9).


def load_input_message(message: WrittenMessage, references: References) -> InputMessage:
    content = message.content
    parts: list[ContentPart] = []
    if isinstance(content, str):
        parts.append(TextPart(content))
    elif isinstance(content, dict):
        parts.append(ObjectPart(content))
    elif isinstance(content, list):
        places = [message.place.at("content", index) for index in range(len(content) - len(message.of_files))]
        for item, place in zip(content, (*places, *message.of_files), strict=True):
            part = _load_part(item, place, references)
            if part is not None:
                parts.append(part)
    return InputMessage(message.role, tuple(parts))


def _load_part(item: Json, place: Place, references: References) -> ContentPart | None:
    if isinstance(item, str):
        return TextPart(item)
    if not isinstance(item, dict):
        place.expected("a text or a mapping with type and value", item)
        return None
    match item.get("type"):
        case "text":
            text = _value_of(item, place)
            return None if text is None else TextPart(text)
        case "file" | "image":
            file = _read_file(item, place, references)
            if file is not None and item["type"] == "image":
                no_picture = "is no picture (PNG, JPEG, GIF or WebP); a text or a PDF takes type: file"
                fault = file.media.fault if file.media is not None and file.media.is_image else no_picture
                if fault is not None:
                    place.at("value").error(f"{locate(file.path, None)} {fault}")
            return None if file is None else _file_part(file, references)
        case kind:
            hint = did_you_mean(kind, ("text", "file", "image")) if isinstance(kind, str) else None
            what = "without a type" if kind is None else f"of type {kind!r}"
            place.warn(f"an item {what} is not sent to the target; only text, file and image items are", hint)
            return OtherPart(item)


def _value_of(item: JsonObject, place: Place) -> str | None:
    """Return the `value` of a text or file item. Notes an error if it is not a text."""
    value = item.get("value")
    if isinstance(value, str):
        return value
    if "value" in item:
        place.at("value").expected("a text", value)
    else:
        near = next((key for key in item if key in ("text", "path", "content", "file", "image", "url")), None)
        place.error(f"the {item['type']} item has no value", near and f"rename {near!r} to 'value'")
    return None


def _read_file(item: JsonObject, place: Place, references: References) -> ReferencedFile | None:
    value = _value_of(item, place)
    if value is not None and not value.strip():
        place.at("value").expected("the path of a file", value)
        return None
    return None if value is None or is_address(value, place) else references.read(value, place.at("value"))


def _file_part(file: ReferencedFile, references: References) -> FilePart:
    is_guideline = file.media is None and references.is_guideline(file.path)
    text = sys.intern(file.text)  # cases that use the same file share its text
    return FilePart(file.value, file.display_path, str(file.path), text, is_guideline, media=file.media)


def load_expected_message(message: WrittenMessage, references: References) -> JsonObject:
    """Return an expected message as judges see it: as written, with its files read (agentv-formats 1.7)."""
    content, place = message.content, message.place.at("content")
    if isinstance(content, list):
        content = [_expected_item(item, place.at(index), references) for index, item in enumerate(content)]
    parts = {
        "role": message.role,
        "name": message.value.get("name"),
        "content": content,
        "tool_calls": message.value.get("tool_calls") or None,
    }
    return {key: part for key, part in parts.items() if part is not None}


def _expected_item(item: Json, place: Place, references: References) -> Json:
    """Return an item as written. A file item becomes its content, under AgentV's keys."""
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "text":
        _value_of(item, place)  # notes a missing text
    if kind != "file":
        return item
    file = _read_file(item, place, references)
    return file and _file_part(file, references).to_item()


def raw_question(messages: Iterable[InputMessage]) -> str:
    """Return the texts of the input without roles and files, as code judges get them (agentv-formats 1.9)."""
    texts: list[str] = []
    for part in (part for message in messages for part in message.parts):
        match part:
            case TextPart(value):
                texts.append(value)
            case ObjectPart(value):
                texts.append(pretty_json(value))
            case OtherPart({"value": str(value)}):
                texts.append(value)
    return " ".join(filter(None, map(str.strip, texts)))


def reference_answer(expected: Sequence[JsonObject]) -> str:
    """Return the content of the last expected message, else its tool calls (agentv-formats 1.7)."""
    if not expected:
        return ""
    content = expected[-1].get("content")
    if isinstance(content, str):
        return content
    return pretty_json(expected[-1].get("tool_calls", []) if content is None else content)
