"""OpenAI's chat completions, which Azure has too."""

import json
from collections.abc import Iterator
from typing import Any

from fake_llm.events import events
from fake_llm.records import Answer


def tool_results(body: Any) -> list[Any]:
    messages = body.get("messages", ()) if isinstance(body, dict) else ()  # a service of a user's own has other keys
    return [message for message in messages if isinstance(message, dict) and message.get("role") == "tool"]


def answer(answer: Answer) -> Any:
    said = "".join(call.said for call in answer.calls.values())
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or said}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for name, call in answer.calls.items()
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": answer.model,
        "choices": [{"index": 0, "finish_reason": "tool_calls" if answer.calls else "stop", "message": message}],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 5,
            "total_tokens": 35,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        },
    }


def stream(content: Any) -> bytes:
    return events([*map(json.dumps, _chunks(content)), "[DONE]"])


def error(status: int, message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "code": str(status), "param": None}}


def _chunks(content: Any) -> Iterator[Any]:
    (choice,) = content["choices"]
    message = choice["message"]
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    if message["content"]:
        deltas.append({"content": message["content"]})
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        start = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        deltas += [{"tool_calls": [start]}, {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}]
    base = {**content, "object": "chat.completion.chunk", "usage": None}
    for delta in deltas:
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**base, "choices": [], "usage": content["usage"]}
