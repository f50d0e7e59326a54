"""Calls the hooks of a case in threads, so that a hook that blocks delays only its own case."""

from pytest_agentv.engine.attempts import Attempts
from pytest_agentv.engine.overrides import CaseHooks
from pytest_agentv.errors import HookError
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import ErrorDetail
from pytest_agentv.runtime.threads import run_in_thread

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
