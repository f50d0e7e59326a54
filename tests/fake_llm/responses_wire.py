"""OpenAI's responses."""

import json
from collections.abc import Iterator
from typing import Any

from fake_llm.events import named_events
from fake_llm.records import Answer, ToolCall


def tool_results(body: Any) -> list[Any]:
    items = body["input"] if isinstance(body["input"], list) else []
    return [item for item in items if item.get("type") in ("function_call_output", "custom_tool_call_output")]


def answer(answer: Answer) -> Any:
    items = [item for name, call in answer.calls.items() for item in _call_items(name, call)]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": answer.model,
        "output": items if answer.calls else [_message("msg_1", answer.text)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 35,
        },
    }


def stream(content: Any) -> bytes:
    return named_events({**event, "sequence_number": number} for number, event in enumerate(_events(content)))


def error(status: int, message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "code": str(status), "param": None}}


def _message(name: str, text: str) -> Any:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": name, "status": "completed", "role": "assistant", "content": [part]}


def _call_items(name: str, call: ToolCall) -> Iterator[Any]:
    if call.said:
        yield _message(f"msg_{name}", call.said)
    item = {"id": f"item_{name}", "call_id": name, "name": call.name, "status": "completed"}
    if call.namespace:
        item["namespace"] = call.namespace
    if isinstance(call.arguments, str):
        yield {"type": "custom_tool_call", **item, "input": call.arguments}
    else:
        yield {"type": "function_call", **item, "arguments": json.dumps(call.arguments)}


def _events(content: Any) -> Iterator[Any]:
    started = {**content, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(content["output"]):
        place = {"output_index": index}
        begun = {**item, "status": "in_progress", **_EMPTY[item["type"]]}
        yield {"type": "response.output_item.added", **place, "item": begun}
        yield from ({**event, **place, "item_id": item["id"]} for event in _parts(item))
        yield {"type": "response.output_item.done", **place, "item": item}
    yield {"type": f"response.{content['status']}", "response": content}


_EMPTY: dict[str, Any] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
}


def _parts(item: Any) -> Iterator[Any]:
    if item["type"] == "message":
        (part,) = item["content"]
        at = {"content_index": 0}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **at, "delta": part["text"]}
        yield {"type": "response.output_text.done", **at, "text": part["text"]}
        yield {"type": "response.content_part.done", **at, "part": part}
    elif item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
    else:
        yield {"type": "response.custom_tool_call_input.delta", "delta": item["input"]}
        yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}
