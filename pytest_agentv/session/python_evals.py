"""Evaluations written in Python: the value of the `agentv` fixture, and its cases as eval files for the loader."""

import hashlib
import inspect
import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from os import PathLike, fspath
from os.path import normpath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import pytest

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.engine.answers import require_writable
from pytest_agentv.engine.jobs import OWN_PROVIDER, Overrides, choose_target
from pytest_agentv.engine.results import effective_target_name, error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.places import EVALUATOR_LIST_KEYS, EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS, is_reason
from pytest_agentv.files.source import folder_of, source_of_line
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.messages import Message, candidate_answer, is_null
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import MASK, is_secret_name
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.kind import WireError, checked, parse_response
from pytest_agentv.providers.table import KINDS
from pytest_agentv.reports.failure import one_line
from pytest_agentv.session.case_runs import Begun
from pytest_agentv.session.compat import allow_to_pass, uses_own_fixture
from pytest_agentv.session.flight import LOG_SECTION
from pytest_agentv.session.hooks import forget_results, note_result, participate
from pytest_agentv.session.identity import run_identity
from pytest_agentv.session.items import EvalItem, TargetCaller, overrides
from pytest_agentv.session.masks import mask_from_now_on
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import RUN_ENDS, AskedTexts, EvalFailed, ended_text, errored, failed
from pytest_agentv.session.plan import PreparedCase
from pytest_agentv.session.selection import select_retried
from pytest_agentv.session.session import EvalSession
from pytest_agentv.session.terminal import RunReporter
from pytest_agentv.session.user_hooks import FolderKinds
from pytest_agentv.targets.definitions import TargetDefinition, find_repo_root, find_targets_file, load_targets_file

if TYPE_CHECKING:
    from pytest_agentv.evaluators.base import Evaluator  # costs pydantic


# Gives each evaluation of a test an id of its own.


class EvalIds:
    """The ids of the evaluations of one item: that of its test, and numbers in the order in which they begin.

    Threads may begin them in any order. So a resumed run gives each the id that the same case has in the earlier run.
    """

    def __init__(self, item: pytest.Item, find_earlier: Callable[[str], Sequence[EvalResult]]) -> None:
        """`find_earlier` returns the results that an earlier run has for a node id."""
        self._item = item
        self._find_earlier = find_earlier
        # A fixture of a case in an eval file may evaluate. The result of the case has the id of the case.
        self._claimed = {item.name, item.entry.eval_id or item.name} if isinstance(item, EvalItem) else set[str]()
        self._thread = threading.get_ident()
        self._choosing = threading.Lock()

    def claim(self, given: Json, prepared: PreparedCase) -> PreparedCase:
        """Return a case under its own id, which may be the given one with a number."""
        job = prepared.job
        if not isinstance(given, str):  # the loader has reported it
            return prepared
        if isinstance(job, EvalResult):
            return prepared.replace(job=job.replace(eval_id=self._claim(given, None)))
        target = effective_target_name(job.identity.target, dry_run=job.options.dry_run)
        name = self._claim(given, (job.identity.case_hash, target))
        named = job.replace(identity=job.identity.replace(eval_id=name), case=job.case.replace(eval_id=name))
        return prepared.replace(job=named)

    def _claim(self, given: str, case: tuple[str | None, str] | None) -> str:
        """Claim the id of an earlier result of the same case and target, else the next id that is free.

        In the thread of the test, evaluations come in order, and a changed case replaces its earlier result. In other
        threads, an earlier id may be that of a case that comes later.
        """
        earlier = self._find_earlier(self._item.nodeid)
        numbers = re.compile(f"{re.escape(given)}(?:-([0-9]+))?")
        same = [numbers.fullmatch(each.eval_id) for each in earlier if (each.case_hash, each.target) == case]
        later = set[str]() if threading.get_ident() == self._thread else {each.eval_id for each in earlier}
        with self._choosing:
            free = [match for match in same if match is not None and match[0] not in self._claimed]
            name, copy = given, 1
            if free:
                name = min(free, key=lambda match: int(match[1] or 1))[0]
            else:
                while name in self._claimed or name in later:
                    copy += 1
                    name = f"{given}-{copy}"
            self._claimed.add(name)
            return name


# Answers that a test gives to be judged, instead of those of a target.


def given_response(
    answer: str | JsonObject | ProviderResponse, output_messages: Sequence[Mapping[str, Any]] | None
) -> ProviderResponse:
    """Return the answer as the response of a target. Raises `TypeError` or `ValueError` for an invalid answer."""
    __tracebackhide__ = True
    if isinstance(answer, ProviderResponse):
        try:
            answer = checked(answer)
        except WireError as error:
            raise TypeError(f"expected an answer, got {error}") from None
        require_writable(answer.output_messages or (), answer.trace or ())
        return answer
    if not isinstance(answer, str | Mapping | list):
        raise TypeError(f"expected an answer: a text, data or a ProviderResponse, got {type(answer).__name__}")
    try:
        response = parse_response({"output_messages": list(map(dict, output_messages or ()))})
    except WireError as error:
        raise ValueError(f"output_messages: {error}") from None
    messages = response.output_messages or ()
    said = Message("assistant", content=answer)
    require_writable((*messages, said), ())
    if is_null(messages) or candidate_answer(messages) != candidate_answer((said,)):
        messages = (*messages, said)
    return ProviderResponse(output_messages=messages, is_text_only=not output_messages)


# The results of evaluations in Python, which pytest shows readably in an assertion.

_OWN_FIELDS: Final = ("account", "summary", "_reads")
_VERDICT: Final = frozenset(
    {
        *("passed", "assert_passed", "status", "score", "hits", "misses", "evaluator_results", "reasoning", "repeat"),
        *("unmet_required", "assertion", "to_plain"),
    }
)
"""What a test reads that decides by the result."""


@dataclass(frozen=True, slots=True, repr=False)
class PythonEvalResult(EvalResult):
    """The result of an eval in Python. It is true when the case passed; its `repr` says in one line why it failed."""

    account: str = ""
    """The whole text of a failure."""
    summary: str = ""
    """One line of at most 200 characters, without secrets."""
    _reads: list[str] = field(default_factory=list, compare=False)

    if not TYPE_CHECKING:  # for type checkers, it would make misspelt attributes valid

        def __getattribute__(self, name: str) -> Any:
            if name in _VERDICT:
                object.__getattribute__(self, "_reads").append(name)
            return object.__getattribute__(self, name)

    @property
    def passed(self) -> bool:
        """Whether the case passed."""
        return self.status == "pass"

    def assert_passed(self) -> None:
        """Raise `EvalFailed` with the whole text unless the case passed."""
        __tracebackhide__ = True
        if not self.passed:
            raise EvalFailed(self.account, self.summary)

    def to_plain(self) -> dict[str, Json]:
        """Return what was recorded."""
        plain = EvalResult.to_plain(self)
        return {key: value for key, value in plain.items() if key not in _OWN_FIELDS}

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return self.summary


# Turns cases written in Python into eval files for the loader.

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "xfail": "mark the test with pytest.mark.xfail",
    "marks": "mark the test",
    "fixtures": "let the test request them",
}
"""Keys of a case that pytest would have to know before the test begins, and what to do instead."""

EvalInput: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""The prompt's text, messages, or a case as in an eval file."""

_SYNONYMS: Final[Mapping[str, Collection[str]]] = {
    "expected_outcome": OUTCOME_KEYS,
    "expected_messages": EXPECTED_KEYS,
    "evaluators": EVALUATOR_LIST_KEYS,
}
"""The keys of a case that an argument of the test replaces, if it is not only the one of its own name."""


def python_case(
    prompt: EvalInput, files: Sequence[str | PathLike[str]], reference_answer: str | None, keys: Mapping[str, object]
) -> dict[str, Json]:
    """Return the case that a test describes, in the form of an eval file.

    Each of `keys` that is not None replaces the same key of a case that is given as `prompt`. Raises `TypeError`.
    """
    __tracebackhide__ = True
    case = _case_of(prompt, files)
    if reference_answer is not None:
        keys = {**keys, "expected_messages": [{"role": "assistant", "content": reference_answer}]}
    execution = case.get("execution")
    if keys["evaluators"] is not None and isinstance(execution, dict):
        case["execution"] = {key: value for key, value in execution.items() if key not in EVALUATOR_LIST_KEYS}
    for name, value in keys.items():
        if value is not None:
            synonyms = _SYNONYMS.get(name, (name,))
            for key in synonyms:
                case.pop(key, None)
            case[next(iter(synonyms))] = _plain(value)
    return case


def line_of(item: pytest.Item) -> int:
    """Return the line of a test in its file, from 1. An inherited test has none there: then that of its class."""
    file, line, _ = item.location
    if normpath(item.config.rootpath / file) == str(item.path):
        return (line or 0) + 1
    cls = getattr(item, "cls", None)
    with suppress(OSError, TypeError):
        if cls is not None and Path(inspect.getfile(cls)) == item.path:
            return inspect.getsourcelines(cls)[1]
    return 1


def python_suite(path: Path, line: int, case: JsonObject, target: str, *, is_asked: bool) -> SuiteSource:
    """Return an eval file that holds one case, written at a line of a test file; `is_asked`: no answer is there yet."""
    source = source_of_line(path, [case], line)
    return SuiteSource(
        path=path,
        dataset=path.stem,
        entries=(CaseEntry(0, case["id"] if isinstance(case["id"], str) else None, line, case),),
        header={},
        source=source,
        header_source=source,
        cases_key=None,
        target=target,
        problems=(),
        is_asked=is_asked,
        without_effect=_WITHOUT_EFFECT,
    )


def _case_of(prompt: EvalInput, files: Sequence[str | PathLike[str]]) -> dict[str, Json]:
    __tracebackhide__ = True
    if isinstance(files, str | PathLike) or not isinstance(files, Iterable):  # a text is a sequence, too
        raise TypeError(f"files: expected a list of paths, got {files!r}")
    if isinstance(prompt, str):
        parts: list[dict[str, Json]] = [{"type": "text", "value": prompt}]
        for file in files:  # A comprehension would appear as a frame in the traceback.
            parts.append({"type": "file", "value": fspath(file)})  # noqa: PERF401
        return {INPUT_KEYS[0]: [{"role": "user", "content": parts}] if files else prompt}
    if files:
        raise TypeError("files= goes with a prompt that is a text; messages name their files themselves")
    if isinstance(prompt, Mapping):
        return {str(key): _plain(value) for key, value in prompt.items()}
    if isinstance(prompt, Sequence):
        return {INPUT_KEYS[0]: _plain(prompt)}
    raise TypeError(f"expected a text, a list of messages or a case, got {type(prompt).__name__}")


def _plain(value: Any) -> Json:
    """Return lists and mappings in the types of a YAML file. The loader reports faults in them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return fspath(value) if isinstance(value, PathLike) else value


# Evaluations written in Python: the value of the `agentv` fixture.

_ENDED: Final = "ended before it was done: its test has ended"


class Agentv:
    """The value of the fixture `agentv`: runs, judges and records cases for one test."""

    def __init__(self, item: pytest.Item, session: EvalSession, target: str, own: Overrides) -> None:
        self._item = item
        self._session = session
        self._target = target
        self._own = own
        self._ids = EvalIds(item, session.finished.earlier)
        self._open: set[Begun] = set()
        """Cases that have begun, and that the test awaits."""
        self._is_closed = self._has_evaluated = False
        forget_results(item)

    def __repr__(self) -> str:
        return "<agentv>"

    def run(
        self,
        prompt: EvalInput,
        *,
        id: str | None = None,  # noqa: A002 - the word of eval files
        expected_outcome: str | None = None,
        reference_answer: str | None = None,
        expected_messages: Sequence[Mapping[str, Any]] | None = None,
        evaluators: "Sequence[str | Mapping[str, Any] | Evaluator] | None" = None,
        rubrics: Sequence[Any] | None = None,
        threshold: float | None = None,
        files: Sequence[str | PathLike[str]] = (),
        repeat: int | None = None,
        min_pass_rate: float | None = None,
    ) -> PythonEvalResult:
        """Ask the target and judge its answer.

        Args:
            prompt: A text, a list of messages, or a case as in an eval file.
            id: Names the result; default: the test's name.
            expected_outcome: What a good answer achieves; for judges that are models.
            reference_answer: An example of a good answer.
            expected_messages: The same as messages, with tool calls.
            evaluators: As in an eval file, or objects of the classes of kinds.
            rubrics: As in an eval file.
            threshold: Score from which the case passes.
            files: Paths of files that go with a prompt that is a text; relative ones as in eval files.
            repeat: How many answers the case is judged by, 1 to 100.
            min_pass_rate: The share of these answers that have to pass, 0 to 1.

        Raises `EvalErrored` when the answer cannot be judged: the test is shown as ERROR.
        """
        __tracebackhide__ = True
        keys = {
            "id": id,
            "expected_outcome": expected_outcome,
            "expected_messages": expected_messages,
            "evaluators": evaluators,
            "rubrics": rubrics,
            "threshold": threshold,
            "repeat": repeat,
            "min_pass_rate": min_pass_rate,
        }
        case = python_case(prompt, files, reference_answer, keys)
        return self._evaluate(case, None)

    def evaluate(
        self,
        answer: str | JsonObject | ProviderResponse,
        *,
        prompt: EvalInput = "",
        output_messages: Sequence[Mapping[str, Any]] | None = None,
        id: str | None = None,  # noqa: A002 - the word of eval files
        expected_outcome: str | None = None,
        reference_answer: str | None = None,
        expected_messages: Sequence[Mapping[str, Any]] | None = None,
        evaluators: "Sequence[str | Mapping[str, Any] | Evaluator] | None" = None,
        rubrics: Sequence[Any] | None = None,
        threshold: float | None = None,
        files: Sequence[str | PathLike[str]] = (),
    ) -> PythonEvalResult:
        """Judge an answer that is there already; no target is called.

        Args:
            answer: A text, structured data, or a response with a trace and metrics.
            prompt: What was asked, for judges that want to know; as `run` takes it.
            output_messages: How the answer came about, with `tool_calls`: what targets report. Empty: it is not known.
            id: As `run` takes it, like all that follow.
            expected_outcome: What a good answer achieves.
            reference_answer: An example of a good answer.
            expected_messages: The same as messages.
            evaluators: As in an eval file, or objects of the classes of kinds.
            rubrics: As in an eval file.
            threshold: Score from which the case passes.
            files: Paths of files that go with the prompt.

        Raises `EvalErrored` when the answer cannot be judged: the test is shown as ERROR.
        """
        __tracebackhide__ = True
        keys = {
            "id": id,
            "expected_outcome": expected_outcome,
            "expected_messages": expected_messages,
            "evaluators": evaluators,
            "rubrics": rubrics,
            "threshold": threshold,
        }
        case = python_case(prompt, files, reference_answer, keys)
        return self._evaluate(case, given_response(answer, output_messages))

    def close(self) -> None:
        """Cancel what a thread of the test still evaluates: the test is over."""
        self._is_closed = True
        for begun in tuple(self._open):
            self._session.flight.end(begun, _ENDED)

    def _evaluate(self, case: dict[str, Json], answer: ProviderResponse | None) -> PythonEvalResult:
        __tracebackhide__ = True
        if is_reason(skip := case.get("skip")):
            reason = skip if isinstance(skip, str) else "as its case says"
            if self._has_evaluated:
                fault = f"a case with `skip` ({reason}) follows another one in its test"
                raise ValueError(f"{fault}: give it a test of its own")
            pytest.skip(reason)
        self._has_evaluated = True
        case["id"] = case.get("id") or self._item.name
        prepared = self._ids.claim(case["id"], self._prepare(case, answer))
        if self._session.is_unasked(prepared):
            pytest.skip(self._session.asking.reason)
        result, asked = self._finish(prepared)
        self._session.stopping.stop_if_needed(self._item.session)
        config, masker = self._item.config, self._session.masker
        if result.status == "error":
            error = errored(config, result, masker)
            note_result(self._item, result, str(error))
            raise error
        account = str(failed(config, result, masker, asked))
        reads: list[str] = []
        note_result(self._item, result, account, reads)
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        return PythonEvalResult(**values, account=account, summary=one_line(result, masker), _reads=reads)

    def _prepare(self, case: JsonObject, answer: ProviderResponse | None) -> PreparedCase:
        item, session = self._item, self._session
        suite = python_suite(item.path, line_of(item), case, self._target, is_asked=answer is None)
        hooks, own = session.user_hooks, self._own.replace(answer=answer)
        prepared = session.preparer.prepare(
            suite, suite.entries[0], item.nodeid, lambda loaded: hooks.adjust(item, loaded)
        ).marked(item)
        job = prepared.job
        if not isinstance(job, EvalResult):
            identity = job.identity
            if session.options.target:  # the fixture may have overridden the target
                identity = identity.replace(target=self._target)
            if answer is not None:
                content = json.dumps([identity.case_hash, answer.to_plain()], default=str)
                identity = identity.replace(case_hash=hashlib.sha256(content.encode()).hexdigest()[:16])
            job = job.replace(identity=identity)
            if self._is_closed:  # nobody would look at the answer
                job = error_result(identity, "setup", "cancelled", "asked after its test had ended")
        return prepared.replace(job=job, hooks=hooks.of(item), own=own)

    def _finish(self, prepared: PreparedCase) -> tuple[EvalResult, AskedTexts]:
        """Return the result, with the question and the expected outcome of its case."""
        session, flight, key = self._session, self._session.flight, (self._item.nodeid, prepared.eval_id)
        begun = flight.begin(key, prepared)
        session.progress.total += prepared.repeat
        try:
            result = self._wait(begun)
        finally:
            flight.ahead.pop(key, None)
        if session.options.baseline is not None:  # after the test, nobody can ask for fresh answers
            again = session.flight.confirm(result, lambda: prepared)
            result = result if again is None else self._wait(again)
        session.show_warnings(begun)
        return result, begun.asked

    def _wait(self, begun: Begun) -> EvalResult:
        self._open.add(begun)
        try:
            if self._is_closed:
                self._session.flight.end(begun, _ENDED)
            return self._session.flight.wait(begun)
        except BaseException as error:
            self._session.flight.end(begun, ended_text(error), is_run_ending=isinstance(error, RUN_ENDS))
            raise
        finally:
            self._open.discard(begun)
            if begun.log.lines:
                self._item.add_report_section("call", LOG_SECTION, begun.log.text)


# Makes the values of the plugin's fixtures.


def options_of(config: pytest.Config) -> RunOptions:
    try:
        return run_options(config)
    except pytest.UsageError as error:
        _fail(error)


def targets_of(config: pytest.Config) -> Mapping[str, TargetDefinition]:
    """Return the content of the targets file. Masks texts under names of secrets."""
    cwd = config.invocation_params.dir
    try:
        options = options_of(config)
        path = find_targets_file(options.targets_file, cwd, find_repo_root(cwd), cwd)
        kinds = KINDS.with_own(FolderKinds(config, "pytest_agentv_providers")(cwd))
        file = load_targets_file(path, kinds, options.unknown_keys)
    except AgentvError as error:
        _fail(error)
    shown = (definition.replace(values=_without_secrets(definition.values)) for definition in file.definitions)
    return MappingProxyType({definition.name: definition for definition in shown})


def target_of(options: RunOptions) -> str:
    return choose_target(options, None)


def provider_of(item: pytest.Item, target: str) -> TargetCaller:
    return TargetCaller(item, lambda: _join(item), target)


def take_part(item: pytest.Item) -> None:
    """Take part in the run for a test that evaluates. The fixture `agentv` reports why that is impossible."""
    if uses_own_fixture(item, "agentv") and not item.config.getoption("setupplan", default=False):
        with suppress(pytest.UsageError, AgentvError):
            _join(item)


def agentv_of(item: pytest.Item, target: str, provider: object, judge: object) -> Agentv:
    try:
        session = _join(item)
    except (pytest.UsageError, AgentvError) as error:
        _fail(error)
    if session.options.dry_run:
        allow_to_pass(item)  # mocked answers pass
    own = overrides(item, provider, judge)
    session.skip_unasked(item.path, target, has_own_target=OWN_PROVIDER in own.fixtures)
    return Agentv(item, session, target, own)


def _join(item: pytest.Item) -> EvalSession:
    """Return the run's session. From now on, what the reports of the item show is masked."""
    session = participate(item.config)
    session.learn_secrets(folder_of(item.path))
    mask_from_now_on(item)
    return session


def _fail(error: Exception) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail(str(error), pytrace=False)


def _without_secrets(value: Json, key: str = "") -> Json:
    if isinstance(value, Mapping):
        return {name: _without_secrets(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return MASK if isinstance(value, str) and is_secret_name(key) else value


# Prepares the run of tests that evaluate, if no eval file was collected.


def join(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of `--agentv-retry-errors`, and add tests to the verdict on the run before any is deselected.

    An incomplete run gets no verdict. Raises `pytest.UsageError` if the run cannot be judged or resumed.
    """
    if config.getoption("collectonly"):
        return
    options = run_options(config)
    if options.retries_only and (resumed := run_identity(config, options).resumed) is not None:
        select_retried(config, items, resumed)
    if not options.judges_run or options.shard is not None:  # a shard gets no verdict, and divides the items by itself
        return
    session = participate(config)
    if not hasattr(config, "workerinput"):
        reporter = RunReporter.register(config, session.identity, session.options)
        reporter.check_verdict([item.nodeid for item in items])
