"""Loads an entry of an eval file into the case that the engine runs."""

from dataclasses import dataclass
from typing import Any

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.messages import (
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
    check_keys,
    choose_evaluators,
    fill_case,
    wants_outcome,
    written_evaluators,
)
from pytest_agentv.errors import CaseError, locate
from pytest_agentv.files.places import (
    CASE_KEYS,
    EVALUATOR_LIST_KEYS,
    INPUT_KEYS,
    OUTCOME_KEYS,
    Place,
    first_key,
    flag_at,
    mapping_at,
    min_pass_rate_at,
    misspelling,
    repeat_at,
    text_at,
    threshold_at,
)
from pytest_agentv.files.problems import BlankInput, Problem, UnreadKey, join_problems, with_problems
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json, JsonObject, Record, unshared
from pytest_agentv.model.cases import AnyEvaluator, EvalCase
from pytest_agentv.model.messages import FilePart


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
        place.expected("an eval case: a mapping with id, expected_outcome and input_messages", entry.value)
        return None, {}
    references = References(folder_of(suite.path), context.repo_root, context.cwd, context.guideline_patterns)
    value, variables = _filled(suite, entry, place, references)
    if entry.row is not None and entry.eval_id is None and value.get("id") and not place.problems:
        # The columns of the matrix are not in the id, because rows are named before they are combined.
        place.at("id").error("uses a variable of the matrix", "the names of the matrix follow each id by themselves")
    execution = mapping_at(value, "execution", place)
    share: LoadShared | None = None
    header = suite.header_of(entry)
    if variables is not None or entry.origins:
        known = context.shared.setdefault("evaluators", {})
        is_template = entry.row is not None and suite.has_template
        share = written_evaluators(entry, header, tuple(variables or ()), known, is_template=is_template).load
    written = WrittenCase(suite, value, execution, place, references, context, variables, share)
    check_keys(written, header)
    return _case(written, entry.line), value


def _filled(
    suite: SuiteSource, entry: CaseEntry, place: Place, references: References
) -> tuple[JsonObject, JsonObject | None]:
    """Return an entry with its variables and prompt file filled in, and its variables; None: it has none."""
    mapping_at(entry.value, "vars", place)  # notes what is no mapping
    value, variables = entry.value, suite.variables_of(entry)
    if entry.combination is not None and entry.combination.prompt is not None:
        rest = {key: item for key, item in value.items() if key not in INPUT_KEYS}
        value = {**rest, INPUT_KEYS[0]: {"file": entry.combination.prompt}}
    if variables is None and not isinstance(value.get(first_key(value, INPUT_KEYS) or ""), dict):
        return value, None

    return fill_case(value, variables, place, references, is_row=entry.row is not None), variables


def _case(written: WrittenCase, line: int) -> EvalCase:
    suite, value, place, references = written.suite, written.value, written.place, written.references
    asked = load_asked(written)
    messages = tuple(load_input_message(each, references.at(each.place)) for each in asked)
    question = raw_question(messages)
    input_messages = tuple(message.value for message in asked)
    is_whole = not any(each.level == "error" for each in place.problems)
    if not question and suite.is_asked and is_whole and asks_nothing(input_messages, messages):
        # such a call is paid for as well
        place.at(first_key(value, INPUT_KEYS) or INPUT_KEYS[0]).warn_of_blank()
    expected = load_expected(written)
    expected_messages = tuple(load_expected_message(each, references.at(each.place)) for each in expected)
    parts = [part for message in messages for part in message.parts if isinstance(part, FilePart)]
    guidelines = tuple([part.resolved_path for part in parts if part.is_guideline])
    limits = _limits(written)
    eval_id = written.required_text(("id",))
    noted = len(place.problems)
    evaluators = choose_evaluators(written)
    faults = [each for each in place.problems[noted:] if each.level == "error"]
    # After the evaluators, because their faults come before a missing outcome.
    outcome = _outcome(written, evaluators, is_known=all(isinstance(each, UnreadKey) for each in faults))

    return EvalCase(
        eval_id=eval_id,
        dataset=suite.dataset,
        path=str(suite.path),
        line=line,
        expected_outcome=outcome,
        question=question,
        messages=messages,
        input_messages=input_messages,
        expected_messages=expected_messages,
        reference_answer=reference_answer(expected_messages),
        guideline_paths=guidelines,
        file_paths=guidelines + tuple([part.resolved_path for part in parts if not part.is_guideline]),
        guideline_patterns=references.guideline_patterns,
        evaluators=evaluators,
        conversation_id=text_at(value, "conversation_id", place),
        target=_target(written) or suite.target,
        **limits,
        required=flag_at(value, "required", place),
        group=text_at(value, "group", place),
        vars=written.variables and {name: unshared(each) for name, each in written.variables.items()},
    )


def _limits(written: WrittenCase) -> dict[str, Any]:
    """Return the fields that decide what passes, each with its source: the case, else its file."""
    value, place, suite = written.value, written.place, written.suite
    threshold = threshold_at(value, place)
    of_execution = threshold_at(written.execution, place.at("execution")) if written.execution else None
    return {
        **_limit("threshold", of_execution if threshold is None else threshold, suite.threshold),
        **_limit("repeat", repeat_at(value, place), suite.repeat),
        **_limit("min_pass_rate", min_pass_rate_at(value, place), suite.min_pass_rate),
    }


def _limit(name: str, of_case: float | None, of_file: float | None) -> dict[str, Any]:
    if of_case is not None:
        return {name: of_case, f"{name}_source": "case"}
    return {} if of_file is None else {name: of_file, f"{name}_source": "file"}


def _outcome(written: WrittenCase, evaluators: tuple[AnyEvaluator, ...] | None, *, is_known: bool) -> str:
    """Return the expected outcome. It may be missing if the evaluators ask for none, or are unknown."""
    is_meant = any(key in written.value or misspelling(key, written.value, CASE_KEYS) for key in OUTCOME_KEYS)
    if not is_meant and not is_known:
        return ""  # the faults of evaluators are reported; without them, the outcome may be needless
    if not is_meant and evaluators and not any(map(wants_outcome, evaluators)):
        return ""
    return written.required_text(OUTCOME_KEYS, in_place_of=EVALUATOR_LIST_KEYS)


def _target(written: WrittenCase) -> str | None:
    execution = written.execution
    of_execution = text_at(execution, "target", written.place.at("execution")) if execution else None
    return of_execution or text_at(written.value, "target", written.place)
