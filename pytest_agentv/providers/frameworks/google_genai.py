"""Reads google-genai of Google: replies, and lists of contents."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from pytest_agentv.model.base import ABSENT, Json, mapping
from pytest_agentv.model.messages import UNNAMED, ToolCall
from pytest_agentv.providers.api.base import ModelSettings, name_of_tool
from pytest_agentv.providers.api.gemini import GeminiApi
from pytest_agentv.providers.frameworks.answer import NativeAnswer, Spent, Transcript, get, items, plain, text

_USAGE: Final = ("usage_metadata", "usageMetadata")
_FEEDBACK: Final = ("prompt_feedback", "promptFeedback")
_HISTORY: Final = "automatic_function_calling_history"


def is_reply(value: object) -> bool:
    """Whether a value is a reply. If its prompt was blocked, it has no candidates."""
    has_candidates = bool(items(get(value, "candidates")))
    return has_candidates or text(get(get(value, *_FEEDBACK), "block_reason", "blockReason")) is not None


def is_content(value: object) -> bool:
    """Whether a value is a content: a message of this API."""
    return isinstance(get(value, "parts"), list) and get(value, "role") in ("user", "model", "function", "tool", None)


def read_reply(reply: object) -> NativeAnswer:
    """Read a reply, with the calls that the package made meanwhile."""
    candidates = items(get(reply, "candidates"))
    first = candidates[0] if candidates else None
    history = items(get(reply, _HISTORY))
    content = get(first, "content")
    answer = read_contents([*history, *([] if content is None else [content])])
    blocked = text(get(get(reply, *_FEEDBACK), "block_reason", "blockReason"))
    spent = _spent(reply, first)
    chunks = items(get(get(first, "grounding_metadata", "groundingMetadata"), "grounding_chunks", "groundingChunks"))
    sources = (text(get(get(chunk, "retrieved_context", "retrievedContext"), "text")) for chunk in chunks)
    return answer.replace(
        spent=(spent,) if spent and not history else (),  # the tokens of earlier calls are not reported
        finish_reason=text(get(first, "finish_reason", "finishReason")) or blocked,
        retrieved_context=tuple(filter(None, sources)) or None,
        is_single_reply=not history,
        error=f"the prompt was blocked: {blocked}" if blocked and first is None else None,
    )


def read_contents(contents: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last user content without results of tools."""
    transcript = Transcript()
    for content in contents:
        parts = items(get(content, "parts"))
        results = [found for part in parts if (found := get(part, "function_response", "functionResponse")) is not None]
        for result in results:
            transcript.result(plain(get(result, "response")), text(get(result, "id")), text(get(result, "name")))
        if get(content, "role") == "model" or (get(content, "role") is None and not results):
            spoken = (text(get(part, "text")) for part in parts if get(part, "thought") is not True)
            transcript.say("".join(filter(None, spoken)) or ABSENT, list(_calls(parts)))
        elif get(content, "role") == "user" and not results:
            transcript.restart()
    return NativeAnswer(transcript.messages)


def _calls(parts: Sequence[Any]) -> Iterator[ToolCall]:
    """Yield the calls of functions and of Google's tools. If it ran code, the next part holds the result."""
    answered = [found for part in parts if (found := get(part, "tool_response", "toolResponse")) is not None]
    responses = {text(get(each, "id")): plain(get(each, "response")) for each in answered}
    for part, following in zip_longest(parts, parts[1:]):
        call, code = get(part, "function_call", "functionCall"), get(part, "executable_code", "executableCode")
        ran = get(part, "tool_call", "toolCall")
        if call is not None:
            yield ToolCall(text(get(call, "name")) or UNNAMED, plain(get(call, "args") or {}), id=text(get(call, "id")))
        elif code is not None:
            result = get(following, "code_execution_result", "codeExecutionResult")
            output = ABSENT if result is None else plain(get(result, "output"))
            yield ToolCall("code_execution", {"code": plain(get(code, "code"))}, output)
        elif ran is not None:
            call_id = text(get(ran, "id"))
            output = responses.get(call_id, ABSENT) if call_id else ABSENT
            name = name_of_tool(text(get(ran, "tool_type", "toolType")))
            yield ToolCall(name, plain(get(ran, "args") or {}), output, call_id)


def _spent(reply: object, candidate: object) -> Spent | None:
    """Return the tokens and what else is paid for, as they are read from a reply to a `gemini` target."""
    grounding = get(candidate, "grounding_metadata", "groundingMetadata")
    called = [get(part, "tool_call", "toolCall") for part in items(get(get(candidate, "content"), "parts"))]
    parts = [{"toolCall": call} for call in called if call is not None]
    answer = {"content": {"parts": parts}, "groundingMetadata": grounding}  # without its texts and pictures
    sent = _as_sent(plain({"usageMetadata": get(reply, *_USAGE), "candidates": [answer]}))
    read = GeminiApi(ModelSettings(""), {}).read(mapping(sent))
    if read is None or read.usage is None:
        return None
    usage = read.usage.replace(reasoning=read.reasoning_tokens)
    return Spent(usage, text(get(reply, "model_version", "modelVersion")), "google", billing=read.billing)


def _as_sent(value: Json) -> Json:
    """Return data as the API sends it: `tokenCount` for `token_count` of the package, and no nulls."""
    if isinstance(value, list):
        return list(map(_as_sent, value))
    if not isinstance(value, dict):
        return value
    known = {key: item for key, item in value.items() if item is not None}
    return {re.sub("_([a-z])", lambda at: at[1].upper(), key): _as_sent(item) for key, item in known.items()}


def is_chunk(value: object) -> bool:
    """Whether a value is a part of a streamed reply. The last part may have only the tokens."""
    return is_reply(value) or get(value, *_USAGE) is not None


def is_last(value: object) -> bool:
    """Whether a part tells why the model stopped, or that the prompt was blocked."""
    candidates = items(get(value, "candidates"))
    return not candidates or get(candidates[0], "finish_reason", "finishReason") is not None


def join(chunks: Sequence[Any]) -> dict[str, Any]:
    """Return the reply that was streamed."""
    firsts = [candidates[0] for chunk in chunks if (candidates := items(get(chunk, "candidates")))]
    parts = [part for first in firsts for part in items(get(get(first, "content"), "parts"))]
    last = {
        "finish_reason": _last(firsts, "finish_reason", "finishReason"),
        "grounding_metadata": _last(firsts, "grounding_metadata", "groundingMetadata"),
        "content": {"role": "model", "parts": parts},
    }
    return {
        "candidates": [last] if firsts else [],
        "usage_metadata": _last(chunks, *_USAGE),
        "prompt_feedback": _last(chunks, *_FEEDBACK),
        "model_version": _last(chunks, "model_version", "modelVersion"),
        _HISTORY: _last(chunks, _HISTORY),
    }


def _last(values: Sequence[Any], *names: str) -> Any:
    return next((found for value in reversed(values) if (found := get(value, *names)) is not None), None)
