"""The API of Anthropic: messages."""

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pydantic import Field, field_validator

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import JsonObject, mapping
from pytest_agentv.model.messages import FilePart
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Billing,
    ModelReply,
    count,
    encoded,
    entries,
    function_of,
    in_turns,
    is_unusual,
    known,
    name_of,
    read_usage,
    schema_of,
    split_query,
    text_of,
)
from pytest_agentv.providers.api.model import DirectModel
from pytest_agentv.providers.kind import read_call
from pytest_agentv.targets.fields import PositiveCount

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_JUDGEMENT: Final = "agentv_judgement"
"""The tool whose input is the judgement of a judge."""


class Anthropic(DirectModel):
    """A model of Anthropic."""

    kind = "anthropic"
    price_provider = "anthropic"
    needs: ClassVar = {"api_key": "ANTHROPIC_API_KEY"}
    stand_ins: ClassVar = {"base_url": "ANTHROPIC_BASE_URL"}

    thinking_budget: PositiveCount | None = Field(
        default=None, description="tokens for thinking, on top of the answer's"
    )

    @field_validator("response_format")
    @classmethod
    def _has_schema(cls, value: JsonObject | None) -> JsonObject | None:
        if value is not None and value.get("type") != "text" and schema_of(value) is None:
            raise ValueError("the API takes `{type: json_schema, json_schema: {schema: …}}` only")
        return value

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
        effort, shape, budget = self.reasoning_effort, schema_of(self.response_format), self.thinking_budget
        form = {"type": "json_schema", "schema": shape} if shape else None
        config = known({"effort": None if effort == "none" else effort, "format": form})
        adaptive = {"type": "adaptive"} if "effort" in config else None
        choices = {
            "max_tokens": (self.max_output_tokens or 8192) + (budget or 0),  # the API requires a limit
            "temperature": self.temperature,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else adaptive,
            "top_p": self.top_p,
            "stop_sequences": self.stop and list(self.stop),
            "tools": self.tools and [_tool(tool) for tool in self.tools],
            "output_config": config or None,
        }
        body = {"model": self.model, **known(choices), "messages": merged, **({"system": system} if system else {})}
        if schema is not None and "thinking" not in body:  # which the API refuses beside a forced tool
            tool = {"name": _JUDGEMENT, "description": "Takes the judgement.", "input_schema": schema}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _JUDGEMENT}}
        base, query = split_query(self.base_url or "https://api.anthropic.com")
        url = re.sub(r"/v1(/messages)?$", "", base) + "/v1/messages" + query
        return self.post(url, known({"anthropic-version": "2023-06-01", "x-api-key": self.key}), body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_answer(reply)


def read_answer(reply: JsonObject) -> ModelReply | None:
    """Read a reply. If an error interrupts an answer, gateways send both in one reply."""
    blocks = [_told(block) for block in entries(reply.get("content"))]
    text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    if not isinstance(reply.get("content"), list) or (reply.get("error") and not text):
        return None
    calls = [block for block in blocks if block.get("type") in _CALLS]
    usage = mapping(reply.get("usage"))
    return ModelReply(
        text,
        name_of(reply.get("model")),
        "error" if reply.get("error") else name_of(reply.get("stop_reason")),
        name_of(mapping(reply.get("stop_details")).get("explanation")),
        tools=tuple(map(read_call, calls)),
        ran=sum(block.get("type") != "tool_use" for block in calls),
        usage=read_usage(usage),
        billing=_billing(usage),
    )


def _told(block: JsonObject) -> JsonObject:
    """Return the judgement of a forced tool as a text, and any other block unchanged."""
    is_judgement = block.get("type") == "tool_use" and block.get("name") == _JUDGEMENT
    return _text(json.dumps(block.get("input"), ensure_ascii=False)) if is_judgement else block


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


def _billing(usage: JsonObject) -> Billing:
    """Return what was written to a cache, and whether there is more to pay for, such as `iterations` of a helper."""
    return Billing(
        written=count(usage.get("cache_creation_input_tokens")),
        is_unknown=is_unusual(usage.get("service_tier"))
        or is_unusual(usage.get("speed"))
        or text_of(usage.get("inference_geo")) not in ("", "global", "not_available")
        or count(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")) > 0
        or count(mapping(usage.get("server_tool_use")).get("web_search_requests")) > 0
        or any(each.get("type") not in (None, "message") for each in entries(usage.get("iterations"))),
    )
