"""Reads the replies of Anthropic. Lists of its messages are read as those of other APIs."""

from collections.abc import Sequence
from typing import Any, Final

from pytest_agentv.model.base import mapping
from pytest_agentv.providers.api.anthropic import read_billing, read_usage
from pytest_agentv.providers.frameworks import chat
from pytest_agentv.providers.frameworks.answer import NativeAnswer, Spent, get, parsed, plain, text

_HELPER_EVENTS: Final = frozenset({"ping", "text", "input_json", "citation", "thinking", "signature"})
"""Events of the package's own streams that are not events of the API."""
_KEPT: Final = ("type", "text", "id", "name", "content", "tool_use_id", "citations")
"""Keys of a block that its first event may have."""


def is_reply(value: object) -> bool:
    """Whether a value is a reply. Messages of OpenAI's responses have no `usage`."""
    is_message = get(value, "type") == "message" and get(value, "role") == "assistant"
    return is_message and get(value, "usage") is not None and isinstance(get(value, "content"), list | tuple)


def read_reply(reply: object) -> NativeAnswer:
    """Read a reply."""
    usage = mapping(plain(get(reply, "usage")))
    found, billing = read_usage(usage), read_billing(usage)
    spent = None if found is None else Spent(found, text(get(reply, "model")), "anthropic", billing=billing)
    return chat.read_messages([reply]).replace(
        spent=(spent,) if spent else (), finish_reason=text(get(reply, "stop_reason")), is_single_reply=True
    )


def is_event(value: object) -> bool:
    """Whether a value is an event of a streamed reply."""
    kind = str(get(value, "type"))
    return kind.startswith(("message_", "content_block_")) or kind in _HELPER_EVENTS


def is_first(value: object) -> bool:
    """Whether an event begins a reply."""
    return str(get(value, "type")) == "message_start"


def is_last(value: object) -> bool:
    """Whether an event ends a reply, or tells why the model stopped."""
    return str(get(value, "type")) == "message_stop" or get(get(value, "delta"), "stop_reason") is not None


def join(events: Sequence[Any]) -> dict[str, Any]:
    """Return the reply that was streamed."""
    reply: dict[str, Any] = {"type": "message", "role": "assistant"}
    usage: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        kind = get(event, "type")
        if kind == "message_start":
            reply["model"] = get(get(event, "message"), "model")
            usage |= _counts(get(get(event, "message"), "usage"))
        elif kind == "content_block_start":
            begun = get(event, "content_block")
            blocks[get(event, "index")] = {name: said for name in _KEPT if (said := get(begun, name)) is not None}
        elif kind == "content_block_delta":
            _extend(blocks.setdefault(get(event, "index"), {"type": "text"}), get(event, "delta"))
        elif kind == "message_delta":
            reply["stop_reason"] = get(get(event, "delta"), "stop_reason")
            usage |= _counts(get(event, "usage"))
    content = [{**block, "input": parsed(block.get("json") or "{}")} for block in blocks.values()]
    return {**reply, "content": content, "usage": usage}


def _extend(block: dict[str, Any], delta: object) -> None:
    if words := text(get(delta, "text")):
        block["text"] = block.get("text", "") + words
    if json := text(get(delta, "partial_json")):
        block["json"] = block.get("json", "") + json
    if (citation := get(delta, "citation")) is not None:
        block["citations"] = [*block.get("citations", ()), citation]


def _counts(usage: object) -> dict[str, Any]:
    return {name: value for name, value in mapping(plain(usage)).items() if value is not None}
