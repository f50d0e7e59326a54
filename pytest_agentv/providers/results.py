"""What results of other packages tell; the replies and messages of models' APIs, told by their shape."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, mapping
from pytest_agentv.model.messages import (
    CALL,
    RESULT,
    WORDS_FOR_ROLES,
    Message,
    TokenUsage,
    ToolCall,
    candidate_answer,
    incomplete_reason,
    kind_of,
)
from pytest_agentv.providers.api import anthropic, openai
from pytest_agentv.providers.api.base import Billing, ModelReply, ModelSettings, count, entries, is_count, terms_of
from pytest_agentv.providers.api.gemini import GeminiApi
from pytest_agentv.providers.api.prices import price
from pytest_agentv.providers.api.replies import read_cost
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.wire import get, items, output_of, parsed, plain, read_call, text, text_content

# What all results have in common.


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """The tokens of one reply of a model."""

    usage: TokenUsage
    model: str | None = None
    """The model, as its API names it."""
    provider: str | None = None
    """The provider in the price tables; None: the price is unknown."""
    billing: Billing = field(default_factory=Billing)
    """Other facts that affect the price."""


@dataclass(frozen=True, slots=True)
class NativeAnswer(Record):
    """The facts in another package's result."""

    messages: tuple[Message, ...]
    """The messages of this answer, in order."""
    spent: tuple[Spent, ...] = ()
    """The tokens of the replies."""
    usage: TokenUsage | None = None
    """The tokens of the whole run; None: those of the replies."""
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    refusal: str | None = None
    """The words of a refusal in place of an answer."""
    error: str | None = None
    """Why there is no answer."""
    is_single_reply: bool = False
    """Whether it is one reply of a model. Tools may have been called before it."""


def build_response(answer: NativeAnswer) -> ProviderResponse:
    """Return the response. Looking up prices may import a table: call it in a thread."""
    cost, source = _price_of(answer)
    has_calls = any(message.tool_calls for message in answer.messages)
    error = answer.error
    if error is None and answer.refusal and not candidate_answer(answer.messages).strip():
        error = f"the model refused: {answer.refusal}"
    if error is None and not answer.messages:
        why = "nothing was said after the last message of the user"
        if answer.is_single_reply:
            reason = incomplete_reason(answer.finish_reason) or "the model's reply is empty"
            why = f"{reason} (finish_reason={answer.finish_reason})"
        error = f"the result holds no answer: {why}"
    return ProviderResponse(
        output_messages=answer.messages,
        token_usage=answer.usage or _total(answer.spent),
        cost_usd=cost,
        cost_source=source,
        finish_reason=answer.finish_reason,
        retrieved_context=answer.retrieved_context,
        error=error,
        error_kind="crash" if error is None else "no_answer",
        is_text_only=answer.is_single_reply and not has_calls,
    )


def _price_of(answer: NativeAnswer) -> tuple[float | None, str | None]:
    """Return the US dollars and the price tables; None if the price of a reply is unknown, or replies are missing."""
    if answer.usage not in (None, _total(answer.spent)):
        return None, None
    costs: list[float] = []
    sources: set[str] = set()
    for spent in answer.spent:
        cost = spent.billing.cost_usd
        if cost is None:
            found = spent.model and spent.provider and price(spent.model, spent.provider, spent.usage, spent.billing)
            if not found:
                return None, None
            cost = found.usd
            sources.add(found.source)
        costs.append(cost)
    return sum(costs) if costs else None, ", ".join(sorted(sources)) or None


def _total(replies: Sequence[Spent]) -> TokenUsage | None:
    """Return the tokens of some replies; None without any."""
    used = [spent.usage for spent in replies]
    if not used:
        return None
    return TokenUsage(
        sum(usage.input for usage in used),
        sum(usage.output for usage in used),
        sum(usage.cached or 0 for usage in used) or None,
        sum(usage.reasoning or 0 for usage in used) or None,
    )


def tokens(total_in: object, total_out: object, cached: object, reasoning: object) -> TokenUsage | None:
    """Return tokens; None if none are reported. `total_in` includes the cached ones, the record does not."""
    read, written = count(total_in), count(total_out)
    if not read and not written:
        return None
    return TokenUsage(max(0, read - count(cached)), written, count(cached) or None, count(reasoning) or None)


def ended(answer: NativeAnswer, output: object) -> NativeAnswer:
    """Add the output of a run as its answer, unless the last message says the same, perhaps as JSON."""
    said = plain(output)
    last = answer.messages[-1].content if answer.messages else ABSENT
    if said is None or said in (last, parsed(last)):
        return answer
    return answer.replace(messages=(*answer.messages, Message("assistant", said)))


def _answered(messages: list[Message], output: Json, call_id: str | None, tool: str | None) -> None:
    """Add the result of a call: the one with this id, else the first unfinished call of this tool."""
    for index, message in enumerate(messages):
        for at, call in enumerate(message.tool_calls):
            is_it = call.id == call_id if call_id and call.id else tool in (None, call.tool)
            if is_it and call.output is ABSENT:
                calls = (*message.tool_calls[:at], call.replace(output=output), *message.tool_calls[at + 1 :])
                messages[index] = message.replace(tool_calls=calls)
                return


def _single(reply: ModelReply, provider: str, context: Sequence[str] = ()) -> NativeAnswer:
    """Return the answer of one reply of a model's API."""
    usage = reply.usage and reply.usage.replace(reasoning=reply.reasoning_tokens)
    message = Message("assistant", reply.text or ABSENT, reply.tools)
    return NativeAnswer(
        (message,) if reply.text or reply.tools else (),
        spent=(Spent(usage, reply.model, provider, reply.billing),) if usage else (),
        finish_reason=reply.finish_reason,
        retrieved_context=tuple(context) or None,
        refusal=reply.refusal,
        is_single_reply=True,
    )


# OpenAI's chat completions, also of other servers and packages, and lists of such messages.


def is_completion(value: object) -> bool:
    """Whether a value is a chat completion."""
    choices = items(get(value, "choices"))
    return bool(choices) and get(choices[0], "message") is not None


def read_completion(value: object) -> NativeAnswer | None:
    """Read a chat completion; None if it holds an error in place of an answer."""
    reply = openai.read_answer(mapping(plain(value)))
    if reply is None:
        return None
    by_litellm = read_cost(value)
    return _single(reply if by_litellm is None else reply.replace(billing=Billing(by_litellm)), "openai")


def is_message(value: object) -> bool:
    """Whether a value is a message of chat completions, or of an API of the same shape."""
    return isinstance(get(value, "role"), str) and not items(get(value, "parts"))


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last message of the user without results of tools.

    Raises `ValueError` for an unknown role, and for a part that may be a call in an unknown shape.
    """
    said: list[Message] = []
    refusal = None
    context: list[str] = []
    for message in messages:
        word, parts = text(get(message, "role")), items(get(message, "content"))
        role = WORDS_FOR_ROLES.get(word or "")
        if word is not None and role is None:
            raise ValueError(f"a message has the role {word!r}: expected one of {', '.join(WORDS_FOR_ROLES)}")
        kinds = list(map(kind_of, parts))
        if odd := [kind for kind in kinds if "tool" in kind.lower() and kind not in (CALL, RESULT)]:
            raise ValueError(f"a message has a part of the type {odd[0]!r}: known are {CALL!r} and {RESULT!r}")
        if role == "user" and RESULT not in kinds:
            said, context, refusal = [], [], None
            continue
        if role in ("tool", "function") and RESULT not in kinds:
            call_id, name = text(get(message, "tool_call_id", "toolCallId")), text(get(message, "name"))
            _answered(said, output_of(get(message, "content")), call_id, name)
        elif role == "assistant":
            said += _said(message)
            refusal = text(
                get(message, "refusal") or next(filter(None, (get(part, "refusal") for part in parts)), None)
            )
        for part in (part for kind, part in zip(kinds, parts, strict=True) if kind == RESULT):
            result = get(part, "toolResult") or part
            call_id = text(get(result, "tool_use_id", "toolCallId", "toolUseId", "tool_call_id"))
            _answered(said, output_of(get(result, "content", "result", "output")), call_id, None)
        context += _quoted(parts)
    return NativeAnswer(tuple(said), refusal=refusal, retrieved_context=tuple(context) or None)


def _said(message: object) -> Sequence[Message]:
    """Return a message with its calls, unless it has neither content nor calls.

    The calls are in a list of their own, else among the parts of the content. A deprecated request for `functions` gets
    one call, in a key of its own.
    """
    calls, function = items(get(message, "tool_calls", "toolCalls", "toolInvocations")), get(message, "function_call")
    parts = [part for part in items(get(message, "content")) if kind_of(part) == CALL]
    found = calls or parts or ([{"function": function}] if function else [])
    content = text_content(get(message, "content"))
    content = ABSENT if content == "" and found else content  # some APIs send an empty text with calls
    if content is ABSENT and not found:
        return ()
    read = tuple(call if isinstance(call, ToolCall) else read_call(call) for call in found)
    return (Message("assistant", content, read, text(get(message, "name"))),)


def is_chunk(value: object) -> bool:
    """Whether a value is a part of a streamed chat completion. Some servers leave out what kind of object it is."""
    choices = get(value, "choices")
    return isinstance(choices, list) and not is_completion(value)


def is_cut(events: Sequence[Any]) -> bool:
    """Whether events are parts of a chat completion, and none tells why the model stopped, or the tokens."""
    ends = (get(event, "usage") or get((*items(get(event, "choices")), None)[0], "finish_reason") for event in events)
    return any(map(is_chunk, events)) and not any(ends)


def join_chunks(chunks: Sequence[Any]) -> Json:
    """Return the chat completion that was streamed."""
    reply: dict[str, Any] = {}
    choice: dict[str, Any] = {"message": {}}
    for chunk in chunks:
        reply |= {name: found for name in ("model", "usage", "service_tier") if (found := get(chunk, name))}
        for piece in items(get(chunk, "choices"))[:1]:
            choice["message"] = _joined(choice["message"], plain(get(piece, "delta")) or {})
            choice["finish_reason"] = get(piece, "finish_reason") or choice.get("finish_reason")
    calls = choice["message"].get("tool_calls") or {}
    return plain(
        {**reply, "choices": [{**choice, "message": {**choice["message"], "tool_calls": list(calls.values())}}]}
    )


def _joined(old: Any, new: Any) -> Any:
    """Add a piece of a value: texts are joined. A list becomes a mapping, by the indices of its entries."""
    if isinstance(new, list):
        new = {get(entry, "index"): entry for entry in new}
    if isinstance(new, dict):
        old = old or {}
        return {**old, **{key: _joined(old.get(key), value) for key, value in new.items()}}
    return old + new if isinstance(old, str) and isinstance(new, str) else old if new is None else new


# OpenAI's responses, and lists of their items.

_INPUTS: Final = ("input", "action", "queries", "code", "operation")
"""Keys with the input of calls without `arguments`, by kind of tool. A text is free text, and is not parsed."""
_NO_CALLS: Final = frozenset({"message", "reasoning", "compaction", "item_reference", "mcp_list_tools"})
_UNPRICED: Final = frozenset({"code_interpreter_call", "image_generation_call"})
"""Calls of tools that OpenAI is paid for beside the tokens, at prices that no table has."""


def is_response(value: object) -> bool:
    """Whether a value is a response."""
    return get(value, "object") == "response" and isinstance(get(value, "output"), list)


def read_response(reply: object) -> NativeAnswer:
    """Read a response."""
    failure = text(get(get(reply, "error"), "message"))
    spent = response_spent(reply, text(get(reply, "model")))
    return read_items(get(reply, "output")).replace(
        spent=(spent,) if spent else (),
        finish_reason=text(get(get(reply, "incomplete_details"), "reason")) or text(get(reply, "status")),
        error=f"the response has failed: {failure}" if failure else None,
        is_single_reply=True,
    )


def is_item(value: object) -> bool:
    """Whether a value is an item of this API, and of no other."""
    kind = get(value, "type")
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_call_output")))


def read_items(found: Sequence[Any]) -> NativeAnswer:
    """Read the items of a conversation. The answer follows the last message of the user."""
    answer = read_messages([message for item in found for message in item_messages(item)])
    return answer.replace(retrieved_context=tuple(text for item in found for text in retrieved(item)) or None)


def item_messages(item: object, name: str | None = None, output: object = None) -> Iterator[JsonObject]:
    """Yield an item as messages of chat completions. Calls of the API's own tools have no name, but an output.

    Args:
        item: The item.
        name: The name of its agent.
        output: The value that a tool returned; None: what the item says of it.
    """
    kind = text(get(item, "type")) or "message"
    call_id = text(get(item, "call_id", "id"))
    result = get(item, "output", "results", "outputs") if output is None else output
    if kind == "message":
        yield {"role": get(item, "role") or "assistant", "content": get(item, "content"), "name": name}
    elif kind not in _NO_CALLS and not kind.endswith("_output"):
        tool, given = get(item, "name") or kind.removesuffix("_call"), get(item, *_INPUTS)
        call = {"id": call_id, "name": tool, "arguments": get(item, "arguments"), "input": given}
        yield {"role": "assistant", "tool_calls": [call], "name": name}
    if kind not in _NO_CALLS and result is not None:
        yield {"role": "tool", "tool_call_id": call_id, "content": result}


def retrieved(item: object) -> Iterator[str]:
    """Yield the texts that a file search found."""
    if get(item, "type") == "file_search_call":
        yield from (found for part in items(get(item, "results")) if (found := text(get(part, "text"))))


def response_spent(reply: object, model: str | None) -> Spent | None:
    """Return the tokens of a response, and what else is paid for; None if the tokens are unknown."""
    usage = read_usage(get(reply, "usage"))
    if usage is None:
        return None
    calls = items(get(reply, "output"))
    kinds = [text(get(item, "type")) for item in calls]
    actions = [text(get(get(item, "action"), "type")) for item in calls if text(get(item, "type")) == "web_search_call"]
    places = [text(get(get(item, "environment"), "type")) for item in calls]
    billing = Billing(
        context=terms_of(get(reply, "service_tier")),
        written=count(get(get(get(reply, "usage"), "input_tokens_details"), "cache_write_tokens")),
        # pages that are opened meanwhile are free
        web_searches=sum(action not in ("open_page", "find_in_page") for action in actions),
        file_searches=kinds.count("file_search_call"),
        # a shell in a container of OpenAI is paid for by the minute
        is_unknown=not _UNPRICED.isdisjoint(kinds) or "container_reference" in places,
    )
    return Spent(usage, model, "openai", billing)


def read_usage(usage: object) -> TokenUsage | None:
    """Return the tokens of a response; None if those of question or answer are missing: the price would be too low."""
    read, written = get(usage, "input_tokens"), get(usage, "output_tokens")
    if not (is_count(read) and is_count(written)):
        return None
    cached = get(get(usage, "input_tokens_details"), "cached_tokens")
    return tokens(read, written, cached, get(get(usage, "output_tokens_details"), "reasoning_tokens"))


# Anthropic. Lists of its messages are read as those of chat completions.


def is_claude(value: object) -> bool:
    """Whether a value is a reply of Anthropic. Messages of OpenAI's responses have no `usage`."""
    is_reply = get(value, "type") == "message" and get(value, "role") == "assistant"
    return is_reply and get(value, "usage") is not None and isinstance(get(value, "content"), list)


def read_claude(value: object) -> NativeAnswer | None:
    """Read a reply."""
    data = mapping(plain(value, as_sent=True))
    reply = anthropic.AnthropicApi(ModelSettings(""), {}).read(data)
    return None if reply is None else _single(reply, "anthropic", _quoted(items(data.get("content"))))


def _quoted(parts: Sequence[Any]) -> list[str]:
    """Return the citations of an answer."""
    quotes = (text(get(citation, "cited_text")) for part in parts for citation in items(get(part, "citations")))
    return list(dict.fromkeys(filter(None, quotes)))


# google-genai: replies, and lists of contents.


def is_gemini(value: object) -> bool:
    """Whether a value is a reply, or a part of a streamed one. If its prompt was blocked, it has no candidates."""
    names = ("candidates", "prompt_feedback", "promptFeedback", "usage_metadata", "usageMetadata")
    return get(value, "content") is None and get(value, *names) is not None


def read_gemini(value: object) -> NativeAnswer | None:
    """Read a reply, with the calls that the package made meanwhile, whose tokens are not reported."""
    data = mapping(plain(value, as_sent=True))
    reply = GeminiApi(ModelSettings(""), {}).read(data)
    if reply is None:
        return None
    candidate = next(iter(entries(data.get("candidates"))), {})
    chunks = entries(mapping(candidate.get("groundingMetadata")).get("groundingChunks"))
    context = [found for chunk in chunks if (found := text(mapping(chunk.get("retrievedContext")).get("text")))]
    answer = _single(reply, "google", context)
    history = entries(data.get("automaticFunctionCallingHistory"))
    if history:
        messages = read_contents([*history, candidate.get("content")]).messages
        answer = answer.replace(messages=messages, spent=(), is_single_reply=False)
    return answer if candidate else answer.replace(error=f"the prompt was blocked: {reply.finish_reason}")


def is_content(value: object) -> bool:
    """Whether a value is a content: a message of this API."""
    return isinstance(get(value, "parts"), list) and get(value, "role") in ("user", "model", "function", "tool", None)


def read_contents(contents: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last user content without results of tools."""
    return read_messages(
        [message for content in entries(plain(contents, as_sent=True)) for message in _as_chat(content)]
    )


def _as_chat(content: JsonObject) -> Iterator[JsonObject]:
    """Yield a content as messages of chat completions."""
    parts = entries(content.get("parts"))
    results = [found for part in parts if isinstance(found := part.get("functionResponse"), dict)]
    for result in results:
        told = {"tool_call_id": result.get("id"), "name": result.get("name"), "content": result.get("response")}
        yield {"role": "tool", **told}
    if content.get("role") == "model":
        reply = GeminiApi(ModelSettings(""), {}).read({"candidates": [{"content": content}]})
        yield {"role": "assistant", "content": reply and reply.text, "tool_calls": reply and reply.tools}
    elif content.get("role") == "user" and not results:
        yield {"role": "user"}
