"""Gemini's contents."""

import json
from collections.abc import Iterator
from typing import Any

from fake_llm.events import events
from fake_llm.records import Answer, ToolCall


def tool_results(body: Any) -> list[Any]:
    return [part for content in body["contents"] for part in content["parts"] if "functionResponse" in part]


def answer(answer: Answer) -> Any:
    calls = [part for name, call in answer.calls.items() for part in _call_parts(name, call)]
    content = {"role": "model", "parts": calls or [{"text": answer.text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 30,
            "candidatesTokenCount": 5,
            "totalTokenCount": 35,
            "cachedContentTokenCount": answer.cached_tokens,
        },
        "modelVersion": answer.model,
    }


def stream(content: Any) -> bytes:
    return events([json.dumps(content)])


def error(status: int, message: str) -> Any:
    return {"error": {"code": status, "message": message, "status": "UNAVAILABLE"}}


def _call_parts(name: str, call: ToolCall) -> Iterator[Any]:
    if call.said:
        yield {"text": call.said}
    yield {"functionCall": {"id": name, "name": call.name, "args": call.arguments}}
