"""The API of Anthropic: messages."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pydantic import field_validator

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import ABSENT, JsonObject, mapping
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import FilePart, TokenUsage
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Billing,
    ModelReply,
    ModelSettings,
    call_of,
    count,
    encoded,
    entries,
    function_of,
    in_turns,
    is_count,
    known,
    name_of,
    schema_of,
    split_query,
    terms_of,
    text_of,
)
from pytest_agentv.providers.api.model import DirectModel
from pytest_agentv.targets.fields import PositiveCount

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_JUDGEMENT: Final = "agentv_judgement"
"""The tool whose input is the judgement of a judge."""


class Anthropic(DirectModel):
    """A model of Anthropic."""

    kind = "anthropic"
    needs: ClassVar = {"api_key": "ANTHROPIC_API_KEY"}
    stand_ins: ClassVar = {"base_url": "ANTHROPIC_BASE_URL"}

    thinking_budget: PositiveCount | None = spelled(
        *("thinking_budget", "thinkingBudget"), default=None, description="tokens for thinking, on top of the answer's"
    )

    @field_validator("response_format")
    @classmethod
    def _has_schema(cls, value: JsonObject | None) -> JsonObject | None:
        if value is not None and value.get("type") != "text" and schema_of(value) is None:
            raise ValueError("the API takes `{type: json_schema, json_schema: {schema: …}}` only")
        return value

    def api(self, variables: Mapping[str, str]) -> "AnthropicApi":
        return AnthropicApi(self.api_settings, variables)


class AnthropicApi:
    """Anthropic, and servers with the same API."""

    price_provider = "anthropic"

    def __init__(self, settings: ModelSettings, environment: Mapping[str, str]) -> None:
        base_url = settings.base_url or environment.get("ANTHROPIC_BASE_URL", "").strip()
        base, query = split_query(base_url or "https://api.anthropic.com")
        self._url = re.sub(r"/v1(/messages)?$", "", base) + "/v1/messages" + query
        self._headers = {"anthropic-version": "2023-06-01"}
        if settings.api_key:
            self._headers["x-api-key"] = settings.api_key
        self._fixed = {"model": settings.model, **_choices(settings)}

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        system = [_text(message.content) for message in messages if message.role == "system"]
        turns = [message for message in messages if message.role != "system" and message.content.strip()]
        merged: list[dict[str, Any]] = [
            {"role": role, "content": [_text(part) if isinstance(part, str) else _file(part) for part in parts]}
            for role, parts in in_turns(turns, lambda message: message.role)
        ]
        if merged and merged[-1]["role"] == "assistant":  # the API refuses blanks at the end of the last answer
            last = merged[-1]["content"][-1]
            last["text"] = last["text"].rstrip()
        body = {**self._fixed, "messages": merged, **({"system": system} if system else {})}
        if schema is not None and "thinking" not in body:  # which the API refuses beside a forced tool
            tool = {"name": _JUDGEMENT, "description": "Takes the judgement.", "input_schema": schema}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _JUDGEMENT}}
        return ApiRequest(self._url, self._headers, body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        """Read a reply. If an error interrupts an answer, gateways send both in one reply."""
        blocks = [_told(block) for block in entries(reply.get("content"))]
        text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
        if not isinstance(reply.get("content"), list) or (reply.get("error") and not text):
            return None
        calls = [block for block in blocks if block.get("type") in _CALLS]
        details = mapping(reply.get("stop_details"))
        refusal = name_of(details.get("explanation")) or name_of(details.get("category"))
        usage = mapping(reply.get("usage"))
        return ModelReply(
            text,
            name_of(reply.get("model")),
            "error" if reply.get("error") else name_of(reply.get("stop_reason")),
            refusal if details.get("type", "refusal") == "refusal" else None,
            tools=tuple(call_of(block.get("name"), block.get("input", ABSENT), block.get("id")) for block in calls),
            ran=sum(block.get("type") != "tool_use" for block in calls),
            usage=read_usage(usage),
            reasoning_tokens=_thinking_tokens(usage) or None,
            billing=read_billing(usage),
        )


def _told(block: JsonObject) -> JsonObject:
    """Return the judgement of a forced tool as a text, and any other block unchanged."""
    is_judgement = block.get("type") == "tool_use" and block.get("name") == _JUDGEMENT
    return _text(json.dumps(block.get("input"), ensure_ascii=False)) if is_judgement else block


def _choices(settings: ModelSettings) -> dict[str, Any]:
    """Return the target's settings in the terms of this API. The tokens for thinking are on top of the answer's."""
    effort, schema, budget = settings.reasoning_effort, schema_of(settings.response_format), settings.thinking_budget
    config = known(
        {
            "effort": None if effort == "none" else effort,
            "format": schema and {"type": "json_schema", "schema": schema},
        }
    )
    adaptive = {"type": "adaptive"} if "effort" in config else None
    return known(
        {
            "max_tokens": (settings.max_output_tokens or 8192) + (budget or 0),  # the API requires a limit
            "temperature": settings.temperature,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else adaptive,
            "top_p": settings.top_p,
            "stop_sequences": settings.stop and list(settings.stop),
            "tools": settings.tools and [_tool(tool) for tool in settings.tools],
            "output_config": config or None,
        }
    )


def _tool(tool: JsonObject) -> JsonObject:
    function = function_of(tool)
    if function is None:
        return tool
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    rest = {key: value for key, value in function.items() if key not in ("parameters", "name")}
    return {"name": function.get("name"), **rest, "input_schema": schema}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(file: FilePart) -> dict[str, Any]:
    sent = encoded(file)
    source = {"type": "base64", "media_type": sent.media_type, "data": sent.data}
    return (
        {"type": "image", "source": source}
        if sent.is_image
        else {"type": "document", "source": source, "title": sent.name}
    )


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens. Tokens read from a cache are counted apart, tokens written to it are input.

    None if the tokens of question or answer are missing, because the price would be too low.
    """
    if not (is_count(usage.get("input_tokens")) and is_count(usage.get("output_tokens"))):
        return None
    written = count(usage.get("cache_creation_input_tokens"))
    total_in, total_out = count(usage.get("input_tokens")) + written, count(usage.get("output_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    thinking = _thinking_tokens(usage) or None
    return TokenUsage(total_in, total_out, cached or None, thinking) if total_in or total_out or cached else None


def read_billing(usage: JsonObject) -> Billing:
    """Return the other paid services: writing to a cache, searches, speed, a tier, a region.

    The tokens of a compaction, and of another model that helped, are in `iterations` only.
    """
    written = count(usage.get("cache_creation_input_tokens"))
    for_hour = count(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    speed = {} if usage.get("speed") in (None, "standard") else {"speed": text_of(usage["speed"])}
    return Billing(
        context={**terms_of(usage.get("service_tier")), **speed},
        written=written,
        written_for_hour=min(for_hour, written),
        web_searches=count(mapping(usage.get("server_tool_use")).get("web_search_requests")),
        is_unknown=text_of(usage.get("inference_geo")) not in ("", "global", "not_available")
        or any(each.get("type") not in (None, "message") for each in entries(usage.get("iterations"))),
    )


def _thinking_tokens(usage: JsonObject) -> int:
    return count(mapping(usage.get("output_tokens_details")).get("thinking_tokens"))
