"""Runs one case: prompt, call, trace, evaluators, score."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_agentv.cases.prompts import Prompt, attached, build_prompt, guideline_files
from pytest_agentv.engine.answers import (
    Answered,
    Attempts,
    broken_answer,
    costs_of,
    invoke_with_retries,
    read_answer,
    salvage_answer,
)
from pytest_agentv.engine.conversations import ConversationAdapter
from pytest_agentv.engine.jobs import NO_HOOKS, NO_OVERRIDES, CaseHooks, CaseJob, Decision, Overrides
from pytest_agentv.engine.pool import ReadyTarget, TargetPool
from pytest_agentv.engine.results import (
    Asked,
    Judgement,
    Threshold,
    effective_threshold,
    error_result,
    judged_result,
    unjudged_result,
)
from pytest_agentv.engine.scheduler import BatchMember
from pytest_agentv.engine.stored import StoredAnswer, key_of
from pytest_agentv.engine.workspaces import Workbench
from pytest_agentv.errors import (
    AgentvError,
    EvaluatorError,
    FileError,
    HookError,
    KindError,
    ProviderError,
    TargetError,
)
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import prepare, run_evaluator, shared_key
from pytest_agentv.files.problems import Hint, Problem
from pytest_agentv.model.base import Json, trim
from pytest_agentv.model.cases import AnyEvaluator, EvalCase, SimulatedUser
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult, Spent
from pytest_agentv.model.secrets import masked, masking
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, require_answer
from pytest_agentv.reports.dumps import dump_prompt, dump_trace
from pytest_agentv.runtime.user_code import attempt_here, run_in_thread, user_traceback
from pytest_agentv.store.answers import Question, current_case

logger = logging.getLogger("pytest_agentv.engine")


async def run_case(
    job: CaseJob,
    pool: TargetPool,
    member: BatchMember | None = None,
    *,
    hooks: CaseHooks = NO_HOOKS,
    own: Overrides = NO_OVERRIDES,
) -> EvalResult:
    """Run a case. Every failure becomes part of the result. Raises only for a cancellation.

    A member of a batch sends its request together with the others. `own` holds user objects that replace targets.
    """
    started, spent = time.perf_counter(), None
    current_case.set((job.identity.node_id, job.identity.eval_id, job.identity.target))
    try:
        with masking(pool.masker):
            prepared = await attempt_here(lambda: _prepare(job, pool, member, hooks, own))
            if prepared.error is None:
                result, spent = await prepared.get().run()
            else:
                result = _setup_error(job, prepared.error)
    except Exception as error:  # noqa: BLE001 - the run goes on, and the case has a record
        result = _setup_error(job, error)
    finally:
        if member is not None:
            member.leave()
    took = round((time.perf_counter() - started) * 1000, 3)
    result = result.replace(duration_ms=took, reruns=job.reruns or None, spent=spent)
    if hooks.decide is None or result.status == "error" or result.dry_run:
        return result
    return await _decide(hooks.decide, job.case, result)


async def _prepare(
    job: CaseJob, pool: TargetPool, member: BatchMember | None, hooks: CaseHooks, own: Overrides
) -> "_CaseRun":
    """Prepare everything that can fail before anything is paid for."""
    case = job.case
    ready = await pool.prepare(case.folder, job.identity.target, case, own)
    evaluators = tuple([prepare(evaluator, ready.services) for evaluator in ready.needs.evaluators])
    asked = Asked(build_prompt(case, ready.provider.mode), ready.has("is_agent"), case.guideline_paths)
    if case.guideline_paths and not own.replace_target and not job.options.dry_run:
        _warn_of_guidelines(job, pool, asked.prompt.question)
    if job.options.dump_prompts is not None and not job.answer:  # all answers have the same prompt
        dump_prompt(
            job.options.dump_prompts,
            case.eval_id,
            asked.prompt,
            guideline_paths=case.guideline_paths,
            masker=pool.masker,
            qualifier=job.dump_qualifier,
        )
    bench = None if case.workspace is None else Workbench(job, case.workspace, ready.services.environment)
    if job.identity.target != ready.target.name:  # a mock has a name of its own
        job = job.replace(identity=job.identity.replace(target=ready.target.name))
    threshold = effective_threshold(job.options, case)
    return _CaseRun(job, pool, member, hooks, ready, evaluators, asked, own.answer, bench, threshold)


def _warn_of_guidelines(job: CaseJob, pool: TargetPool, question: str) -> None:
    """Warn once for each target and file of a target that does not get the guidelines of a case."""
    target = pool.definition(job.case.folder, job.identity.target)
    warning = None if target.provider_batching else lost_guidelines(job.case, question, target.name, target.settings)
    if warning is not None:
        named = f"{target.name}\n{job.case.path}"
        pool.warn_once(warning, f"guidelines-{hashlib.sha256(named.encode('utf-8', 'replace')).hexdigest()[:16]}")


@dataclass(slots=True)
class _CaseRun:
    """A case whose target, prompt and evaluators are ready."""

    job: CaseJob
    pool: TargetPool
    member: BatchMember | None
    hooks: CaseHooks
    ready: ReadyTarget
    evaluators: tuple[AnyEvaluator, ...]
    asked: Asked
    answer: ProviderResponse | None
    """A given answer, instead of a call; None: call the target."""
    bench: Workbench | None
    """Makes the folder that the target works in; None: the case has no workspace."""
    threshold: Threshold
    row: StoredAnswer | None = None
    """The row of the answer in the store; None: it is not kept."""
    judged: dict[int, EvaluatorResult] = field(default_factory=dict)
    """The results of checks of turns that were made during the conversation, by the id of the evaluator."""

    async def run(self) -> tuple[EvalResult, Spent]:
        """Return the result of the case, and what was paid for it now."""
        if self.bench is None:
            return await self._ask_and_judge()
        try:
            result, spent = await self._ask_and_judge()
            return await self.bench.end(result), spent
        finally:
            self.bench.drop()

    async def _ask_and_judge(self) -> tuple[EvalResult, Spent]:
        job, pool, hooks = self.job, self.pool, self.hooks
        request = ProviderRequest(
            self.asked.prompt,
            eval_id=job.case.eval_id,
            answer=job.answer,
            reruns=job.reruns,
            guideline_paths=job.case.guideline_paths,
            input_paths=job.case.file_paths[len(job.case.guideline_paths) :],
            timeout_seconds=job.timeout_seconds,
        )
        self.row = row = self._row(request)
        attempts = None if row is None else await row.find(judge=pool.rejudged is not None)
        if attempts is None and pool.rejudged is not None and self.answer is None:
            leaves_files = self.ready.has("leaves_files") or self.bench is not None
            looks_at_files = leaves_files and self.ready.needs.looks_at_files
            attempts = pool.rejudged.answer(job, self.asked, looks_at_files=looks_at_files)
        costs, is_asked = Costs(), attempts is None
        if attempts is not None:
            if self.member is not None:
                self.member.leave()  # judging may take long
            result = await self._finish(attempts)
        else:
            if self.answer is not None:
                attempts = Attempts(0, None, require_answer(self.answer))
            else:
                attempts = await self._ask(request)
            costs = costs_of(attempts)
            has_hooks = hooks.response is not None or hooks.decide is not None
            is_kept = row is not None and (has_hooks or self.ready.needs.takes_long)
            if row is not None and is_kept:  # judging takes so long that the run may be killed meanwhile
                await row.keep(attempts, pool.masker)
            result = await self._finish(attempts)
            if row is not None and not is_kept:
                await row.keep(attempts, pool.masker)
        if (
            hooks.response is not None and result.execution_metrics is not None
        ):  # it may report what the target does not
            found = Costs.of_call(result.execution_metrics.token_usage, result.execution_metrics.cost_usd)
            costs = found.replace(calls=costs.calls) if costs.calls else costs
        is_judged_before = row is not None and row.judgement is not None
        judges = [None if result.spent is None or is_judged_before else result.spent.judge]
        if is_asked and result.conversation is not None:  # one of the store has cost nothing now
            judges.append(result.conversation.user_metrics)
        return result, Spent(costs, Costs.added(judges) if any(judges) else None)

    async def _ask(self, request: ProviderRequest) -> Attempts:
        job, ready, bench = self.job, self.ready, self.bench
        provider, target = ready.provider, ready.target
        called = f"target {target.name}"
        if job.case.turns is None:
            provider = provider if self.member is None else self.member.around(provider)
            provider = provider if bench is None else await bench.around(provider, target, self.pool.workspaces)
            return await invoke_with_retries(provider, request, job.options.max_retries, called)
        if self.member is not None:
            raise TargetError(
                f"{called} answers all cases in one call (provider_batching): it cannot be asked turn by turn"
            )
        if self.row is not None:
            identity = [job.identity.target, job.identity.target_hash]
            provider = self.row.of_turns(provider, identity, self.pool.masker, has_sessions=ready.has("session"))
        plan, user = job.case.turns, job.case.user
        conversation: Adapter = ConversationAdapter(
            provider.mode,
            provider,
            job.case,
            plan,
            called,
            job.options.max_retries,
            ready.has("session"),
            ready.user,
            self._turn_passes if plan.on_turn_failure == "stop" else None,
            self._fault_of_user if user and user.check and not job.options.dry_run else None,
        )
        if bench is not None:  # all turns work in the same copy
            conversation = await bench.around(conversation, target, self.pool.workspaces)
        return await invoke_with_retries(conversation, request, 0, called)

    async def _turn_passes(self, response: ProviderResponse) -> bool:
        """Judge the last turn of a conversation by its checks, and return whether they pass."""
        context = self._context(await read_answer(Attempts(1, None, response), self.job.options))
        if len(context.turns) == 1:
            self.judged.clear()  # of a conversation that the user spoilt
        evaluators = [each for each in self.evaluators if shared_key(each, "turn") == len(context.turns)]
        for each in evaluators:
            self.judged[id(each)] = await run_evaluator(each, context)
        evaluations = tuple(self.judged[id(each)] for each in evaluators)
        return not evaluations or Judgement.of(evaluations, self.threshold.value).status == "pass"

    async def _fault_of_user(self, user: SimulatedUser, said: str) -> tuple[str | None, Costs]:
        """Let the judge check the messages of a simulated user. Raises `ProviderError` if it cannot."""
        from pytest_agentv.evaluators.judge import Statements  # noqa: PLC0415 - imports pydantic

        job, persona = self.job, [f"Its persona: {user.persona}"] if user.persona else []
        told = "A simulated user talks to an assistant. Only the messages of the user are shown."
        context = Context(
            job.case.replace(expected_outcome="", reference_answer=""),
            Prompt("\n\n".join([told, f"Its goal: {user.goal}", *persona])),
            said,
            answer=job.answer,
            reruns=job.reruns,
            timeout_seconds=job.timeout_seconds,
            services=self.ready.services,
        )
        result = await run_evaluator(Statements(name="user", value=USER_RULES), context)
        if result.error is not None:
            raise ProviderError(
                f"the simulated user could not be checked: {result.error}", result.error_kind or "crash"
            )
        fault = None if result.score == 1 else "; ".join(result.misses)
        return fault, result.judge_metrics or Costs()

    def _row(self, request: ProviderRequest) -> StoredAnswer | None:
        store, identity, ready = self.pool.store, self.job.identity, self.ready
        if store is None or self.answer is not None or identity.target_hash is None or ready.target.kind == "mock":
            return None
        if self.bench is not None and identity.case_hash is None:
            return None
        plan = self.job.case.turns
        turns: list[Json] = [] if plan is None else [plan.replace(lines=()).to_plain()]
        turns += [identity.grading_hash] if plan is not None and plan.on_turn_failure == "stop" else []
        workspace = [] if self.bench is None else [identity.case_hash]
        # Two targets of one definition may be compared.
        key = key_of([identity.target, identity.target_hash, *turns, *workspace], request)
        question = Question(identity.node_id, identity.eval_id, key, request.answer, request.reruns, identity.target)
        grading = identity.grading_hash or ""
        if self.hooks.response is not None:
            grading = ""  # it may change the answer before it is judged
        elif grading and self.ready.needs.threshold:
            grading = f"{grading} {self.threshold.value}"
        needs_files = bool(workspace) or (ready.has("leaves_files") and self.ready.needs.looks_at_files)
        return StoredAnswer(store, question, grading, needs_files=needs_files, own_runs_only=ready.is_object)

    async def _finish(self, attempts: Attempts) -> EvalResult:
        """Judge the outcome of the calls. What breaks then is in the record beside the answer, which was paid for."""
        try:
            return await self._read_and_judge(attempts)
        except Exception as error:
            logger.debug("case %s broke after its answer", self.job.identity.eval_id, exc_info=error)
            answered = await salvage_answer(attempts, self.job.options)
            fault = broken_answer(answered) or EvaluatorError(user_traceback(error))
            return unjudged_result(self.job, self.asked, answered, fault)

    async def _read_and_judge(self, attempts: Attempts) -> EvalResult:
        """Read the outcome of the calls, show it to the hook and judge it."""
        job, hook, response = self.job, self.hooks.response, attempts.response
        fault: HookError | None = None
        if response is not None:
            if response.warnings:
                self.pool.warn_of_answer(job.case.folder, self.ready.target.name, [*map(masked, response.warnings)])
            try:
                if hook is not None:
                    shown = await run_in_thread(lambda: hook(job.case, response), _THREAD)
                    attempts = attempts.replace(response=shown)
            except HookError as error:
                fault = error
        try:
            answered = await read_answer(attempts, job.options)
        except KindError as error:
            self._dump_traces(attempts.count, None)
            result = error_result(
                job.identity,
                "provider",
                error.kind,
                str(error),
                self.asked,
                attempts=attempts.count,
                dry_run=job.options.dry_run,
            )
            return result.replace(**attempts.requests)
        self._dump_traces(attempts.count, answered)
        unanswered = broken_answer(answered) or fault
        if unanswered is not None:
            return unjudged_result(job, self.asked, answered, unanswered)
        evaluations = None if self.row is None else self.row.judgement
        if evaluations is None:
            evaluations = await self._judge(self._context(answered))
            if self.row is not None:
                self.row.note(evaluations, self.pool.masker)
        self.pool.warnings.extend(self._warnings(evaluations))
        return judged_result(job, self.asked, answered, evaluations, self.threshold)

    async def _judge(self, context: Context) -> tuple[EvaluatorResult, ...]:
        """Judge by all evaluators: those that only ask models side by side, the others in turn.

        A check of files may rest on what the command before it left.
        """
        found: dict[int, EvaluatorResult] = {}

        async def judge(*places: int) -> None:
            for place in places:
                each = self.evaluators[place]
                found[place] = self.judged.get(id(each)) or await run_evaluator(each, context)

        only_models = self.ready.needs.only_models
        waiting = [place for place, is_waiting in enumerate(only_models) if is_waiting]
        others = [place for place, is_waiting in enumerate(only_models) if not is_waiting]
        if not waiting:
            await judge(*others)
        else:
            await asyncio.gather(judge(*others), *map(judge, waiting))
        return tuple(map(found.__getitem__, sorted(found)))

    def _context(self, answered: Answered, prompt: Prompt | None = None) -> Context:
        """Return what evaluators see of an answer, or of a turn with this prompt."""
        return Context(
            case=self.job.case,
            prompt=prompt or self.asked.prompt,
            candidate_answer=answered.candidate_answer,
            output_messages=answered.output_messages,
            trace=answered.trace,
            trace_summary=answered.trace_summary,
            metrics=answered.metrics,
            attempt=max(0, answered.attempts.count - 1),
            answer=self.job.answer,
            reruns=self.job.reruns,
            timeout_seconds=self.job.timeout_seconds,
            target=self.ready.target.name,
            reports_calls=not answered.response.is_text_only,
            retrieved_context=answered.response.retrieved_context,
            workspace=None if self.bench is None or self.bench.changes is None else self.bench,
            file_changes=answered.response.file_changes,
            dry_run=self.job.options.dry_run,
            threshold=self.threshold.value,
            turns=tuple([self._context(turn, asked) for asked, turn in answered.turns]),
            services=self.ready.services,
        )

    def _warnings(self, evaluations: Sequence[EvaluatorResult], path: str = "") -> list[Problem]:
        """Return the warnings of judgements, including members of composites, at the place of the case."""
        case, found = self.job.case, []
        for each in evaluations:
            for warning in each.warnings or ():
                message = masked(f"evaluator {path + each.name!r}: {warning}")
                found.append(Problem(Path(case.path), case.line, self.job.identity.eval_id, message, level="warning"))
            if each.evaluator_results:
                found += self._warnings(each.evaluator_results, f"{path}{each.name}.")
        return found

    def _dump_traces(self, attempts: int, answered: Answered | None) -> None:
        """Write a file per attempt, if the run asks for them. Only the last attempt can have a trace.

        A file that cannot be written is only a warning, so that a paid answer is never lost to a debug file.
        """
        job = self.job
        if job.options.dump_traces is None:
            return
        try:
            for attempt in range(1, attempts + 1):
                last = answered if attempt == attempts else None
                dump_trace(
                    job.options.dump_traces,
                    job.case.eval_id,
                    attempt=attempt,
                    answer=job.answer,
                    reruns=job.reruns,
                    target=job.identity.target,
                    trace=last.trace if last else None,
                    trace_summary=last.trace_summary if last else None,
                    masker=self.pool.masker,
                    qualifier=job.dump_qualifier,
                )
        except FileError as error:
            message = f"the trace is not dumped: {str(error).partition(': ')[2]}"
            self.pool.warnings.append(Problem(error.path, error.line, "", message, level="warning"))


USER_RULES: Final = (
    "Each message fits the goal and the persona",
    "No message tells a fact about the user or the order that the goal and the persona do not tell",
    "Each message is one that a user would write: none answers in place of the assistant",
)
"""What is checked of a simulated user."""


def _setup_error(job: CaseJob, error: BaseException) -> EvalResult:
    dry_run = job.options.dry_run
    if isinstance(error, AgentvError):
        kind = error.kind if isinstance(error, KindError) else "config"
        return error_result(job.identity, "setup", kind, str(error), dry_run=dry_run)
    logger.debug("case %s broke", job.identity.eval_id, exc_info=error)
    return error_result(job.identity, "setup", "crash", user_traceback(error), dry_run=dry_run)


# The hooks of a case run in threads, so that a hook that blocks delays only its own case.

_THREAD: Final = "agentv-hook"


async def _decide(
    hook: Callable[[EvalCase, EvalResult], Decision | None], case: EvalCase, result: EvalResult
) -> EvalResult:
    """Return the result of a judged case as the hook decides."""
    try:
        decision = await run_in_thread(lambda: hook(case, result), _THREAD)
    except HookError as error:
        return result.replace(status="error", error=str(error), error_detail=ErrorDetail("evaluator", error.kind))
    if decision is None:
        return result
    return result.replace(status="pass" if decision.passed else "fail", assertion=decision.reason)


async def tell(hooks: CaseHooks, case: EvalCase | None, result: EvalResult) -> None:
    """Call the hook with a result that was written."""
    hook = hooks.recorded
    if hook is not None:
        await run_in_thread(lambda: hook(case, result), _THREAD)


# Guidelines that a target does not get: without them it has another task, and no error shows it.


def lost_guidelines(case: EvalCase, question: str, target: str, settings: object) -> Hint | None:
    """Return a warning if a target gets the question of a case without its guidelines; None: it gets all of them.

    Args:
        case: The case. Guidelines that its question names (`<Attached: …>`) are not lost: an agent can read them.
        question: What the target is asked.
        target: The name of the target.
        settings: The keys of the target.
    """
    if not getattr(settings, "leaves_out_guidelines", False):
        return None
    files = [file for file in guideline_files(case.messages) if trim(file.text) and attached(file) not in question]
    if not files:
        return None
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    alone = "" if question.strip() else ", and is asked nothing else"
    message = f"target {target!r} does not get the guideline {files[0].value!r}{more}{alone}"
    hint = "write {GUIDELINES}, their texts, or {FILES}, their paths, into its command_template or stdin"
    return Hint(Path(case.path), case.line, case.eval_id, message, hint, level="warning")
