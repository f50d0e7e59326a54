"""Calls a target with a single prompt of user code: without a case, or for a part of a case's answer."""

from pathlib import Path

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.pool import TargetPool
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import masking
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python_calls import OwnCall


async def ask_target(pool: TargetPool, options: RunOptions, eval_dir: Path, name: str, prompt: str) -> ProviderResponse:
    """Return the response of a target. Raises `AgentvError` if the target cannot be used or does not answer."""
    request = ProviderRequest(Prompt(prompt), eval_id="prompt", timeout_seconds=options.timeout or None)
    return await _ask(pool, eval_dir, name, request, options.max_retries)


async def _ask(
    pool: TargetPool, eval_dir: Path, name: str, request: ProviderRequest, max_retries: int
) -> ProviderResponse:
    with masking(pool.masker):
        target = await pool.prepare(eval_dir, name, ())
        provider = target.provider
        if pool.store is not None:
            _, provider = pool.stored(eval_dir, pool.definition(eval_dir, name), provider, is_part=True)
        attempts = await invoke_with_retries(provider, request, max_retries)
    if attempts.response is None:
        raise attempts.error or ProviderError("the provider gave no response")
    if attempts.response.error is not None:
        raise ProviderError(attempts.response.error, attempts.response.error_kind)
    return attempts.response


async def ask_for_call(pool: TargetPool, call: OwnCall, prompt: str) -> ProviderResponse:
    """Return the response of the target that a user's object stands in for, while it answers. Raises like `ask_target`.

    Who calls the object retries after time-outs.
    """
    with call.asking(prompt) as request:
        return await _ask(pool, call.eval_dir, call.target, request, 0)
