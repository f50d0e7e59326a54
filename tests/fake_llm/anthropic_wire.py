"""Anthropic's messages."""

import json
from collections.abc import Iterator
from typing import Any

from fake_llm.events import named_events
from fake_llm.records import Answer, ToolCall


def tool_results(body: Any) -> list[Any]:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return [block for content in contents for block in content if block.get("type") == "tool_result"]


def answer(answer: Answer) -> Any:
    blocks = [block for name, call in answer.calls.items() for block in _call_blocks(name, call)]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": blocks + ([{"type": "text", "text": answer.text}] if answer.text else []),
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 30 - answer.cached_tokens,
            "output_tokens": 5,
            "cache_read_input_tokens": answer.cached_tokens,
            "cache_creation_input_tokens": 0,
        },
    }


def stream(content: Any) -> bytes:
    return named_events(_events(content))


def error(status: int, message: str) -> Any:
    return {"type": "error", "error": {"type": "api_error", "message": message}}


def _call_blocks(name: str, call: ToolCall) -> Iterator[Any]:
    if call.said:
        yield {"type": "text", "text": call.said}
    yield {"type": "tool_use", "id": name, "name": call.name, "input": call.arguments}


def _events(content: Any) -> Iterator[Any]:
    start: dict[str, Any] = {"content": [], "stop_reason": None, "usage": {**content["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": {**content, **start}}
    for index, block in enumerate(content["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _emptied(block)}
        yield {"type": "content_block_delta", "index": index, "delta": _delta(block)}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": content["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": content["usage"]}
    yield {"type": "message_stop"}


def _emptied(block: Any) -> Any:
    return {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}


def _delta(block: Any) -> Any:
    if block["type"] == "text":
        return {"type": "text_delta", "text": block["text"]}
    return {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
