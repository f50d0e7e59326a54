"""Asks a target only what is not in the store: for the answer of a case, and for the models that judge it."""

import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.engine.answers import Attempts, costs_of, timed
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.results import Asked, request_field
from pytest_agentv.errors import AgentvError, FileError, ProviderError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.messages import Costs, ExecutionMetrics, Message, candidate_answer, incomplete_reason, is_null
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker, masked
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, read_trace
from pytest_agentv.store.answers import AnswerStore, Question, Stored, current_case
from pytest_agentv.store.readers import iter_recorded

_LOGGER: Final = logging.getLogger("pytest_agentv.engine")


def key_of(target: Json, request: ProviderRequest) -> str:
    """Return the hash of what decides an answer: the target, the case's id, the prompts, the content of the files."""
    asked = {
        "target": target,
        "eval_id": request.eval_id,
        "prompt": request.prompt.in_words().to_plain(),
        "system_prompt": request.system_prompt,
        "guidelines": len(request.guideline_paths),
        "files": [_hash_file(path) for path in request.file_paths],
        "occurrence": list(request.occurrence),
    }
    return digest_of(asked)


def digest_of(value: Json) -> str:
    """Return the hash of plain data, in which the order of keys does not count."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _hash_file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


def response_text(response: ProviderResponse, masker: Masker, more: JsonObject | None = None) -> str | None:
    """Return the JSON of an answer that another run may take; None: nobody may.

    Failed and incomplete answers may not be taken, nor those that JSON cannot hold as they are, nor those with a
    secret: it would be masked, so that a later run would judge another answer.
    """
    is_whole = response.error is None and incomplete_reason(response.finish_reason) is None
    is_whole = is_whole and not is_null(response.output_messages, response.trace)
    if not is_whole or response.output_messages == ():  # the provider did not wait for the answer
        return None
    try:
        if response.trace_ref is not None:  # the next call may write that file anew
            trace = read_trace(Path(response.trace_ref), []) if response.trace is None else response.trace
            response = response.replace(trace=trace, trace_ref=None)
        plain = response.to_plain()
        debugging, more = map(masker.mask_plain, (plain.pop("raw", {}), more or {}))  # not judged: may be masked
        if masker.mask_plain(plain) != plain:
            _LOGGER.info("the answer holds a secret, and is not kept for later runs")
            return None
        text = json.dumps({"response": {**plain, "raw": debugging}, **more})
        kept = ProviderResponse.from_plain(json.loads(text)["response"])
    except (AgentvError, TypeError, ValueError, RecursionError) as error:  # code of users may report anything
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else masker.mask(str(error))
        _LOGGER.warning("the answer cannot be kept for later runs: %s", reason)
        return None
    # Compares texts too, because 1 and 1.0 are equal but read differently.
    is_same = kept.replace(raw=response.raw) == response
    if not is_same or candidate_answer(kept.output_messages) != candidate_answer(response.output_messages):
        _LOGGER.warning("the answer is not kept for later runs: JSON cannot hold it as it is")
        return None
    return text


@dataclass(slots=True)
class StoredAnswer:
    """The row of a case's answer in the store."""

    store: AnswerStore
    question: Question
    grading: str
    """By what it is judged; empty: nobody knows whether a judgement by it is still valid."""
    needs_files: bool
    """Whether the answer is the work in files that evaluators look at: then it is worth nothing without them."""
    own_runs_only: bool
    """Whether nobody knows if another run would get the same answer."""
    judgement: tuple[EvaluatorResult, ...] | None = None
    """The judgement by the same evaluators in a run that this one goes on with."""
    _id: str | None = None
    _judged: tuple[str, Json] | None = None

    async def find(self, *, judge: bool = False) -> Attempts | None:
        """Return the answer, if it may be taken. With `judge`, without its judgement."""
        found = self.store.find(self.question)
        if found is None or (self.own_runs_only and not found.is_ours):
            return None
        is_judged = bool(self.grading) and found.grading == self.grading and not judge
        if self.needs_files and not is_judged:
            return None
        if is_judged and (found.is_ours or self.needs_files):  # the cache is for work on evaluators, which always run
            self.judgement = tuple(map(EvaluatorResult.from_plain, found.judgement))
        self._id = found.id
        if not found.is_ours:  # a run that goes on with this one finds it without the cache
            text = json.dumps(found.response)
            self._id = await self.store.add(self.question, text, Costs(), origin=found.id)
        _LOGGER.debug("%s", masked(f"target {self.question.target}: call 1: answered from the store"))
        response = ProviderResponse.from_plain(found.response["response"])
        if not found.is_paid:
            return Attempts(1, None, response.replace(cached=True))
        lost = tuple(map(ProviderResponse.from_plain, found.response["lost"]))
        return Attempts(found.response["attempts"], None, response, requests=found.response["requests"], lost=lost)

    def of_turns(self, provider: Adapter, target: Json, masker: Masker, *, has_sessions: bool) -> "StoredProvider":
        """Return what asks the turns of a conversation, each a row of its own. A session begins anew in each run."""

        def takes(found: Stored) -> bool:
            has_session = has_sessions or "session" in found.response["response"]
            return not has_session and not self.needs_files and (found.is_ours or not self.own_runs_only)

        return StoredProvider(provider, target, self.store, masker, role="turn", takes=takes)

    async def keep(self, attempts: Attempts, masker: Masker) -> None:
        """Write the answer: before it is judged, or with its judgement. Only the former waits for the disk."""
        response, text = attempts.response, None
        if response is not None:
            if response.duration_ms is None:
                response = response.replace(duration_ms=attempts.duration_ms)
            lost = [each.to_plain() for each in attempts.lost]
            more = {"attempts": attempts.count, "requests": attempts.requests, "lost": lost}
            text = response_text(response, masker, more)
        has_rows = response is not None and response.conversation is not None  # its turns
        judged, costs = self._judged, Costs() if has_rows else costs_of(attempts)
        self._id = await self.store.add(self.question, text, costs, judged=judged, waits=judged is None)

    def note(self, judgement: tuple[EvaluatorResult, ...], masker: Masker) -> None:
        """Note the judgement of the answer, unless an evaluator broke. Nobody takes one that holds a secret."""
        if any(each.error is not None for each in judgement):
            return
        plain = [each.to_plain() for each in judgement]
        is_known = bool(self.grading) and masker.mask_plain(plain) == plain
        self._judged = (self.grading, plain) if is_known else ("", None)
        if self._id is not None:
            self.store.judge(self._id, *self._judged)


@dataclass(slots=True, eq=False)
class StoredProvider:
    """Asks the target behind it only what is not in the store. For judges, others that judge, and parts of answers."""

    provider: Adapter
    target: Json
    """What identifies the target in keys."""
    store: AnswerStore
    masker: Masker
    costs_count: bool = True
    role: str = "judge"
    takes: Callable[[Stored], bool] = lambda _: True
    """Tells whether an answer may be taken."""
    mode: PromptMode = field(init=False)
    keeps_limits: bool = field(init=False)
    _ids: dict[Question, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mode = self.provider.mode
        self.keeps_limits = getattr(self.provider, "keeps_limits", False)

    async def check(self) -> None:
        await self.provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        question = self._question(request)
        found = self.store.find(question)
        if found is not None and self.takes(found):
            self._ids[question] = found.id
            return ProviderResponse.from_plain(found.response["response"]).replace(cached=True)
        started = time.perf_counter()
        try:
            response = timed(await self.provider.invoke(request), started)
        except ProviderError:
            await self.store.add(question, None, Costs(1 if self.costs_count else 0))
            raise
        costs = Costs.of_call(response.token_usage, response.cost_usd) if self.costs_count else Costs()
        self._ids[question] = await self.store.add(question, response_text(response, self.masker), costs)
        return response

    def place(self, request: ProviderRequest) -> str:
        """Return what equal questions have in common."""
        return key_of(self.target, request)

    def forget(self, request: ProviderRequest) -> None:
        """Let no later run take the answer to a request, which was of no use."""
        if (id_ := self._ids.pop(self._question(request), None)) is not None:
            self.store.drop(id_)

    async def close(self) -> None:
        await self.provider.close()

    def _question(self, request: ProviderRequest) -> Question:
        item, eval_id, target = current_case.get()
        return Question(item, eval_id, self.place(request), request.answer, request.reruns, target, self.role)


class RejudgedFile:
    """The results file of `--agentv-rejudge`: its answers, for want of those in the store. Used on the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results: dict[tuple[str | None, str], EvalResult] | None = None

    def answer(self, job: CaseJob, asked: Asked, *, looks_at_files: bool) -> Attempts:
        """Return the answer of a case. Raises `FileError` for what the file does not tell."""
        if self._results is None:
            found = (each.result for each in iter_recorded(self._path) if not isinstance(each, Problem))
            self._results = {(each.node_id, each.eval_id): each for each in found}
        result = self._results.get((job.identity.node_id, job.identity.eval_id))
        if looks_at_files:
            raise self._fault("evaluators of this case look at files that its answer left: run it again")
        if result is None:
            raise self._fault("there is no answer of this case")
        if result.repeat is not None and result.answers is None:
            raise self._fault("it does not hold each answer of this case: --agentv-include-answers records them")
        if job.answer >= len(result.answers or (result,)):
            raise self._fault(f"there is no answer {job.answer + 1} of this case")
        if result.answers is not None:  # what an answer lacks must not be that of the one that the result shows
            case = {"eval_id": result.eval_id, "dataset": result.dataset, "target": result.target}
            result = EvalResult.from_plain({**case, **result.answers[job.answer]})
        detail = result.error_detail
        if detail is not None and detail.stage in ("setup", "provider"):
            raise self._fault(f"there is no answer of this case: {result.error}")
        plain = result.to_plain()
        requests = {name: plain[name] for name in ("lm_provider_request", "agent_provider_request") if name in plain}
        if requests != request_field(asked):
            raise self._fault("what the case asks has changed since its answer: run it again")
        # Prompts of commands, and pictures, only name files: see `render_part`.
        if (asked.is_agent and job.case.file_paths) or "<file: path=" in json.dumps(requests):
            raise self._fault("it does not tell what the files of this case held: run it again")
        messages = result.output_messages
        text = json.dumps([each.to_plain() for each in messages or ()])
        if "more characters)" in text or " are left out " in text:  # as store/writers.py cuts long conversations
            raise self._fault("it holds the messages of this answer only in part: run it again")
        events = 0 if result.trace_summary is None else result.trace_summary.event_count
        if result.trace is None and events != sum(len(each.tool_calls) for each in messages or ()):
            raise self._fault("it does not hold the trace of this answer: --agentv-include-trace records it")
        metrics = result.execution_metrics or ExecutionMetrics()
        response = ProviderResponse(
            messages or (Message(role="assistant", content=result.candidate_answer),),
            result.trace,
            token_usage=metrics.token_usage,
            cost_usd=metrics.cost_usd,
            cost_source=result.cost_source,
            duration_ms=metrics.duration_ms,
            finish_reason=result.finish_reason,
            retrieved_context=result.retrieved_context,
            workspace=result.workspace,
            file_changes=result.file_changes,
            is_text_only=messages is None and result.trace_summary is None,
            raw={} if result.model is None else {"model": result.model},
        )
        return Attempts(result.attempts, None, response)

    def _fault(self, reason: str) -> FileError:
        return FileError(self._path, f"{reason} (--agentv-rejudge asks no target)")
