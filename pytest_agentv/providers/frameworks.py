"""Runs the agents of frameworks, and reads the objects that they and the libraries of models return."""

import operator
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import ismethod
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, mapping
from pytest_agentv.model.messages import (
    CALL,
    RESULT,
    WORDS_FOR_ROLES,
    Message,
    TokenUsage,
    ToolCall,
    added_usage,
    candidate_answer,
    incomplete_reason,
    kind_of,
)
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api import anthropic, gemini, openai
from pytest_agentv.providers.api.base import Billing, ModelReply, count, entries, is_unusual, read_usage
from pytest_agentv.providers.api.model import PRICES, price, read_cost
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.kind import get, items, output_of, parsed, plain, read_call, text, text_content
from pytest_agentv.providers.python_calls import USER, Chunks, Function, PythonPrompt, Turn

# What all results have in common.

_PROVIDERS: Final[Mapping[str | None, str]] = {
    **dict.fromkeys(("google_genai", "google_vertexai", "google-gla", "google-vertex", "google-cloud"), "google"),
    "azure_openai": "azure",
}
"""Providers in the words of LangChain and pydantic-ai, and their names in the price tables."""


@dataclass(frozen=True, slots=True)
class NativeAnswer(Record):
    """The facts in another package's result."""

    messages: tuple[Message, ...]
    replies: tuple[ModelReply, ...] = ()
    """The replies of models that report tokens, for what they cost: their texts are in the messages."""
    usage: TokenUsage | None = None
    """The tokens of the whole run; None: those of the replies."""
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    refusal: str | None = None
    error: str | None = None
    is_single_reply: bool = False
    """Whether it is one reply of a model. Tools may have been called before it."""


def build_response(answer: NativeAnswer) -> ProviderResponse:
    """Return the response. Looking up prices may import a table: call it in a thread."""
    total = added_usage(reply.usage for reply in answer.replies)
    # Where replies are missing, or the price of one is unknown, the cost is unknown.
    costs = list(map(_cost, answer.replies)) if answer.usage in (None, total) else []
    known = [cost for cost in costs if cost is not None]
    is_priced = bool(known) and len(known) == len(costs)
    is_told = all(reply.billing.cost_usd is not None for reply in answer.replies)
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
        token_usage=answer.usage or total,
        cost_usd=sum(known) if is_priced else None,
        cost_source=PRICES if is_priced and not is_told else None,
        finish_reason=answer.finish_reason,
        retrieved_context=answer.retrieved_context,
        error=error,
        error_kind="crash" if error is None else "no_answer",
        is_text_only=answer.is_single_reply and not has_calls,
    )


def _cost(reply: ModelReply) -> float | None:
    billing = reply.billing
    if billing.cost_usd is not None or not (reply.model and billing.provider):
        return billing.cost_usd
    return price(reply.model, billing.provider, reply.usage, billing)


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
    message = Message("assistant", reply.text or ABSENT, reply.tools)
    return NativeAnswer(
        (message,) if reply.text or reply.tools else (),
        replies=(reply.replace(billing=reply.billing.replace(provider=provider)),) if reply.usage else (),
        finish_reason=reply.finish_reason,
        retrieved_context=tuple(context) or None,
        refusal=reply.refusal,
        is_single_reply=True,
    )


def _texts(values: object, name: str) -> list[str]:
    return [found for value in items(values) if (found := text(get(value, name)))]


# OpenAI's chat completions, also of other servers and packages, and lists of such messages.


def read_completion(value: object) -> NativeAnswer | None:
    """Read a chat completion; None if it holds an error in place of an answer."""
    reply = openai.read_answer(mapping(plain(value)))
    if reply is None:
        return None
    by_litellm = read_cost(value)
    return _single(reply if by_litellm is None else reply.replace(billing=Billing(by_litellm)), "openai")


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. Raises `ValueError` for an unknown role, and for an unknown part that may be a call."""
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
    """Return a message with its calls, which may be among its parts, unless it has neither content nor calls."""
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
    return isinstance(get(value, "choices"), list) and not _is("completion", value)


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
_UNPRICED: Final = ("code_interpreter_call", "image_generation_call", "web_search_call", "file_search_call")
"""Calls of tools that OpenAI is paid for beside the tokens."""


def read_response(reply: object) -> NativeAnswer:
    """Read a response."""
    failure = text(get(get(reply, "error"), "message"))
    return read_items(get(reply, "output")).replace(
        replies=tuple(response_spent(reply, text(get(reply, "model")))),
        finish_reason=text(get(get(reply, "incomplete_details"), "reason")) or text(get(reply, "status")),
        error=f"the response has failed: {failure}" if failure else None,
        is_single_reply=True,
    )


def read_items(found: Sequence[Any]) -> NativeAnswer:
    """Read the items of a conversation. The answer follows the last message of the user."""
    answer = read_messages([message for item in found for message in item_messages(item)])
    return answer.replace(retrieved_context=retrieved(found))


def item_messages(item: object, name: str | None = None, output: object = None) -> Iterator[JsonObject]:
    """Yield an item as messages of chat completions. `name` is its agent's, `output` what a tool returned, if known."""
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


def retrieved(found: Sequence[object]) -> tuple[str, ...] | None:
    """Return the texts that file searches found; None if there are none."""
    searches = [item for item in found if get(item, "type") == "file_search_call"]
    return tuple(page for search in searches for page in _texts(get(search, "results"), "text")) or None


def response_spent(reply: object, model: str | None) -> list[ModelReply]:
    """Return the tokens of a response, and what else is paid for; nothing if the tokens are unknown."""
    usage, calls = get(reply, "usage"), items(get(reply, "output"))
    places = [text(get(get(item, "environment"), "type")) for item in calls]
    is_unknown = (
        is_unusual(get(reply, "service_tier"))
        or any(get(item, "type") in _UNPRICED for item in calls)
        or "container_reference" in places  # a shell in a container of OpenAI is paid for by the minute
    )
    written = count(get(get(usage, "input_tokens_details"), "cache_write_tokens"))
    return _spent(usage, model, "openai", written, is_unknown=is_unknown)


def _spent(usage: object, model: str | None, provider: object, written: int, *, is_unknown: bool) -> list[ModelReply]:
    """Return the tokens of a reply, for what they cost; nothing if they are unknown."""
    found, name = read_usage(mapping(plain(usage))), text(provider)
    billing = Billing(provider=_PROVIDERS.get(name, name), written=written, is_unknown=is_unknown)
    return [] if found is None else [ModelReply("", model, usage=found, billing=billing)]


# Anthropic. Lists of its messages are read as those of chat completions.


def read_claude(value: object) -> NativeAnswer | None:
    """Read a reply."""
    data = mapping(plain(value, as_sent=True))
    reply = anthropic.read_answer(data)
    return None if reply is None else _single(reply, "anthropic", _quoted(items(data.get("content"))))


def _quoted(parts: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(quote for part in parts for quote in _texts(get(part, "citations"), "cited_text")))


# google-genai: replies, and lists of contents.


_GEMINI: Final = ("candidates", "prompt_feedback", "promptFeedback", "usage_metadata", "usageMetadata")


def read_gemini(value: object) -> NativeAnswer | None:
    """Read a reply, with the calls that the package made meanwhile, whose tokens are not reported."""
    data = mapping(plain(value, as_sent=True))
    reply = gemini.read_answer(data)
    if reply is None:
        return None
    candidate = next(iter(entries(data.get("candidates"))), {})
    chunks = entries(mapping(candidate.get("groundingMetadata")).get("groundingChunks"))
    answer = _single(reply, "google", _texts([chunk.get("retrievedContext") for chunk in chunks], "text"))
    history = entries(data.get("automaticFunctionCallingHistory"))
    if history:
        messages = read_contents([*history, candidate.get("content")]).messages
        answer = answer.replace(messages=messages, replies=(), is_single_reply=False)
    return answer if candidate else answer.replace(error=f"the prompt was blocked: {reply.finish_reason}")


def read_contents(contents: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last user content without results of tools."""
    return read_messages(
        [message for content in entries(plain(contents, as_sent=True)) for message in _as_chat(content)]
    )


def _as_chat(content: JsonObject) -> Iterator[JsonObject]:
    parts = entries(content.get("parts"))
    results = [found for part in parts if isinstance(found := part.get("functionResponse"), dict)]
    for result in results:
        told = {"tool_call_id": result.get("id"), "name": result.get("name"), "content": result.get("response")}
        yield {"role": "tool", **told}
    if content.get("role") == "model":
        reply = gemini.read_answer({"candidates": [{"content": content}]})
        yield {"role": "assistant", "content": reply and reply.text, "tool_calls": reply and reply.tools}
    elif content.get("role") == "user" and not results:
        yield {"role": "user"}


# Agents of frameworks: how they are run, and their results, told by their shape.

# openai-agents: results of runs, which hold items of responses.


def read_run(value: object, model: str | None = None) -> NativeAnswer:
    """Read the result of a run of openai-agents, which does not name the model."""
    messages: list[JsonObject] = []
    for item in get(value, "new_items"):
        if get(item, "type") not in ("mcp_approval_request_item", "tool_approval_item"):
            name = text(get(get(item, "agent"), "name"))
            messages += item_messages(get(item, "raw_item"), name, get(item, "output"))
    waits = [text(get(item, "name")) or "a tool" for item in items(get(value, "interruptions"))]
    return ended(read_messages(messages), get(value, "final_output")).replace(
        replies=tuple(found for reply in get(value, "raw_responses") for found in response_spent(reply, model)),
        retrieved_context=retrieved([get(item, "raw_item") for item in get(value, "new_items")]),
        error=f"the run waits for a person to approve {', '.join(waits)}" if waits else None,
    )


async def run_openai_agent(agent: Any, question: PythonPrompt, **arguments: Any) -> NativeAnswer:
    """Run an agent. If all agents of the run have the same model, and no setting of the run another, it replied."""
    _require_texts(question)
    asked = question.turns[0]["content"] if len(question.turns) == 1 else list(question.turns)
    result = await sys.modules["agents"].Runner.run(agent, asked, **arguments)
    models = {_model_of(get(item, "agent")) for item in get(result, "new_items")}
    return read_run(result, models.pop() if len(models) == 1 and "run_config" not in arguments else None)


def _model_of(agent: object) -> str | None:
    model = get(agent, "model")
    default = getattr(sys.modules.get("agents.models.default_models"), "get_default_model", None)
    if model is None and default is not None:
        return text(default())
    return text(model) or text(get(model, "model"))


def _require_texts(question: PythonPrompt) -> None:
    if question.has_files:
        what = "an agent of this framework gets texts, which cannot hold pictures and PDFs"
        raise ProviderError(f"{what}: name a function, with `messages: true`", "config")


# LangChain and LangGraph: messages, states of graphs, return values of chains.

_ANSWERS: Final = ("structured_response", "answer", "output", "result", "response", "generation")
"""Keys with the answer of chains and graphs without messages."""
_QUESTIONS: Final = ("question", "input", "query", "prompt", "user_input", "task")
"""Keys for the question, if chains and graphs take several."""
_CONTEXTS: Final = ("context", "source_documents", "documents", "docs")


def _kind(message: object) -> str:
    """Return the kind of a message of LangChain: `ai`, `human`, `tool` or `system`."""
    return str(get(message, "type")).removesuffix("MessageChunk").lower()


def read_langchain(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. A human message with a name is from one agent to another, as in supervisor graphs."""
    start = max((at for at, each in enumerate(messages) if _kind(each) == "human" and not get(each, "name")), default=0)
    messages = messages[start:]
    replies = [message for message in messages if _kind(message) == "ai"]
    context = [page for message in messages for page in _texts(get(message, "artifact"), "page_content")]
    last = replies[-1] if replies else None
    return read_messages([_as_message(message) for message in messages]).replace(
        replies=tuple(found for reply in replies for found in _spent_of_langchain(reply)),
        finish_reason=text(get(get(last, "response_metadata"), "finish_reason", "stop_reason", "done_reason")),
        retrieved_context=tuple(context) or None,
        refusal=text(get(get(last, "additional_kwargs"), "refusal")),
    )


def _as_message(message: object) -> JsonObject:
    kind, content, name = _kind(message), get(message, "content"), get(message, "name")
    return {
        "role": "system" if kind == "human" and name else kind,
        "content": text_content(content) if kind == "ai" else content,
        "name": name,
        "tool_call_id": get(message, "tool_call_id"),
        "tool_calls": [*items(get(message, "tool_calls")), *items(get(message, "invalid_tool_calls"))],
    }


def _spent_of_langchain(message: object) -> list[ModelReply]:
    usage, metadata = mapping(plain(get(message, "usage_metadata"))), get(message, "response_metadata")
    read, said = (mapping(usage.get(part)) for part in ("input_token_details", "output_token_details"))
    is_unknown = is_unusual(get(metadata, "service_tier")) or any(
        (read.get("audio"), said.get("audio"), read.get("ephemeral_1h_input_tokens"))
    )
    written = count(read.get("cache_creation")) + count(read.get("ephemeral_5m_input_tokens"))
    model = text(get(metadata, "model_name", "model"))
    return _spent(usage, model, get(metadata, "model_provider"), written, is_unknown=is_unknown)


def read_state(state: object) -> NativeAnswer:
    """Read the state of a graph, or what a chain returns."""
    messages = items(get(state, "messages"))
    answer = read_langchain(messages) if any(_is("langchain", each) for each in messages) else read_messages(messages)
    said = get(state, "structured_response") if answer.messages else get(state, *_ANSWERS)
    if said is not None:
        content = text_content(get(said, "content")) if _is("langchain", said) else plain(said)
        answer = answer.replace(messages=(*answer.messages, Message("assistant", content)))
    waits = get(state, "__interrupt__")
    asked = ", ".join(masked(str(get(wait, "value")))[:200] for wait in items(waits))
    return answer.replace(
        retrieved_context=tuple(_documents(state)) or answer.retrieved_context,
        error=f"the graph was interrupted and waits for a person: {asked}" if waits else None,
        is_single_reply=not messages,
    )


def _documents(state: object) -> list[str]:
    return [page for key in _CONTEXTS for page in _texts(get(state, key), "page_content")]


async def run_runnable(runnable: Any, question: PythonPrompt, **arguments: Any) -> NativeAnswer:
    """Invoke a graph, a chain or a model. Each call has its own thread id for the memory of graphs."""
    config = dict(arguments.pop("config", None) or {})
    config["configurable"] = {"thread_id": uuid.uuid4().hex, **(config.get("configurable") or {})}
    result = await runnable.ainvoke(_input(runnable, question), config=config, **arguments)
    if isinstance(result, Mapping) and (get(result, "messages", "__interrupt__") or get(result, *_ANSWERS) is not None):
        return read_state(result)
    if hasattr(runnable, "get_state"):  # the whole state of a graph is no answer
        keys = ", ".join(map(repr, result)) or "no keys"
        raise ProviderError(f"the state of the graph has {keys}: expected 'messages' or one of {', '.join(_ANSWERS)}")
    if _is("langchain", result):
        return read_langchain([result]).replace(is_single_reply=True)
    return NativeAnswer((Message("assistant", plain(result)),), is_single_reply=True)


def _input(runnable: Any, question: PythonPrompt) -> Any:
    """Return the input in the form of the Runnable: messages, a mapping with one key, or a text."""
    turns = [dict(turn) for turn in question.turns]
    state = get(getattr(runnable, "builder", None), "input_schema")
    schema = {} if state is not None else runnable.get_input_jsonschema()
    keys = list(getattr(state, "__annotations__", ()) or schema.get("required") or schema.get("properties") or ())
    if not keys:  # the input is no mapping
        return question.text if len(turns) == 1 and not question.has_files else turns
    if "messages" in keys:
        return {"messages": turns}
    asked = [key for key in keys if len(keys) == 1 or key in _QUESTIONS]
    if len(asked) != 1:
        takes = f"{type(runnable).__name__} takes {', '.join(map(repr, keys))}"
        what = f"expected 'messages', one key, or one of {', '.join(_QUESTIONS)} among them"
        raise ProviderError(f"{takes}: {what}. Name a function that invokes it", "config")
    _require_texts(question)
    return {asked[0]: question.text}


# pydantic-ai: results of runs, and lists of its messages.


def read_pydantic_run(run: Any) -> NativeAnswer:
    """Read the result of a run. Its tokens may be more than those of its replies: of agents that it called."""
    answer = read_pydantic(run.new_messages(), getattr(run, "_output_tool_name", None))
    usage = run.usage() if ismethod(run.usage) else run.usage  # a method before version 2
    return ended(answer, getattr(run, "output", None)).replace(usage=read_usage(mapping(plain(usage))))


def read_pydantic(history: Sequence[Any], output_tool: str | None = None) -> NativeAnswer:
    """Read a history. The answer follows the last question. The tool that returns the output is no step."""
    starts = [at for at, message in enumerate(history) if _parts(message, "user-prompt")]
    history = history[max(starts, default=0) :]
    messages: list[JsonObject] = []
    for message in history:
        if texts := _parts(message, "text"):
            messages.append({"role": "assistant", "content": "".join(texts)})
        for part in items(get(message, "parts")):
            kind, name, call_id = (get(part, key) for key in ("part_kind", "tool_name", "tool_call_id"))
            if name is None or name == output_tool:
                continue
            if kind in ("tool-call", "builtin-tool-call"):
                call = {"id": call_id, "name": name, "arguments": get(part, "args") or {}}
                messages.append({"role": "assistant", "tool_calls": [call]})
            elif kind in ("tool-return", "builtin-tool-return", "retry-prompt"):
                result = {"tool_call_id": call_id, "name": name, "content": get(part, "content")}
                messages.append({"role": "tool", **result})
    replies = [message for message in history if get(message, "kind") == "response"]
    return read_messages(messages).replace(
        replies=tuple(found for reply in replies for found in _spent_of_pydantic(reply)),
        finish_reason=text(get(replies[-1], "finish_reason")) if replies else None,
    )


def _parts(message: object, kind: str) -> list[Any]:
    return [get(part, "content") for part in items(get(message, "parts")) if get(part, "part_kind") == kind]


def _spent_of_pydantic(reply: object) -> list[ModelReply]:
    usage, model = mapping(plain(get(reply, "usage"))), text(get(reply, "model_name"))
    audio = count(usage.get("input_audio_tokens")) + count(usage.get("output_audio_tokens"))
    written = count(usage.get("cache_write_tokens"))
    return _spent(usage, model, get(reply, "provider_name"), written, is_unknown=bool(audio))


async def run_pydantic_agent(agent: Any, question: PythonPrompt, **arguments: Any) -> NativeAnswer:
    """Run an agent. The messages before the last question become its history."""
    _require_texts(question)
    *history, last = question.turns
    if last["role"] != USER:
        return read_pydantic_run(await agent.run(question.text, **arguments))
    if history:
        arguments = {"message_history": _history(agent, history), **arguments}
    return read_pydantic_run(await agent.run(last["content"], **arguments))


def _history(agent: Any, turns: Sequence[Turn]) -> Any:
    """Return messages of pydantic-ai. Adds the agent's system prompts, which a run with a history leaves out."""
    own = [{"role": "system", "content": prompt} for prompt in items(getattr(agent, "_system_prompts", ()))]
    messages: list[JsonObject] = []
    for turn in [*own, *turns]:
        kind, part = ("response", "text") if turn["role"] == "assistant" else ("request", f"{turn['role']}-prompt")
        messages.append({"kind": kind, "parts": [{"part_kind": part, "content": turn["content"]}]})
    return sys.modules["pydantic_ai.messages"].ModelMessagesTypeAdapter.validate_python(messages)


# Which reader and which runner it is.

RUNNERS: Final[Mapping[str, Function]] = {
    "pydantic_ai": run_pydantic_agent,
    "agents": run_openai_agent,
    "langchain_core": run_runnable,
    "langgraph": run_runnable,
}
"""What runs an agent of a package. Takes the agent, a `Question`, and the target's `arguments`."""


def read_native(value: Any) -> NativeAnswer | None:
    """Read a result of a package, or of a model's API; None for an unknown shape."""
    if isinstance(value, list | tuple):
        return next((read(value) for shape, read in _LISTS.items() if any(_is(shape, part) for part in value)), None)
    return next((read(value) for shape, read in _READERS.items() if _is(shape, value)), None)


def _read_replies(replies: Sequence[Any]) -> NativeAnswer:
    """Read all replies of one answer, and add up their tokens. The last reply tells how the answer ended."""
    answers = [answer for reply in replies if (answer := read_native(reply)) is not None]
    contexts = [found for answer in answers for found in answer.retrieved_context or ()]
    return answers[-1].replace(
        messages=tuple(message for answer in answers for message in answer.messages),
        replies=tuple(reply for answer in answers for reply in answer.replies),
        retrieved_context=tuple(contexts) or None,
        is_single_reply=False,
    )


_SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "run": lambda value: isinstance(get(value, "new_items"), list) and isinstance(get(value, "raw_responses"), list),
    "pydantic run": lambda value: callable(getattr(value, "new_messages", None)),
    "pydantic": lambda value: (
        get(value, "kind") in ("request", "response") and isinstance(get(value, "parts"), list | tuple)
    ),
    "completion": lambda value: get((*items(get(value, "choices")), None)[0], "message") is not None,
    "response": lambda value: get(value, "object") == "response" and isinstance(get(value, "output"), list),
    "claude": lambda value: (  # messages of OpenAI's responses have no `usage`
        (get(value, "type"), get(value, "role")) == ("message", "assistant")
        and get(value, "usage") is not None
        and isinstance(get(value, "content"), list)
    ),
    "gemini": lambda value: (  # without candidates if its prompt was blocked
        get(value, "content") is None and get(value, *_GEMINI) is not None
    ),
    "langchain": lambda value: _kind(value) in ("ai", "human", "tool", "system") and get(value, "role") is None,
    "state": lambda value: (  # of a graph, or the result of a retrieval chain
        isinstance(value, Mapping)
        and (
            any(_is("langchain", message) for message in items(value.get("messages")))
            or bool(_documents(value) and get(value, *_ANSWERS))
        )
    ),
    "content": lambda value: (
        isinstance(get(value, "parts"), list) and get(value, "role") in ("user", "model", "function", "tool", None)
    ),
    "item": lambda value: str(get(value, "type")).endswith(("_call", "_call_output", "reasoning")),
    "messages": lambda value: isinstance(value, Mapping) and "messages" in value,
    "message": lambda value: isinstance(get(value, "role"), str) and not items(get(value, "parts")),
    "reply": lambda value: (
        get(value, "role") in ("assistant", "ai") and bool(get(value, "content", "tool_calls", "toolCalls"))
    ),
    "chunk": is_chunk,
    "event": lambda value: str(get(value, "type")).startswith("response."),
}
"""How the results of packages and APIs are told apart; an object and a mapping have the same names."""

_Readers = Mapping[str, Callable[[Any], Any]]

_READERS: Final[_Readers] = {
    "run": read_run,
    "pydantic run": read_pydantic_run,
    "pydantic": lambda value: read_pydantic([value]),
    "completion": read_completion,
    "response": read_response,
    "claude": read_claude,
    "gemini": read_gemini,
    "state": read_state,
    "langchain": lambda value: read_langchain([value]).replace(is_single_reply=True),
    "messages": lambda value: read_native(items(value["messages"])),
    "reply": lambda value: read_messages([value]).replace(is_single_reply=True),
}

_LISTS: Final[_Readers] = {
    "langchain": read_langchain,
    "pydantic": read_pydantic,
    **dict.fromkeys(("completion", "response", "claude", "gemini"), _read_replies),
    "content": read_contents,
    "item": read_items,
    "message": read_messages,
}

_JOINS: Final[_Readers] = {
    "chunk": join_chunks,
    "event": lambda events: get(events[-1], "response"),
    "langchain": lambda chunks: reduce(operator.add, chunks),
    "state": lambda states: states[-1],
}


def _is(shape: str, value: object) -> bool:
    return _SHAPES[shape](value)


def join(chunks: Chunks) -> Any:
    """Return the value of the joined chunks: a text, an answer, or another value that must be read."""
    if not chunks:
        raise ValueError("it yields nothing")
    others = [part for part in chunks if not isinstance(part, str)]
    if not others:
        return "".join(chunks)
    for shape, join_parts in _JOINS.items():
        if all(_is(shape, part) for part in others):
            return join_parts(others)
    is_piece = len(chunks) == 1 and _is("gemini", others[0])  # of a stream, as all its pieces are
    if len(others) == 1 and others[0] is chunks[-1] and not is_piece:  # the whole result comes after its texts
        return others[0]
    raise ValueError(f"it yields values of type {type(others[0]).__name__}, of which no answer can be made")
