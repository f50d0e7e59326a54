"""Runs one case: prompt, call, trace, evaluators, score."""

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from pytest_agentv.engine.jobs import NO_HOOKS, NO_OVERRIDES, CaseHooks, CaseJob, Overrides, choose_judge
from pytest_agentv.engine.judging import asks_for_threshold, evaluators_of, look_at_files, take_long
from pytest_agentv.engine.pool import ReadyTarget, TargetPool
from pytest_agentv.engine.results import (
    Asked,
    Judgement,
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
from pytest_agentv.evaluators.context import Context, Services
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
            prepared = await attempt_here(lambda: _prepare(job, pool, own))
            if prepared.error is None:
                result, spent = await _run(job, prepared.get(), member, hooks)
            else:
                result = _setup_error(job, prepared.error)
    except Exception as error:  # noqa: BLE001 - the run goes on, and the case has a record
        result = _setup_error(job, error)
    finally:
        if member is not None:
            member.leave()
    took = round((time.perf_counter() - started) * 1000, 3)
    result = result.replace(duration_ms=took, reruns=job.reruns or None, spent=spent)
    return await decide(hooks, job.case, result)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything that is prepared before the call of the target."""

    pool: TargetPool
    target: ReadyTarget
    evaluators: tuple[AnyEvaluator, ...]
    services: Services
    asked: Asked
    answer: ProviderResponse | None
    """A given answer, instead of a call; None: call the target."""
    bench: Workbench | None
    """Makes the folder that the target works in; None: the case has no workspace."""
    judged: dict[int, EvaluatorResult] = field(default_factory=dict)
    """The results of checks of turns that were made during the conversation, by the id of the evaluator."""


async def _prepare(job: CaseJob, pool: TargetPool, own: Overrides) -> _Prepared:
    """Prepare everything that can fail before anything is paid for."""
    evaluators = evaluators_of(job.case)
    judge = choose_judge(job.options, job.case.judge)
    target = await pool.prepare(job.case.folder, job.identity.target, evaluators, own, judge=judge, user=job.case.user)
    judges = target.judges
    own_judge = judges.get(None)
    services = Services(own_judge, target.environment, target.callable_targets, target.embedders, job.case, judges)
    evaluators = tuple(prepare(evaluator, services) for evaluator in evaluators)
    asked = Asked(build_prompt(job.case, target.provider.mode), target.is_agent, job.case.guideline_paths)
    if job.case.guideline_paths and not own.replace_target and not job.options.dry_run:
        _warn_of_guidelines(job, pool, asked.prompt.question)
    dump_job_prompt(job, pool, asked.prompt)
    workspace = job.case.workspace
    bench = None if workspace is None else Workbench(job, workspace, target.environment)
    return _Prepared(pool, target, evaluators, services, asked, own.answer, bench)


def _warn_of_guidelines(job: CaseJob, pool: TargetPool, question: str) -> None:
    """Warn once for each target and file of a target that does not get the guidelines of a case."""
    target = pool.definition(job.case.folder, job.identity.target)
    warning = None if target.provider_batching else lost_guidelines(job.case, question, target.name, target.settings)
    if warning is not None:
        named = f"{target.name}\n{job.case.path}"
        pool.warn_once(warning, f"guidelines-{hashlib.sha256(named.encode('utf-8', 'replace')).hexdigest()[:16]}")


async def _run(
    job: CaseJob, prepared: _Prepared, member: BatchMember | None, hooks: CaseHooks
) -> tuple[EvalResult, Spent]:
    bench = prepared.bench
    if bench is None:
        return await _ask_and_judge(job, prepared, member, hooks)
    try:
        result, spent = await _ask_and_judge(job, prepared, member, hooks)
        return await bench.end(result), spent
    finally:
        bench.drop()


async def _ask_and_judge(
    job: CaseJob, prepared: _Prepared, member: BatchMember | None, hooks: CaseHooks
) -> tuple[EvalResult, Spent]:
    """Return the result of a case, and what was paid for it now."""
    if job.identity.target != prepared.target.name:
        job = job.replace(identity=job.identity.replace(target=prepared.target.name))
    request = _request(job, prepared)
    row = _row(job, prepared, request, hooks)
    attempts = None if row is None else await row.find(judge=prepared.pool.rejudged is not None)
    if attempts is None and prepared.pool.rejudged is not None and prepared.answer is None:
        leaves_files = prepared.target.leaves_files or prepared.bench is not None
        looks_at_files = leaves_files and look_at_files(prepared.evaluators)
        attempts = prepared.pool.rejudged.answer(job, prepared.asked, looks_at_files=looks_at_files)
    costs, is_asked = Costs(), attempts is None
    if attempts is not None:
        if member is not None:
            member.leave()  # judging may take long
        result = await _finish(job, prepared, attempts, hooks, row)
    else:
        if prepared.answer is not None:
            attempts = Attempts(0, None, require_answer(prepared.answer))
        else:
            attempts = await _ask(job, prepared, request, member, row)
        costs = costs_of(attempts)
        has_hooks = hooks.response is not None or hooks.decide is not None
        is_kept = row is not None and (has_hooks or take_long(prepared.evaluators))
        if row is not None and is_kept:  # judging takes so long that the run may be killed meanwhile
            await row.keep(attempts, prepared.pool.masker)
        result = await _finish(job, prepared, attempts, hooks, row)
        if row is not None and not is_kept:
            await row.keep(attempts, prepared.pool.masker)
    if hooks.response is not None and result.execution_metrics is not None:  # it may report what the target does not
        found = Costs.of_call(result.execution_metrics.token_usage, result.execution_metrics.cost_usd)
        costs = found.replace(calls=costs.calls) if costs.calls else costs
    is_judged_before = row is not None and row.judgement is not None
    judges = [None if result.spent is None or is_judged_before else result.spent.judge]
    if is_asked and result.conversation is not None:  # one of the store has cost nothing now
        judges.append(result.conversation.user_metrics)
    return result, Spent(costs, Costs.added(judges) if any(judges) else None)


async def _ask(
    job: CaseJob,
    prepared: _Prepared,
    request: ProviderRequest,
    member: BatchMember | None,
    row: StoredAnswer | None,
) -> Attempts:
    provider, called = prepared.target.provider, f"target {prepared.target.name}"
    bench, known, fault = prepared.bench, prepared.pool.workspaces, prepared.target.workspace_fault
    if job.case.turns is None:
        provider = provider if member is None else member.wrap(provider)
        provider = provider if bench is None else await bench.around(provider, fault, known)
        return await invoke_with_retries(provider, request, job.options.max_retries, called)
    if member is not None:
        raise TargetError(
            f"{called} answers all cases in one call (provider_batching): it cannot be asked turn by turn"
        )
    if row is not None:
        target = [job.identity.target, job.identity.target_hash]
        provider = row.of_turns(provider, target, prepared.pool.masker, has_sessions=prepared.target.has_sessions)
    plan, user = job.case.turns, job.case.user
    conversation: Adapter = ConversationAdapter(
        provider.mode,
        provider,
        job.case,
        plan,
        called,
        job.options.max_retries,
        prepared.target.has_sessions,
        prepared.target.user,
        partial(_turn_passes, job, prepared) if plan.on_turn_failure == "stop" else None,
        partial(_fault_of_user, job, prepared) if user and user.check and not job.options.dry_run else None,
    )
    if bench is not None:  # all turns work in the same copy
        conversation = await bench.around(conversation, fault, known)
    return await invoke_with_retries(conversation, request, 0, called)


async def _turn_passes(job: CaseJob, prepared: _Prepared, response: ProviderResponse) -> bool:
    """Judge the last turn of a conversation by its checks, and return whether they pass."""
    context = _context(job, prepared, await read_answer(Attempts(1, None, response), job.options))
    if len(context.turns) == 1:
        prepared.judged.clear()  # of a conversation that the user spoilt
    evaluators = [each for each in prepared.evaluators if shared_key(each, "turn") == len(context.turns)]
    for each in evaluators:
        prepared.judged[id(each)] = await run_evaluator(each, context)
    evaluations = tuple(prepared.judged[id(each)] for each in evaluators)
    judgement = Judgement(evaluations, effective_threshold(job.options, job.case))
    return not evaluations or judgement.status(judgement.combined) == "pass"


async def _fault_of_user(job: CaseJob, prepared: _Prepared, user: SimulatedUser, said: str) -> tuple[str | None, Costs]:
    """Let the judge check the messages of a simulated user. Raises `ProviderError` if it cannot."""
    from pytest_agentv.evaluators.judge import Statements  # noqa: PLC0415 - imports pydantic

    told = "A simulated user talks to an assistant. Only the messages of the user are shown."
    asked = "\n\n".join([told, f"Its goal: {user.goal}", *([f"Its persona: {user.persona}"] if user.persona else [])])
    check = Statements(name="user", value=USER_RULES)
    case = job.case.replace(expected_outcome="", reference_answer="")
    context = Context(case, Prompt(asked), said, answer=job.answer, reruns=job.reruns, services=prepared.services)
    result = await run_evaluator(check, context.replace(timeout_seconds=job.timeout_seconds))
    if result.error is not None:
        raise ProviderError(f"the simulated user could not be checked: {result.error}", result.error_kind or "crash")
    fault = None if result.score == 1 else "; ".join(result.misses)
    return fault, result.judge_metrics or Costs()


USER_RULES: Final = (
    "Each message fits the goal and the persona",
    "No message tells a fact about the user or the order that the goal and the persona do not tell",
    "Each message is one that a user would write: none answers in place of the assistant",
)
"""What is checked of a simulated user."""


def _request(job: CaseJob, prepared: _Prepared) -> ProviderRequest:
    return ProviderRequest(
        prepared.asked.prompt,
        eval_id=job.case.eval_id,
        answer=job.answer,
        reruns=job.reruns,
        guideline_paths=job.case.guideline_paths,
        input_paths=job.case.file_paths[len(job.case.guideline_paths) :],
        timeout_seconds=job.timeout_seconds,
    )


def _row(job: CaseJob, prepared: _Prepared, request: ProviderRequest, hooks: CaseHooks) -> StoredAnswer | None:
    """Return the row of an answer in the store; None: it is not kept."""
    store, identity, target = prepared.pool.store, job.identity, prepared.target
    if store is None or prepared.answer is not None or identity.target_hash is None or not target.is_stored:
        return None
    plan = job.case.turns
    turns: list[Json] = [] if plan is None else [plan.replace(lines=()).to_plain()]
    turns += [identity.grading_hash] if plan is not None and plan.on_turn_failure == "stop" else []
    if prepared.bench is not None and identity.case_hash is None:
        return None
    workspace = [] if prepared.bench is None else [identity.case_hash]
    # Two targets of one definition may be compared.
    key = key_of([identity.target, identity.target_hash, *turns, *workspace], request)
    question = Question(identity.node_id, identity.eval_id, key, job.answer, job.reruns, identity.target)
    grading = identity.grading_hash or ""
    if hooks.response is not None:
        grading = ""  # it may change the answer before it is judged
    elif grading and asks_for_threshold(job.case):
        grading = f"{grading} {effective_threshold(job.options, job.case).value}"
    needs_files = bool(workspace) or (target.leaves_files and look_at_files(prepared.evaluators))
    return StoredAnswer(store, question, grading, needs_files=needs_files, own_runs_only=target.is_object)


async def _finish(
    job: CaseJob, prepared: _Prepared, attempts: Attempts, hooks: CaseHooks, row: StoredAnswer | None
) -> EvalResult:
    """Judge the outcome of the calls. What breaks then is in the record beside the answer, which was paid for."""
    try:
        return await _read_and_judge(job, prepared, attempts, hooks, row)
    except Exception as error:
        logger.debug("case %s broke after its answer", job.identity.eval_id, exc_info=error)
        answered = await salvage_answer(attempts, job.options)
        return unjudged_result(
            job, prepared.asked, answered, broken_answer(answered) or EvaluatorError(user_traceback(error))
        )


async def _read_and_judge(
    job: CaseJob, prepared: _Prepared, attempts: Attempts, hooks: CaseHooks, row: StoredAnswer | None
) -> EvalResult:
    """Read the outcome of the calls, show it to the hooks and judge it."""
    if attempts.response is not None and attempts.response.warnings:
        warnings = [masked(warning) for warning in attempts.response.warnings]
        prepared.pool.warn_of_answer(job.case.folder, prepared.target.name, warnings)
    fault: HookError | None = None
    try:
        attempts = await show_response(hooks, job.case, attempts)
    except HookError as error:
        fault = error
    try:
        answered = await read_answer(attempts, job.options)
    except KindError as error:
        dump_job_traces(job, prepared.pool, attempts.count, None)
        message, asked = str(error), prepared.asked
        dry_run = job.options.dry_run
        result = error_result(
            job.identity, "provider", error.kind, message, asked, attempts=attempts.count, dry_run=dry_run
        )
        return result.replace(**attempts.requests)
    dump_job_traces(job, prepared.pool, attempts.count, answered)
    unanswered = broken_answer(answered) or fault
    if unanswered is None:
        return await _judged(job, prepared, answered, row)
    return unjudged_result(job, prepared.asked, answered, unanswered)


def _context(job: CaseJob, prepared: _Prepared, answered: Answered, prompt: Prompt | None = None) -> Context:
    """Return what evaluators see of an answer, or of a turn with this prompt."""
    turns = tuple(_context(job, prepared, turn, asked) for asked, turn in answered.turns)
    return Context(
        case=job.case,
        prompt=prompt or prepared.asked.prompt,
        candidate_answer=answered.candidate_answer,
        output_messages=answered.output_messages,
        trace=answered.trace,
        trace_summary=answered.summary,
        metrics=answered.metrics,
        attempt=max(0, answered.attempts - 1),
        answer=job.answer,
        reruns=job.reruns,
        timeout_seconds=job.timeout_seconds,
        target=prepared.target.name,
        reports_calls=not answered.is_text_only,
        retrieved_context=answered.retrieved_context,
        workspace=None if prepared.bench is None or prepared.bench.changes is None else prepared.bench,
        file_changes=answered.file_changes,
        dry_run=job.options.dry_run,
        threshold=effective_threshold(job.options, job.case).value,
        turns=turns,
        services=prepared.services,
    )


async def _judged(job: CaseJob, prepared: _Prepared, answered: Answered, row: StoredAnswer | None) -> EvalResult:
    threshold, context = effective_threshold(job.options, job.case), _context(job, prepared, answered)
    known = prepared.judged
    evaluations = None if row is None else row.judgement
    if evaluations is None:
        evaluations = tuple([known.get(id(each)) or await run_evaluator(each, context) for each in prepared.evaluators])
        if row is not None:
            row.note(evaluations, prepared.pool.masker)
    prepared.pool.warn(_warnings(job, evaluations))
    judgement = Judgement(evaluations, threshold, is_default_judge=job.case.evaluators is None)
    return judged_result(job, prepared.asked, answered, judgement)


def _warnings(job: CaseJob, evaluations: Sequence[EvaluatorResult], path: str = "") -> Iterator[Problem]:
    """Yield the warnings of judgements, including members of composites, at the place of the case."""
    for each in evaluations:
        name = f"{path}{each.name}"
        for warning in each.warnings or ():
            message = f"evaluator {name!r}: {warning}"
            yield Problem(Path(job.case.path), job.case.line, job.identity.eval_id, masked(message), level="warning")
        if each.evaluator_results:
            yield from _warnings(job, each.evaluator_results, f"{name}.")


def _setup_error(job: CaseJob, error: BaseException) -> EvalResult:
    dry_run = job.options.dry_run
    if isinstance(error, AgentvError):
        kind = error.kind if isinstance(error, KindError) else "config"
        return error_result(job.identity, "setup", kind, str(error), dry_run=dry_run)
    logger.debug("case %s broke", job.identity.eval_id, exc_info=error)
    return error_result(job.identity, "setup", "crash", user_traceback(error), dry_run=dry_run)


# The hooks of a case run in threads, so that a hook that blocks delays only its own case.

_THREAD = "agentv-hook"


async def show_response(hooks: CaseHooks, case: EvalCase, attempts: Attempts) -> Attempts:
    """Return the attempts with the response that the hook returns. Raises `HookError`."""
    hook, response = hooks.response, attempts.response
    if hook is None or response is None:
        return attempts
    return attempts.replace(response=await run_in_thread(lambda: hook(case, response), _THREAD))


async def decide(hooks: CaseHooks, case: EvalCase, result: EvalResult) -> EvalResult:
    """Return the result as the hook decides. Skips the hook for a case that was not judged, and in a dry run."""
    hook = hooks.decide
    if hook is None or result.status == "error" or result.dry_run:
        return result
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


# The dumps that a run asks for: the prompt of a case, and the trace of each attempt.


def dump_job_prompt(job: CaseJob, pool: TargetPool, prompt: Prompt) -> None:
    """Write the prompt of a case. Raises `FileError`, before anything is paid for."""
    folder = job.options.dump_prompts
    if folder is None or job.answer:  # all answers have the same prompt
        return
    dump_prompt(
        folder,
        job.case.eval_id,
        prompt,
        guideline_paths=job.case.guideline_paths,
        masker=pool.masker,
        qualifier=job.dump_qualifier,
    )


def dump_job_traces(job: CaseJob, pool: TargetPool, attempts: int, answered: Answered | None) -> None:
    """Write a file per attempt. Only the last attempt can have a trace.

    A file that cannot be written is only a warning, so that a paid answer is never lost to a debug file.
    """
    folder = job.options.dump_traces
    if folder is None:
        return
    try:
        for attempt in range(1, attempts + 1):
            last = answered if attempt == attempts else None
            dump_trace(
                folder,
                job.case.eval_id,
                attempt=attempt,
                answer=job.answer,
                reruns=job.reruns,
                target=job.identity.target,
                trace=last.trace if last else None,
                trace_summary=last.summary if last else None,
                masker=pool.masker,
                qualifier=job.dump_qualifier,
            )
    except FileError as error:
        reason = str(error).partition(": ")[2]
        problem = Problem(error.path, error.line, "", f"the trace is not dumped: {reason}", level="warning")
        pool.warn([problem])


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
