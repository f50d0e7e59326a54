"""Reads OpenAI's chat completions, also from other servers and packages, and lists of such messages."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_agentv.model.base import mapping
from pytest_agentv.model.messages import CALL, RESULT, WORDS_FOR_ROLES, kind_of
from pytest_agentv.providers.api.base import told_cost
from pytest_agentv.providers.api.openai import read_billing, read_usage
from pytest_agentv.providers.frameworks.answer import (
    NativeAnswer,
    Spent,
    Transcript,
    get,
    items,
    output_of,
    plain,
    read_call,
    text,
    text_content,
)


def is_reply(value: object) -> bool:
    """Whether a value is a chat completion."""
    choices = items(get(value, "choices"))
    return bool(choices) and get(choices[0], "message") is not None


def is_message(value: object) -> bool:
    """Whether a value is a message of chat completions, or of an API of the same shape."""
    return isinstance(get(value, "role"), str) and not items(get(value, "parts"))


def read_reply(reply: object) -> NativeAnswer:
    """Read a chat completion. If an error interrupts an answer, gateways send both in one reply."""
    choice = get(reply, "choices")[0]
    is_broken = bool(get(reply, "error") or get(choice, "error"))
    message = get(choice, "message")
    transcript = Transcript()
    _say(transcript, message)
    usage = mapping(plain(get(reply, "usage")))
    found, billing = read_usage(usage), read_billing(usage, text(get(reply, "service_tier")))
    by_litellm = told_cost({"cost": get(get(reply, "_hidden_params"), "response_cost")})
    model, cost = text(get(reply, "model")), by_litellm or billing.cost_usd
    spent = None if found is None else Spent(found, model, "openai", cost, billing)
    return NativeAnswer(
        transcript.messages,
        spent=(spent,) if spent else (),
        finish_reason="error" if is_broken else text(get(choice, "finish_reason")),
        refusal=text(get(message, "refusal")),
        is_single_reply=True,
    )


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last message of the user without results of tools.

    Raises `ValueError` for an unknown role, and for a part that may be a call in an unknown shape.
    """
    transcript = Transcript()
    refusal = None
    context: list[str] = []
    for message in messages:
        said, parts = text(get(message, "role")), items(get(message, "content"))
        role = WORDS_FOR_ROLES.get(said or "")
        if said is not None and role is None:
            raise ValueError(f"a message has the role {said!r}: expected one of {', '.join(WORDS_FOR_ROLES)}")
        kinds = list(map(kind_of, parts))
        if odd := [kind for kind in kinds if "tool" in kind.lower() and kind not in (CALL, RESULT)]:
            raise ValueError(f"a message has a part of the type {odd[0]!r}: known are {CALL!r} and {RESULT!r}")
        if role == "user" and RESULT not in kinds:
            transcript.restart()
            context.clear()
            continue
        if role in ("tool", "function") and RESULT not in kinds:
            call_id, name = text(get(message, "tool_call_id", "toolCallId")), text(get(message, "name"))
            transcript.result(output_of(get(message, "content")), call_id, name)
        elif role == "assistant":
            _say(transcript, message)
            refusal = text(get(message, "refusal"))
        for kind, part in zip(kinds, parts, strict=True):
            if kind == RESULT:
                result = get(part, "toolResult") or part
                call_id = text(get(result, "tool_use_id", "toolCallId", "toolUseId", "tool_call_id"))
                transcript.result(output_of(get(result, "content", "result", "output")), call_id)
            context += _quoted(part)
    return NativeAnswer(transcript.messages, refusal=refusal, retrieved_context=tuple(dict.fromkeys(context)) or None)


def _say(transcript: Transcript, message: object) -> None:
    """Add a message, with the calls of a list of their own, else those among the parts of the content.

    A deprecated request for `functions` gets one call, in a key of its own.
    """
    calls, function = items(get(message, "tool_calls", "toolCalls", "toolInvocations")), get(message, "function_call")
    parts = [part for part in items(get(message, "content")) if kind_of(part) == CALL]
    found = list(map(read_call, calls or parts or ([{"function": function}] if function else [])))
    transcript.say(text_content(get(message, "content")), found, name=text(get(message, "name")))


def _quoted(part: object) -> Iterator[str]:
    """Yield the citations of the answer, and the search results of tools."""
    for citation in items(get(part, "citations")):
        if isinstance(words := get(citation, "cited_text"), str):
            yield words
    for inner in items(get(part, "content")):
        if get(inner, "type") == "search_result" and isinstance(words := text_content(get(inner, "content")), str):
            yield words


def is_chunk(value: object) -> bool:
    """Whether a value is a part of a streamed chat completion.

    The first one of Azure tells of filters only. Some servers leave out what kind of object a part is.
    """
    kind = get(value, "object")
    if kind is None:
        choices = items(get(value, "choices"))
        is_piece = any(get(each, "delta", "finish_reason") is not None for each in choices) and not is_reply(value)
        return is_piece or _is_tokens(value)
    return isinstance(kind, str) and (kind == "chat.completion.chunk" or (kind == "" and get(value, "choices") == []))


def is_last(value: object) -> bool:
    """Whether a part tells why the model stopped, or all tokens, which come after that."""
    is_end = any(get(choice, "finish_reason") is not None for choice in items(get(value, "choices")))
    return is_end or _is_tokens(value)


def _is_tokens(value: object) -> bool:
    """Whether a part holds nothing but the tokens."""
    return get(value, "choices") == [] and get(value, "usage") is not None


def join(chunks: Sequence[Any]) -> dict[str, Any]:
    """Return the chat completion that was streamed."""
    contents: list[str] = []
    refusals: list[str] = []
    calls: dict[Any, dict[str, str]] = {}
    reason = usage = tier = None
    for chunk in chunks:
        tier = get(chunk, "service_tier") or tier
        usage = get(chunk, "usage") or usage
        for choice in items(get(chunk, "choices"))[:1]:
            delta = get(choice, "delta")
            contents += filter(None, [text(get(delta, "content"))])
            refusals += filter(None, [text(get(delta, "refusal"))])
            reason = get(choice, "finish_reason") or reason
            for call in items(get(delta, "tool_calls")):
                _extend(calls.setdefault(get(call, "index"), {"id": "", "name": ""}), call)
            if function := get(delta, "function_call"):
                _extend(calls.setdefault(None, {"id": "", "name": ""}), {"function": function})
    tool_calls = [{"id": call["id"], "function": call} for call in calls.values()]
    message = {"content": "".join(contents) or None, "refusal": "".join(refusals) or None, "tool_calls": tool_calls}
    choices = [{"message": message, "finish_reason": reason}]
    return {"choices": choices, "usage": usage, "model": get(chunks[-1], "model"), "service_tier": tier}


def _extend(call: dict[str, str], delta: object) -> None:
    """Add a piece of a call. Only a `custom` tool has the key `input`."""
    function, custom = get(delta, "function"), get(delta, "custom")
    called, key = (function, "arguments") if custom is None else (custom, "input")
    call["id"] += text(get(delta, "id")) or ""
    call["name"] += text(get(called, "name")) or ""
    if called is not None:
        call[key] = call.get(key, "") + (text(get(called, key)) or "")
