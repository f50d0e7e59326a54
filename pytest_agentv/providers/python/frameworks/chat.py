"""Reads OpenAI's chat completions, also from other servers and packages, and lists of such messages."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_agentv.models.base import ABSENT, mapping
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.providers.apis.data import told_cost
from pytest_agentv.providers.apis.openai import read_billing, read_usage
from pytest_agentv.providers.python.frameworks.answer import NativeAnswer, Spent
from pytest_agentv.providers.python.frameworks.plain import get, items, output_of, parsed, plain, text, text_content
from pytest_agentv.providers.python.frameworks.transcript import Transcript


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
    spent = _spent(reply)
    return NativeAnswer(
        transcript.messages,
        spent=(spent,) if spent else (),
        finish_reason="error" if is_broken else text(get(choice, "finish_reason")),
        refusal=text(get(message, "refusal")),
        is_single_reply=True,
    )


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last message of the user."""
    transcript = Transcript()
    refusal = None
    for message in messages:
        role = get(message, "role")
        if role == "user":
            transcript.restart()
        elif role in ("tool", "function"):
            name = text(get(message, "name"))
            transcript.result(output_of(get(message, "content")), text(get(message, "tool_call_id")), name)
        elif role in ("assistant", "model"):
            _say(transcript, message)
            refusal = text(get(message, "refusal"))
    return NativeAnswer(transcript.messages, refusal=refusal)


def _say(transcript: Transcript, message: object) -> None:
    transcript.say(text_content(get(message, "content")), list(_calls(message)), name=text(get(message, "name")))


def _calls(message: object) -> Iterator[ToolCall]:
    """Yield the calls. The input of a `custom` tool is a free text.

    A deprecated request for `functions` gets one call, in a key of its own.
    """
    calls, function = items(get(message, "tool_calls")), get(message, "function_call")
    for call in calls or ([{"function": function}] if function else []):
        called = get(call, "function", "custom")
        arguments, free = get(called, "arguments"), get(called, "input")
        given = plain(free) if arguments is None else parsed(arguments)
        yield ToolCall(text(get(called, "name")) or "?", ABSENT if given is None else given, id=text(get(call, "id")))


def _spent(reply: object) -> Spent | None:
    """Return the tokens. litellm and OpenRouter report the cost with them."""
    usage = mapping(plain(get(reply, "usage")))
    found, billing = read_usage(usage), read_billing(usage, text(get(reply, "service_tier")))
    by_litellm = told_cost({"cost": get(get(reply, "_hidden_params"), "response_cost")})
    model, cost = text(get(reply, "model")), by_litellm or billing.cost_usd
    return None if found is None else Spent(found, model, "openai", cost, billing)


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
