"""Loads an entry of an eval file into the case that the engine runs."""

from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from pytest_agentv.errors import CaseError, locate
from pytest_agentv.loading.cases.messages import (
    WrittenMessage,
    attach_files,
    check_messages,
    load_expected_message,
    load_input_message,
    raw_question,
    reference_answer,
)
from pytest_agentv.loading.cases.outcomes import NO_OUTCOME, wants_outcome
from pytest_agentv.loading.cases.references import References, Scope
from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.keys import (
    CASE_KEYS,
    EVALUATOR_LIST_KEYS,
    EXECUTION_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    MARK_KEYS,
    OUTCOME_KEYS,
    flag_at,
    min_pass_rate_at,
    repeat_at,
    threshold_at,
    warn_of_evaluator_word,
)
from pytest_agentv.loading.places import (
    Place,
    first_key,
    mapping_at,
    misspelling,
    text_at,
    warn_of_unknown_keys,
)
from pytest_agentv.loading.problems import Problem, UnreadKey, join_problems, with_problems
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.cases import AnyEvaluator, EvalCase
from pytest_agentv.models.kind_table import KindTable
from pytest_agentv.models.messages import FilePart, InputMessage, Role
from pytest_agentv.models.options.values import UnknownKeys
from pytest_agentv.models.records import record

FileEvaluators: TypeAlias = tuple[tuple[AnyEvaluator, ...], tuple[Problem, ...]]
"""The evaluators of a file for its cases, and their problems."""


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
    """Level of unknown keys inside evaluators."""
    file_evaluators: dict[tuple[Path, tuple[str, ...]], FileEvaluators] = field(default_factory=dict, compare=False)
    """The evaluators of the eval files so far, by the names of variables. They are checked once, not for each case."""


@record
class LoadedCase(Record):
    """A case and its warnings."""

    case: EvalCase
    warnings: tuple[Problem, ...] = ()
    """Each case has the warnings about its file's evaluators too."""
    value: Json = None
    """The entry that it was loaded from, with its variables filled in."""


def load_case(suite: SuiteSource, entry: CaseEntry, context: LoadContext) -> LoadedCase:
    """Check an entry of an eval file and read the files it refers to.

    Raises `CaseError` with all faults, one per line with `path:line`. Unlike AgentV, which drops them, invalid messages
    and evaluators and missing files are faults. Source: agentv-formats 1.3 to 1.9.
    """
    if entry.fault is not None:
        raise with_problems(CaseError(str(entry.fault)), [entry.fault])
    problems: list[Problem] = []
    try:
        case, value = _load(suite, entry, context, suite.case_place(entry, problems))
    except RecursionError:
        raise CaseError(f"{locate(suite.path, entry.line)}: the values of the case are nested too deeply") from None
    if context.unknown_keys == "warn":
        problems = [each.replace(level="warning") if isinstance(each, UnreadKey) else each for each in problems]
    faults = [problem for problem in problems if context.strict or problem.level == "error"]
    if case is None or faults:
        raise with_problems(CaseError(join_problems(faults)), problems)
    return LoadedCase(case, tuple(problems), value)


def _load(
    suite: SuiteSource, entry: CaseEntry, context: LoadContext, place: Place
) -> tuple[EvalCase | None, JsonObject]:
    if not isinstance(entry.value, dict):
        place.expected("an eval case: a mapping with id, expected_outcome and input_messages", entry.value)
        return None, {}
    references = References(suite.path.parent, context.repo_root, context.cwd, context.guideline_patterns)
    value, variables = _filled(suite, entry, place, references)
    execution = mapping_at(value, "execution", place)
    loader = _CaseLoader(suite, value, execution, place, references, context, variables)
    loader.warn_of_odd_keys()
    case = loader.load(entry.line)
    if entry.combination is not None:
        case = case.replace(eval_id=entry.eval_id or case.eval_id, target=entry.combination.target or case.target)
    return case, value


def _filled(
    suite: SuiteSource, entry: CaseEntry, place: Place, references: References
) -> tuple[JsonObject, JsonObject | None]:
    """Return an entry with its variables and the text of its prompt file, and the variables; None: it has none."""
    mapping_at(entry.value, "vars", place)
    value, variables = entry.value, suite.variables_of(entry)
    if entry.combination is not None and entry.combination.prompt is not None:
        rest = {key: item for key, item in value.items() if key not in INPUT_KEYS}
        value = {**rest, INPUT_KEYS[0]: {"file": entry.combination.prompt}}
    if variables is None and not isinstance(value.get(first_key(value, INPUT_KEYS) or ""), dict):
        return value, None
    from pytest_agentv.loading.cases.filling import fill_case  # noqa: PLC0415 - few cases have variables

    return fill_case(value, variables, place, references, is_row=entry.row is not None), variables


@record
class _CaseLoader:
    """Loads one case. Notes each fault at its place and goes on with a harmless value."""

    suite: SuiteSource
    value: JsonObject
    execution: JsonObject
    place: Place
    references: References
    context: LoadContext
    variables: JsonObject | None
    """None: the case has none."""

    def load(self, line: int) -> EvalCase:
        written = self._with_input_files(self._input())
        messages = tuple(load_input_message(each, self.references.at(each.place)) for each in written)
        expected = self._messages(EXPECTED_KEYS, "assistant")
        expected_messages = tuple(load_expected_message(each, self.references.at(each.place)) for each in expected)
        self._check_marks()
        guidelines, files = _paths(messages, guidelines=True), _paths(messages, guidelines=False)
        threshold = self._threshold()
        repeat, min_pass_rate = repeat_at(self.value, self.place), min_pass_rate_at(self.value, self.place)
        eval_id, outcome, evaluators = self._judged()
        return EvalCase(
            eval_id=eval_id,
            dataset=self.suite.dataset,
            path=str(self.suite.path),
            line=line,
            expected_outcome=outcome,
            question=raw_question(messages),
            messages=messages,
            input_messages=tuple(message.value for message in written),
            expected_messages=expected_messages,
            reference_answer=reference_answer(expected_messages),
            guideline_paths=guidelines,
            file_paths=guidelines + files,
            guideline_patterns=self.references.guideline_patterns,
            evaluators=evaluators,
            conversation_id=text_at(self.value, "conversation_id", self.place),
            target=self._target() or self.suite.target,
            threshold=self.suite.threshold if threshold is None else threshold,
            threshold_source=_source(threshold, self.suite.threshold),
            repeat=self.suite.repeat if repeat is None else repeat,
            repeat_source=_source(repeat, self.suite.repeat),
            min_pass_rate=self.suite.min_pass_rate if min_pass_rate is None else min_pass_rate,
            min_pass_rate_source=_source(min_pass_rate, self.suite.min_pass_rate),
            required=flag_at(self.value, "required", self.place),
            group=text_at(self.value, "group", self.place),
            vars=self.variables,
        )

    def warn_of_odd_keys(self) -> None:
        warn_of_unknown_keys(self.value, CASE_KEYS, self.place)
        warn_of_unknown_keys(self.execution, EXECUTION_KEYS, self.place.at("execution"))
        warn_of_evaluator_word(self.value, self.place)
        for synonyms in (OUTCOME_KEYS, INPUT_KEYS, EXPECTED_KEYS, EVALUATOR_LIST_KEYS):
            if len(self.value.keys() & synonyms) < 2:
                continue
            present = [key for key in synonyms if self.value.get(key) is not None]
            for key in present[1:]:
                self.place.at(key).warn(f"is not read, because {present[0]!r} is there as well")

    def _check_marks(self) -> None:
        """Check the types of the keys that the collection reads from the case and its file."""
        if MARK_KEYS.isdisjoint(self.value) and MARK_KEYS.isdisjoint(self.suite.header):
            return
        header_place = self.suite.header_place(self.place.problems)
        for mapping, place in ((self.value, self.place), (self.suite.header, header_place)):
            for key in ("marks", "fixtures", "tags"):
                value = mapping.get(key)
                names = [value] if value is None or isinstance(value, str) else value
                if not isinstance(names, list) or not all(name is None or isinstance(name, str) for name in names):
                    place.at(key).expected("a name or a list of names", value)
            for key in ("skip", "xfail"):
                if not isinstance(mapping.get(key), str | bool | None):
                    place.at(key).expected("a reason (a text), or true", mapping[key])

    def _judged(self) -> tuple[str, str, tuple[AnyEvaluator, ...] | None]:
        """Return id, expected outcome and evaluators. A case whose evaluators ask for no outcome need not say it."""
        eval_id = self._required_text(("id",))
        problems, before = self.place.problems, len(self.place.problems)
        outcome, after = self._required_text(OUTCOME_KEYS), len(problems)
        evaluators = self._evaluators()
        is_meant = any(key in self.value or misspelling(key, self.value, CASE_KEYS) for key in OUTCOME_KEYS)
        if not is_meant and evaluators and not any(map(wants_outcome, evaluators)):
            del problems[before:after]
            outcome = NO_OUTCOME
        return eval_id, outcome, evaluators

    def _required_text(self, keys: tuple[str, ...]) -> str:
        key = first_key(self.value, keys) or keys[0]
        value = self.value.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if key in self.value:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            self.place.at(key).expected("a non-empty text", value, f'write {key}: "{value}"' if number else None)
        else:
            self._missing(key, "a non-empty text")
        return ""

    def _missing(self, key: str, what: str) -> None:
        self.place.at(key).error(f"is missing: expected {what}", misspelling(key, self.value, CASE_KEYS))

    def _input(self) -> tuple[WrittenMessage, ...]:
        if first_key(self.value, INPUT_KEYS) is None:
            self._missing(INPUT_KEYS[0], "a list of messages")
        return self._messages(INPUT_KEYS, "user")

    def _messages(self, keys: tuple[str, ...], role: Role) -> tuple[WrittenMessage, ...]:
        """Return the messages under a key. A text, or data of an answer, means one message of the role."""
        key = first_key(self.value, keys)
        if key is None:
            return ()
        value, place = self.value[key], self.place.at(key)
        if isinstance(value, str) or (isinstance(value, dict) and role == "assistant"):
            return (WrittenMessage(role, {"role": role, "content": value}, place),)
        return check_messages(value, place)

    def _with_input_files(self, messages: tuple[WrittenMessage, ...]) -> tuple[WrittenMessage, ...]:
        """Attach the `input_files` of the case, else those of its file, to the first message of the user."""
        value, place = self.value.get("input_files"), self.place.at("input_files")
        if value is None:
            place = self.suite.header_place(self.place.problems, self.place.source.row).at("input_files")
            value = self.suite.header.get("input_files")
            value = self._fill(value, place)
        return messages if value is None else attach_files(messages, value, place)

    def _target(self) -> str | None:
        return text_at(self.execution, "target", self.place.at("execution")) or text_at(
            self.value, "target", self.place
        )

    def _threshold(self) -> float | None:
        of_case = threshold_at(self.value, self.place)
        of_execution = threshold_at(self.execution, self.place.at("execution"))
        return of_execution if of_case is None else of_case

    def _evaluators(self) -> tuple[AnyEvaluator, ...] | None:
        """Return the evaluators of the case, else those of its file; None if there are none at all.

        Source: agentv-formats 1.6, 6.4.
        """
        rubrics = self.value.get("rubrics")
        specs: tuple[AnyEvaluator, ...] = ()
        if rubrics is not None:
            from pytest_agentv.loading.cases.evaluators import load_case_rubrics  # noqa: PLC0415 - pydantic

            specs = load_case_rubrics(self._scope(self.value, self.place))
        own = self._load_nearest((self.execution, self.place.at("execution")), (self.value, self.place))
        # Cases without their own share the tuple of their file: what is hashed of it is hashed once.
        return specs + (self._file_evaluators() if own is None else own) or None

    def _file_evaluators(self) -> tuple[AnyEvaluator, ...]:
        lists = {key: each for key, each in self.suite.header.items() if key in ("execution", *EVALUATOR_LIST_KEYS)}
        place = self.suite.header_place([], self.place.source.row)
        filled = self._fill(lists, place)
        key = self.suite.path, tuple(self.variables or ())
        known = self.context.file_evaluators if filled is lists else {}  # with variables they are those of one case
        if key not in known:
            specs = self._load_nearest((filled.get("execution") or {}, place.at("execution")), (filled, place))
            known[key] = specs or (), tuple(place.problems)
        self.place.problems.extend(known[key][1])
        return known[key][0]

    def _fill(self, value: Json, place: Place) -> Json:
        """Return a value of the file with the variables of the case filled in; the same object if it has none."""
        if self.variables is None:
            return value
        from pytest_agentv.loading.cases.filling import fill_value  # noqa: PLC0415 - few cases have variables

        return fill_value(value, self.variables, place)

    def _load_nearest(self, *mappings: tuple[JsonObject, Place]) -> tuple[AnyEvaluator, ...] | None:
        """Load the first list of evaluators; None if there is none. An empty list means the default judge."""
        for mapping, place in mappings:
            key = first_key(mapping, EVALUATOR_LIST_KEYS)
            if key is not None:
                from pytest_agentv.loading.cases.evaluators import load_evaluators  # noqa: PLC0415 - pydantic

                return load_evaluators(self._scope(mapping[key], place.at(key)))
        return None

    def _scope(self, value: Json, place: Place) -> Scope:
        return Scope(value, place, self.references.at(place), self.context.evaluators, tuple(self.variables or ()))


def _source(of_case: float | None, of_file: float | None) -> str | None:
    """Return where a value was written: by the case, else by its file."""
    if of_case is not None:
        return "case"
    return None if of_file is None else "file"


def _paths(messages: tuple[InputMessage, ...], *, guidelines: bool) -> tuple[str, ...]:
    parts = (part for message in messages for part in message.parts if isinstance(part, FilePart))
    return tuple(part.resolved_path for part in parts if part.is_guideline is guidelines)
