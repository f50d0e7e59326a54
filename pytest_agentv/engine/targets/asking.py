"""Calls a target with a single prompt, without a case."""

from pathlib import Path

from pytest_agentv.engine.attempts import invoke_with_retries
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import masking
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.prompts.prompt import Prompt
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse


async def ask_target(pool: TargetPool, options: RunOptions, eval_dir: Path, name: str, prompt: str) -> ProviderResponse:
    """Return the response of a target. Raises `AgentvError` if the target cannot be used or does not answer."""
    with masking(pool.masker):
        target = await pool.prepare(eval_dir, name, ())
        request = ProviderRequest(Prompt(prompt), eval_id="prompt", timeout_seconds=options.timeout or None)
        attempts = await invoke_with_retries(target.provider, request, options.max_retries)
    if attempts.response is None:
        raise attempts.error or ProviderError("the provider gave no response")
    if attempts.response.error:
        raise ProviderError(attempts.response.error, attempts.response.error_kind)
    return attempts.response
