"""Evaluations written in Python: the value of the `agentv` fixture."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.overrides import Overrides
from pytest_agentv.engine.results import error_result
from pytest_agentv.loading.keys import is_reason
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.reporting.failing.render import one_line
from pytest_agentv.session.outcomes import RUN_ENDS, ended_text
from pytest_agentv.session.python.answers import given_response, hash_of
from pytest_agentv.session.python.cases import CaseWords, EvalInput, line_of, python_case, python_suite
from pytest_agentv.session.python.ids import EvalIds
from pytest_agentv.session.python.results import PythonEvalResult
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.eval_session import EvalSession
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.running.turns import LOG_SECTION
from pytest_agentv.session.showing.asked import Asked
from pytest_agentv.session.showing.python_reports import forget_results, note_result
from pytest_agentv.session.showing.texts import errored, failed

if TYPE_CHECKING:  # costs pydantic
    from pytest_agentv.evaluators.base import Evaluator  # pyright does not take its classes for `AnyEvaluator`

_ENDED: Final = "ended before it was done: its test has ended"


class Agentv:
    """The value of the fixture `agentv`: runs, judges and records cases for one test."""

    def __init__(self, item: pytest.Item, session: EvalSession, target: str, own: Overrides) -> None:
        self._item = item
        self._session = session
        self._target = target
        self._own = own
        self._ids = EvalIds(item, session.cases.earlier)
        self._open: set[Begun] = set()
        """Cases that have begun, and that the test awaits."""
        self._is_closed = False
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
        evaluators: "Sequence[str | Mapping[str, Any] | AnyEvaluator | Evaluator] | None" = None,
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
        words = CaseWords(
            *(id, expected_outcome, reference_answer, expected_messages, evaluators, rubrics, threshold, files),
            *(repeat, min_pass_rate),
        )
        return self._evaluate(prompt, words, None)

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
        evaluators: "Sequence[str | Mapping[str, Any] | AnyEvaluator | Evaluator] | None" = None,
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
        words = CaseWords(
            id, expected_outcome, reference_answer, expected_messages, evaluators, rubrics, threshold, files
        )
        return self._evaluate(prompt, words, given_response(answer, output_messages))

    def close(self) -> None:
        """Cancel what a thread of the test still evaluates: the test is over."""
        self._is_closed = True
        for begun in tuple(self._open):
            self._session.cases.end(begun, _ENDED)

    def _evaluate(self, prompt: EvalInput, words: CaseWords, answer: ProviderResponse | None) -> PythonEvalResult:
        __tracebackhide__ = True
        case = python_case(prompt, words)
        if is_reason(skip := case.get("skip")):
            self._skip(skip if isinstance(skip, str) else "as its case says")
        given = case.get("id") or self._item.name
        case["id"] = self._ids.number(given)
        prepared = self._ids.claim(given, self._prepare(case, given, answer))
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
        return PythonEvalResult.of(result, account, one_line(result, masker), reads)

    def _skip(self, reason: str) -> NoReturn:
        """Skip the test, as a case says. Raises `ValueError` if that would hide an evaluation before it."""
        __tracebackhide__ = True
        if self._ids.has_any:
            fault = f"a case with `skip` ({reason}) follows another one in its test"
            raise ValueError(f"{fault}: give it a test of its own")
        pytest.skip(reason)

    def _prepare(self, case: JsonObject, given_id: Json, answer: ProviderResponse | None) -> PreparedCase:
        item, session = self._item, self._session
        suite = python_suite(item.path, line_of(item), case, self._target, is_asked=answer is None, hashed_id=given_id)
        hooks, own = session.user_hooks, self._own.replace(answer=answer)
        prepared = session.preparer.prepare(
            suite, suite.entries[0], item.nodeid, lambda loaded: hooks.adjust(item, loaded)
        ).marked(item)
        return prepared.replace(job=self._own_job(prepared.job, answer), hooks=hooks.of(item), own=own)

    def _own_job(self, job: CaseJob | EvalResult, answer: ProviderResponse | None) -> CaseJob | EvalResult:
        """Return a job under the names that the test gives it."""
        if isinstance(job, EvalResult):
            return job
        identity = job.identity
        if self._is_closed:  # nobody would look at the answer
            return error_result(identity, "setup", "cancelled", "asked after its test had ended")
        if self._session.options.target:  # the fixture may have overridden the target
            identity = identity.replace(target=self._target)
        if answer is not None:
            identity = identity.replace(case_hash=hash_of(identity.case_hash, answer))
        return job.replace(identity=identity)

    def _finish(self, prepared: PreparedCase) -> tuple[EvalResult, Asked]:
        """Return the result, with the question and the expected outcome of its case."""
        session, cases, key = self._session, self._session.cases, (self._item.nodeid, prepared.eval_id)
        begun = cases.begin(key, prepared)
        session.progress.total += prepared.repeat
        try:
            result = self._wait(begun)
        finally:
            cases.take(key)
        if session.options.baseline is not None:
            result = self._confirmed(result, prepared)
        session.show_warnings(begun)
        return result, begun.asked

    def _confirmed(self, result: EvalResult, prepared: PreparedCase) -> EvalResult:
        """Return the result with fresh answers if it looks broken. After the test, nobody can ask for them."""
        again = self._session.begin_again(self._item.config, result, lambda: prepared)
        return result if again is None else self._wait(again)

    def _wait(self, begun: Begun) -> EvalResult:
        self._open.add(begun)
        try:
            if self._is_closed:
                self._session.cases.end(begun, _ENDED)
            return self._session.cases.wait(begun)
        except BaseException as error:
            self._session.cases.end(begun, ended_text(error), is_run_ending=isinstance(error, RUN_ENDS))
            raise
        finally:
            self._open.discard(begun)
            if begun.log.lines:
                self._item.add_report_section("call", LOG_SECTION, begun.log.text)
