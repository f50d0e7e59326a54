"""Anthropic's messages."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

from pytest_agentv.loading.targets.fields import PositiveCount
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import ApiRequest, ModelReply, ModelSettings, count, entries, mapping, text_of
from pytest_agentv.providers.apis.model import DirectModel
from pytest_agentv.providers.apis.model_names import known_limit

_BASE_URL: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"

_NEWER_LIMIT: Final = 64_000
"""The limit that is asked of newer models, which write as much or more: the API requires one."""
_OTHER_LIMIT: Final = 4096
"""The limit that is asked of models with other names, behind a server that speaks this API."""

_NO_TEMPERATURE: Final = re.compile(r"(opus|sonnet|haiku)-(4-[7-9]|[5-9])")
"""Models that refuse a temperature."""


class Anthropic(DirectModel):
    """A model of Anthropic."""

    kind = "anthropic"
    needs: ClassVar = {"api_key": "ANTHROPIC_API_KEY"}

    thinking_budget: PositiveCount | None = spelled(
        *("thinking_budget", "thinkingBudget"), default=None, description="tokens for thinking, on top of the answer's"
    )

    def api(self, variables: Mapping[str, str]) -> "AnthropicApi":
        return AnthropicApi(self.api_settings, variables)


class AnthropicApi:
    """Anthropic and servers that speak its language."""

    price_provider = "anthropic"

    def __init__(self, settings: ModelSettings, environment: Mapping[str, str]) -> None:
        base_url = settings.base_url or environment.get("ANTHROPIC_BASE_URL", "").strip() or _BASE_URL
        self._url = re.sub(r"/v1(/messages)?$", "", base_url.rstrip("/")) + "/v1/messages"
        self._headers = {"anthropic-version": _VERSION}
        if settings.api_key:
            self._headers["x-api-key"] = settings.api_key
        self._fixed = {"model": settings.model, **_limits(settings)}

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        system = [_block(message) for message in messages if message.role == "system"]
        turns = [message for message in messages if message.role != "system" and message.content.strip()]
        body = {**self._fixed, "messages": _merged(turns)}
        return ApiRequest(self._url, self._headers, {**body, "system": system} if system else body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        if not isinstance(reply.get("content"), list):
            return None
        blocks = entries(reply["content"])
        return ModelReply(
            "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
            text_of(reply.get("model")) or None,
            text_of(reply.get("stop_reason")) or None,
            tools=tuple(text_of(block.get("name")) or "?" for block in blocks if block.get("type") == "tool_use"),
            usage=_usage(mapping(reply.get("usage"))),
        )


def _limits(settings: ModelSettings) -> dict[str, Any]:
    """Return what bounds an answer. Thinking comes on top of the answer's tokens, and takes no temperature."""
    known = known_limit(settings.model)
    usual = known or (_NEWER_LIMIT if settings.model.startswith("claude-") else _OTHER_LIMIT)
    tokens = settings.max_output_tokens or usual
    budget = settings.thinking_budget
    if budget is not None:
        total = tokens + budget
        return {
            "max_tokens": min(total, known) if known else total,
            "thinking": {"type": "enabled", "budget_tokens": budget},
        }
    if settings.temperature is None or _NO_TEMPERATURE.search(settings.model):
        return {"max_tokens": tokens}
    return {"max_tokens": tokens, "temperature": settings.temperature}


def _merged(turns: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the turns, those of one role in a row as one; the API refuses blanks at the end of the last answer."""
    merged = [
        {"role": role, "content": [_block(message) for message in group]}
        for role, group in groupby(turns, key=lambda message: message.role)
    ]
    if merged and merged[-1]["role"] == "assistant":
        last = merged[-1]["content"][-1]
        last["text"] = last["text"].rstrip()
    return merged


def _block(message: ChatMessage) -> dict[str, Any]:
    return {"type": "text", "text": message.content}


def _usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; what is read from a cache is counted apart, what is written to it is input."""
    written = count(usage.get("cache_creation_input_tokens"))
    total_in, total_out = count(usage.get("input_tokens")) + written, count(usage.get("output_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    return TokenUsage(total_in, total_out, cached or None) if total_in or total_out or cached else None
