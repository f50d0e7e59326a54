"""Reads the tokens of a reply, in the words of any API."""

from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Json, JsonObject, mapping
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.text import compact_json
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.apis.data import count, is_count

_INPUT: Final = ("input", "input_tokens", "inputTokens", "promptTokens", "prompt_tokens")
_OUTPUT: Final = ("output", "output_tokens", "outputTokens", "completionTokens", "completion_tokens")
_CACHED: Final = ("cached", "cache_read_input_tokens")
_REASONING: Final = ("reasoning", "reasoning_tokens")
_OF_ANTHROPIC: Final = frozenset({"cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"})
_LONGEST: Final = 200
"""The most characters of a value in a warning."""


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; None if those of question or answer are missing: unknown ones are not 0.

    The same mapping counts alike wherever it is found, so the readers of the APIs count it.
    """
    if not _is_known(usage):
        return None
    details = mapping(usage.get("output_tokens_details"))
    if "prompt_tokens" in usage:
        from pytest_agentv.providers.apis import openai  # noqa: PLC0415 - only for its replies

        return openai.read_usage(usage)
    if "input_tokens_details" in usage or "reasoning_tokens" in details:
        from pytest_agentv.providers.python.frameworks import responses  # noqa: PLC0415 - only for its replies

        return responses.read_usage(usage)
    if "input_tokens" in usage and (_OF_ANTHROPIC & usage.keys() or "thinking_tokens" in details):
        from pytest_agentv.providers.apis import anthropic  # noqa: PLC0415 - only for its replies

        return anthropic.read_usage(usage)
    total_in, total_out, cached, reasoning = (
        count(_first(usage, names)) for names in (_INPUT, _OUTPUT, _CACHED, _REASONING)
    )
    return TokenUsage(total_in, total_out, cached or None, reasoning or None) if total_in or total_out else None


def fault_of(usage: Json) -> str | None:
    """Return the warning about tokens that cannot be read; None if they can, or if there are none."""
    is_reported = any(value is not None for value in usage.values()) if isinstance(usage, dict) else usage is not None
    if not is_reported or _is_known(mapping(usage)):
        return None
    shown = masked(compact_json(usage))[:_LONGEST]
    return f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens"


def _is_known(usage: JsonObject) -> bool:
    return all(is_count(_first(usage, names)) for names in (_INPUT, _OUTPUT))


def _first(usage: JsonObject, names: Sequence[str]) -> Json:
    return next((usage[name] for name in names if name in usage), None)
