"""Loads an entry of an eval file into the case that the engine runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.messages import (
    WrittenMessage,
    asks_nothing,
    load_asked,
    load_expected,
    load_expected_message,
    load_input_message,
    raw_question,
    reference_answer,
)
from pytest_agentv.cases.references import LoadShared, References
from pytest_agentv.cases.written import (
    LoadContext,
    RecentCases,
    WrittenCase,
    aimed,
    choose_evaluators,
    fill_case,
    load_workspace,
    looks_at_workspace,
    note_turns,
    note_twins,
    note_unfilled,
    read_header,
    wants_outcome,
    written_evaluators,
)
from pytest_agentv.errors import CaseError, locate
from pytest_agentv.files.places import INPUT_KEYS, OUTCOME_KEYS, Place, first_key
from pytest_agentv.files.problems import BlankInput, Problem, UnreadKey, join_problems, with_problems
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json, JsonObject, Record, unshared
from pytest_agentv.model.cases import EvalCase, SimulatedUser, TurnPlan
from pytest_agentv.model.messages import FilePart

if TYPE_CHECKING:
    from pytest_agentv.cases.keys import Case, Shared


@dataclass(frozen=True, slots=True)
class LoadedCase(Record):
    """A case with its warnings."""

    case: EvalCase
    warnings: tuple[Problem, ...] = ()
    """The warnings of the case. Each case also has those about its file's evaluators."""
    value: Json = None
    """The entry of the case, with its variables filled in."""


def load_case(suite: SuiteSource, entry: CaseEntry, context: LoadContext) -> LoadedCase:
    """Check an entry of an eval file and read the files it refers to.

    Raises `CaseError` with all faults, one per line with `path:line`. Unlike AgentV, which drops them, invalid messages
    and evaluators and missing files are faults. A blank input alone is a warning in a strict run, too: a hook may fill
    it in. Source: agentv-formats 1.3 to 1.9.
    """
    if entry.fault is not None:
        raise with_problems(CaseError(str(entry.fault)), [entry.fault])
    if suite.foreign is not None and context.unknown_keys == "error":
        raise with_problems(CaseError(str(suite.foreign)), [suite.foreign])
    if entry.combination is None:
        return _load_case(suite, entry, context)

    recent: RecentCases = context.shared.setdefault("cases", RecentCases())
    loaded: LoadedCase | None = recent.find(suite, entry)
    if loaded is None:
        loaded = _load_case(suite, entry, context)
        recent.keep(suite, entry, loaded)
    return loaded.replace(case=aimed(loaded.case, entry))


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
    share: LoadShared | None = None
    if variables is not None or entry.origins:
        known = context.shared.setdefault("evaluators", {})
        is_template = entry.row is not None and suite.has_template
        share = written_evaluators(entry, suite.header, tuple(variables or ()), known, is_template=is_template).load
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
    if variables is None and not isinstance(value.get(first_key(value, INPUT_KEYS) or ""), dict):
        return value, None

    return fill_case(value, variables, place, references, is_row=entry.row is not None), variables


def _case(written: WrittenCase, line: int) -> EvalCase | None:
    """Return the checked case; None after a fault. Each part of it is read, so that all faults are noted."""
    from pytest_agentv.cases.keys import Case  # noqa: PLC0415 - imports pydantic
    from pytest_agentv.files.kind_reader import read_part  # noqa: PLC0415 - imports pydantic

    suite, value, place, references = written.suite, written.value, written.place, written.references
    is_talk = any(value.get(key) for key in ("turns", "user"))
    keys = read_part(Case, {INPUT_KEYS[0]: [], **value} if is_talk else value, place, context=written)
    note_twins(value, place)
    for key, instead in suite.without_effect.items():
        if value.get(key):
            place.at(key).warn("has no effect in a test", instead)
    header, of_file = read_header(suite, written.context)
    place.problems.extend(of_file)
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
    expected = load_expected(written)
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
        conversation_id=_text(keys.conversation_id),
        target=(keys.execution and _text(keys.execution.target)) or _text(keys.target) or suite.target,
        judge=_judge(keys) or _judge(header),
        **_limit("threshold", _threshold(keys), _threshold(header)),
        **_limit("repeat", keys.repeat, header.repeat),
        **_limit("min_pass_rate", keys.min_pass_rate, header.min_pass_rate),
        required=keys.required is True,
        group=_text(keys.group),
        turns=turns,
        workspace=workspace,
        vars=written.variables and {name: unshared(each) for name, each in written.variables.items()},
    )


def _turns(keys: "Case", place: Place) -> TurnPlan | None:
    if not keys.turns and keys.user is None:
        if keys.on_turn_failure is not None:
            place.at("on_turn_failure").unread("nobody reads this key", "the case has no `turns`")
        return None
    inputs = tuple(turn.input for turn in keys.turns or ())
    user = None if keys.user is None else SimulatedUser(**dict(keys.user))
    lines = tuple(place.at("turns", index).line for index in range(len(inputs)))
    return TurnPlan(inputs, user, keys.on_turn_failure or "continue", lines)


def _text(value: str | None) -> str | None:
    """Return a text without blanks around it; None for a blank one, such as an empty cell of a table."""
    return (value or "").strip() or None


def _judge(keys: "Shared") -> str | None:
    return (keys.execution and _text(keys.execution.judge)) or _text(keys.judge)


def _threshold(keys: "Shared") -> float | None:
    if keys.threshold is not None or keys.execution is None:
        return keys.threshold
    return keys.execution.threshold


def _limit(name: str, of_case: float | None, of_file: float | None) -> dict[str, Any]:
    """Return a field that decides what passes, with its source: the case, else its file."""
    if of_case is not None:
        return {name: of_case, f"{name}_source": "case"}
    return {} if of_file is None else {name: of_file, f"{name}_source": "file"}
