"""Agents of frameworks: how they are run, and their results, told by their shape."""

import operator
import sys
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from inspect import ismethod
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import JsonObject, mapping
from pytest_agentv.model.messages import Message, TokenUsage
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api.base import Billing, count, terms_of
from pytest_agentv.providers.python_calls import USER, Chunks, Function, Question, Turn
from pytest_agentv.providers.results import (
    NativeAnswer,
    Spent,
    ended,
    is_chunk,
    is_claude,
    is_completion,
    is_content,
    is_gemini,
    is_item,
    is_message,
    is_response,
    item_messages,
    join_chunks,
    read_claude,
    read_completion,
    read_contents,
    read_gemini,
    read_items,
    read_messages,
    read_response,
    response_spent,
    retrieved,
    tokens,
)
from pytest_agentv.providers.wire import get, items, plain, text, text_content

# openai-agents: results of runs, which hold items of responses.


def read_run(value: object, model: str | None = None) -> NativeAnswer:
    """Read the result of a run of openai-agents, which does not name the model."""
    messages: list[JsonObject] = []
    for item in get(value, "new_items"):
        if get(item, "type") not in ("mcp_approval_request_item", "tool_approval_item"):
            name = text(get(get(item, "agent"), "name"))
            messages += item_messages(get(item, "raw_item"), name, get(item, "output"))
    spent = (response_spent(reply, model) for reply in get(value, "raw_responses"))
    context = [found for item in get(value, "new_items") for found in retrieved(get(item, "raw_item"))]
    waits = [text(get(item, "name")) or "a tool" for item in items(get(value, "interruptions"))]
    return ended(read_messages(messages), get(value, "final_output")).replace(
        spent=tuple(found for found in spent if found is not None),
        retrieved_context=tuple(context) or None,
        error=f"the run waits for a person to approve {', '.join(waits)}" if waits else None,
    )


async def run_openai_agent(agent: Any, question: Question, **arguments: Any) -> NativeAnswer:
    """Run an agent. If all agents of the run have the same model, and no setting of the run another, it replied."""
    turns = [{**turn, "content": _in_responses(turn["content"])} for turn in question.turns]
    asked = turns[0]["content"] if len(turns) == 1 and not question.has_files else turns
    result = await sys.modules["agents"].Runner.run(agent, asked, **arguments)
    models = {_model_of(get(item, "agent")) for item in get(result, "new_items")}
    return read_run(result, models.pop() if len(models) == 1 and "run_config" not in arguments else None)


def _model_of(agent: object) -> str | None:
    model = get(agent, "model")
    default = getattr(sys.modules.get("agents.models.default_models"), "get_default_model", None)
    if model is None and default is not None:
        return text(default())
    return text(model) or text(get(model, "model"))


def _in_responses(content: Any) -> Any:
    """Return the content of a turn in the form of the responses API."""
    if isinstance(content, str):
        return content
    forms: dict[str, Callable[[Any], dict[str, Any]]] = {
        "text": lambda part: {"type": "input_text", "text": part["text"]},
        "image_url": lambda part: {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"},
        "file": lambda part: {"type": "input_file", **part["file"]},
    }
    return [forms[part["type"]](part) for part in content]


# LangChain and LangGraph: messages, states of graphs, return values of chains.

_ANSWERS: Final = ("structured_response", "answer", "output", "result", "response", "generation")
"""Keys with the answer of chains and graphs without messages."""
_QUESTIONS: Final = ("question", "input", "query", "prompt", "user_input", "task")
"""Keys for the question, if chains and graphs take several."""
_CONTEXTS: Final = ("context", "source_documents", "documents", "docs")
_LANGCHAIN_PROVIDERS: Final = {"google_genai": "google", "google_vertexai": "google", "azure_openai": "azure"}


def is_langchain(value: object) -> bool:
    """Whether a value is a message of LangChain."""
    return _kind(value) in ("ai", "human", "tool", "system") and get(value, "role") is None


def _kind(message: object) -> str:
    return str(get(message, "type")).removesuffix("MessageChunk").lower()


def read_langchain(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last message of the user.

    A human message with a name is from one agent to another, as in supervisor graphs.
    """
    start = max((at for at, each in enumerate(messages) if _kind(each) == "human" and not get(each, "name")), default=0)
    messages = messages[start:]
    replies = [message for message in messages if _kind(message) == "ai"]
    context = [page for message in messages for page in _pages(get(message, "artifact"))]
    last = replies[-1] if replies else None
    return read_messages([_as_message(message) for message in messages]).replace(
        spent=tuple(found for reply in replies if (found := _spent_of_langchain(reply)) is not None),
        finish_reason=text(get(get(last, "response_metadata"), "finish_reason", "stop_reason", "done_reason")),
        retrieved_context=tuple(context) or None,
        refusal=text(get(get(last, "additional_kwargs"), "refusal")),
    )


def _as_message(message: object) -> JsonObject:
    """Return a message in the form of chat completions."""
    calls = [*items(get(message, "tool_calls")), *items(get(message, "invalid_tool_calls"))]
    told = {"name": get(message, "name"), "tool_call_id": get(message, "tool_call_id"), "tool_calls": calls}
    content = get(message, "content")
    is_other = _kind(message) == "human" and get(message, "name")
    is_said = _kind(message) == "ai"
    role = "system" if is_other else _kind(message)
    return {"role": role, "content": text_content(content) if is_said else content, **told}


def _spent_of_langchain(message: object) -> Spent | None:
    usage, metadata = get(message, "usage_metadata"), get(message, "response_metadata")
    tier = text(get(metadata, "service_tier"))
    read, said = (
        {name.removeprefix(f"{tier}_"): count(number) for name, number in mapping(get(usage, part)).items()}
        for part in ("input_token_details", "output_token_details")
    )
    cached, reasoning = read.get("cache_read"), said.get("reasoning")
    found = tokens(get(usage, "input_tokens"), get(usage, "output_tokens"), cached, reasoning)
    if found is None:
        return None
    for_hour = read.get("ephemeral_1h_input_tokens", 0)
    billing = Billing(
        context=terms_of(tier),
        written=read.get("cache_creation", 0) + read.get("ephemeral_5m_input_tokens", 0) + for_hour,
        written_for_hour=for_hour,
        is_unknown=bool(read.get("audio") or said.get("audio")),
    )
    provider = text(get(metadata, "model_provider")) or ""
    name = text(get(metadata, "model_name", "model"))
    return Spent(found, name, _LANGCHAIN_PROVIDERS.get(provider, provider) or None, billing)


def is_state(value: object) -> bool:
    """Whether a value is the state of a graph, or the result of a retrieval chain."""
    if not isinstance(value, Mapping):
        return False
    return any(map(is_langchain, items(value.get("messages")))) or bool(_documents(value) and get(value, *_ANSWERS))


def read_state(state: object) -> NativeAnswer:
    """Read the state of a graph, or what a chain returns."""
    messages = items(get(state, "messages"))
    answer = read_langchain(messages) if any(map(is_langchain, messages)) else read_messages(messages)
    said = get(state, "structured_response") if answer.messages else get(state, *_ANSWERS)
    if said is not None:
        content = text_content(get(said, "content")) if is_langchain(said) else plain(said)
        answer = answer.replace(messages=(*answer.messages, Message("assistant", content)))
    waits = get(state, "__interrupt__")
    asked = ", ".join(masked(str(get(wait, "value")))[:200] for wait in items(waits))
    return answer.replace(
        retrieved_context=tuple(_documents(state)) or answer.retrieved_context,
        error=f"the graph was interrupted and waits for a person: {asked}" if waits else None,
        is_single_reply=not messages,
    )


def _documents(state: object) -> list[str]:
    return [page for key in _CONTEXTS for page in _pages(get(state, key))]


def _pages(documents: object) -> Iterator[str]:
    yield from (found for document in items(documents) if (found := text(get(document, "page_content"))))


async def run_runnable(runnable: Any, question: Question, **arguments: Any) -> NativeAnswer:
    """Invoke a graph, a chain or a model. Each call has its own thread id for the memory of graphs."""
    config = dict(arguments.pop("config", None) or {})
    config["configurable"] = {"thread_id": uuid.uuid4().hex, **(config.get("configurable") or {})}
    result = await runnable.ainvoke(_input(runnable, question), config=config, **arguments)
    if isinstance(result, Mapping) and (get(result, "messages", "__interrupt__") or get(result, *_ANSWERS) is not None):
        return read_state(result)
    if hasattr(runnable, "get_state"):  # the whole state of a graph is no answer
        keys = ", ".join(map(repr, result)) or "no keys"
        raise ProviderError(f"the state of the graph has {keys}: expected 'messages' or one of {', '.join(_ANSWERS)}")
    if is_langchain(result):
        return read_langchain([result]).replace(is_single_reply=True)
    return NativeAnswer((Message("assistant", plain(result)),), is_single_reply=True)


def _input(runnable: Any, question: Question) -> Any:
    """Return the input in the form of the Runnable: messages, a mapping with one key, or a text."""
    turns = [dict(turn) for turn in question.turns]
    keys = _input_keys(runnable)
    if not keys:
        return question.text if len(turns) == 1 and not question.has_files else turns
    if "messages" in keys:
        return {"messages": turns}
    asked = [key for key in keys if len(keys) == 1 or key in _QUESTIONS]
    if len(asked) != 1:
        takes = f"{type(runnable).__name__} takes {', '.join(map(repr, keys))}"
        what = f"expected 'messages', one key, or one of {', '.join(_QUESTIONS)} among them"
        raise ProviderError(f"{takes}: {what}. Name a function that invokes it", "config")
    if question.has_files:
        raise ProviderError(f"the key {asked[0]!r} takes a text, which cannot hold pictures and PDFs", "config")
    return {asked[0]: question.text}


def _input_keys(runnable: Any) -> Sequence[str]:
    """Return the keys of the input; none if it is not a mapping."""
    state = get(getattr(runnable, "builder", None), "input_schema")
    if state is not None:
        return list(getattr(state, "__annotations__", ()))
    schema = runnable.get_input_jsonschema()
    return schema.get("required") or list(schema.get("properties") or ())


# pydantic-ai: results of runs, and lists of its messages.

_PYDANTIC_PROVIDERS: Final = {"google-gla": "google", "google-vertex": "google", "google-cloud": "google"}


def is_pydantic_message(value: object) -> bool:
    """Whether a value is a message of a history."""
    return get(value, "kind") in ("request", "response") and isinstance(get(value, "parts"), list | tuple)


def read_pydantic_run(run: Any) -> NativeAnswer:
    """Read the result of a run. Its tokens may be more than those of its replies: of agents that it called."""
    answer = read_pydantic(run.new_messages(), getattr(run, "_output_tool_name", None))
    usage = run.usage() if ismethod(run.usage) else run.usage  # a method before version 2
    return ended(answer, getattr(run, "output", None)).replace(usage=_pydantic_tokens(usage))


def read_pydantic(history: Sequence[Any], output_tool: str | None = None) -> NativeAnswer:
    """Read a history. The answer follows the last question. The tool that returns the output is no step."""
    starts = [at for at, message in enumerate(history) if _parts(message, "user-prompt")]
    history = history[max(starts, default=0) :]
    messages: list[JsonObject] = []
    for message in history:
        if texts := [get(part, "content") for part in _parts(message, "text")]:
            messages.append({"role": "assistant", "content": "".join(texts)})
        for part in _parts(
            message, "tool-call", "builtin-tool-call", "tool-return", "builtin-tool-return", "retry-prompt"
        ):
            name, call_id = get(part, "tool_name"), get(part, "tool_call_id")
            if name in (None, output_tool):
                continue
            if str(get(part, "part_kind")).endswith("call"):
                call = {"id": call_id, "name": name, "arguments": get(part, "args") or {}}
                messages.append({"role": "assistant", "tool_calls": [call]})
            else:
                messages.append(
                    {"role": "tool", "tool_call_id": call_id, "name": name, "content": get(part, "content")}
                )
    replies = [message for message in history if get(message, "kind") == "response"]
    return read_messages(messages).replace(
        spent=tuple(found for reply in replies if (found := _spent_of_pydantic(reply)) is not None),
        finish_reason=text(get(replies[-1], "finish_reason")) if replies else None,
    )


def _parts(message: object, *kinds: str) -> list[Any]:
    return [part for part in items(get(message, "parts")) if get(part, "part_kind") in kinds]


def _spent_of_pydantic(reply: object) -> Spent | None:
    usage, provider = get(reply, "usage"), text(get(reply, "provider_name")) or ""
    found = _pydantic_tokens(usage)
    audio = count(get(usage, "input_audio_tokens")) + count(get(usage, "output_audio_tokens"))
    billing = Billing(written=count(get(usage, "cache_write_tokens")), is_unknown=bool(audio))
    name = text(get(reply, "model_name"))
    return None if found is None else Spent(found, name, _PYDANTIC_PROVIDERS.get(provider, provider) or None, billing)


def _pydantic_tokens(usage: object) -> TokenUsage | None:
    reasoning = get(get(usage, "details"), "reasoning_tokens", "thoughts_tokens", "thinking_tokens")
    cached = get(usage, "cache_read_tokens")
    return tokens(get(usage, "input_tokens"), get(usage, "output_tokens"), cached, reasoning)


async def run_pydantic_agent(agent: Any, question: Question, **arguments: Any) -> NativeAnswer:
    """Run an agent. The messages before the last question become its history."""
    *history, last = question.turns
    if last["role"] != USER:
        if question.has_files:
            raise ProviderError("the conversation ends without the user: it cannot hold pictures and PDFs", "config")
        return read_pydantic_run(await agent.run(question.text, **arguments))
    if history:
        arguments = {"message_history": _history(agent, history), **arguments}
    return read_pydantic_run(await agent.run(_in_pydantic(last["content"]), **arguments))


def _history(agent: Any, turns: Sequence[Turn]) -> Any:
    """Return messages of pydantic-ai. Adds the agent's system prompts, which a run with a history leaves out."""
    own = [{"role": "system", "content": prompt} for prompt in items(getattr(agent, "_system_prompts", ()))]
    messages: list[JsonObject] = []
    for turn in [*own, *turns]:
        kind, part = ("response", "text") if turn["role"] == "assistant" else ("request", f"{turn['role']}-prompt")
        content = _in_pydantic(turn["content"])
        messages.append({"kind": kind, "parts": [{"part_kind": part, "content": content}]})
    return sys.modules["pydantic_ai.messages"].ModelMessagesTypeAdapter.validate_python(messages)


def _in_pydantic(content: Any) -> Any:
    """Return the content of a turn in the form of pydantic-ai."""
    if isinstance(content, str):
        return content
    binary, shown = sys.modules["pydantic_ai.messages"].BinaryContent, list[Any]()
    for part in content:
        if part["type"] == "text":
            shown.append(part["text"])
            continue
        url = part["image_url"]["url"] if part["type"] == "image_url" else part["file"]["file_data"]
        head, _, data = url.partition(",")
        kind = head.removeprefix("data:").removesuffix(";base64")
        shown.append(binary(data=b64decode(data), media_type=kind))
    return shown


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
        return next((read(value) for is_it, read in _LISTS if any(map(is_it, value))), None)
    return next((read(value) for is_it, read in _READERS if is_it(value)), None)


def _is_run(value: object) -> bool:
    return isinstance(get(value, "new_items"), list) and isinstance(get(value, "raw_responses"), list)


def _is_reply(value: object) -> bool:
    return any(is_it(value) for is_it in (is_completion, is_response, is_claude, is_gemini))


def _read_replies(replies: Sequence[Any]) -> NativeAnswer:
    """Read all replies of one answer, and add up their tokens. The last reply tells how the answer ended."""
    answers = [answer for reply in replies if (answer := read_native(reply)) is not None]
    contexts = [found for answer in answers for found in answer.retrieved_context or ()]
    return answers[-1].replace(
        messages=tuple(message for answer in answers for message in answer.messages),
        spent=tuple(spent for answer in answers for spent in answer.spent),
        retrieved_context=tuple(contexts) or None,
        is_single_reply=False,
    )


_Table = Sequence[tuple[Callable[[Any], bool], Callable[[Any], Any]]]

_READERS: Final[_Table] = (
    (_is_run, read_run),
    (lambda value: callable(getattr(value, "new_messages", None)), read_pydantic_run),
    (is_pydantic_message, lambda value: read_pydantic([value])),
    (is_completion, read_completion),
    (is_response, read_response),
    (is_claude, read_claude),
    (is_gemini, read_gemini),
    (is_state, read_state),
    (is_langchain, lambda value: read_langchain([value]).replace(is_single_reply=True)),
    (
        lambda value: isinstance(value, Mapping) and "messages" in value,
        lambda value: read_native(items(value["messages"])),
    ),
    (
        lambda value: get(value, "role") in ("assistant", "ai") and get(value, "content", "tool_calls", "toolCalls"),
        lambda value: read_messages([value]).replace(is_single_reply=True),
    ),
)

_LISTS: Final[_Table] = (
    (is_langchain, read_langchain),
    (is_pydantic_message, read_pydantic),
    (_is_reply, _read_replies),
    (is_content, read_contents),
    (is_item, read_items),
    (is_message, read_messages),
)

_JOINS: Final[_Table] = (
    (is_chunk, join_chunks),
    (lambda value: str(get(value, "type")).startswith("response."), lambda events: get(events[-1], "response")),
    (is_langchain, lambda chunks: reduce(operator.add, chunks)),
    (is_state, lambda states: states[-1]),
)


def join(chunks: Chunks) -> Any:
    """Return the value of the joined chunks: a text, an answer, or another value that must be read."""
    if not chunks.parts:
        raise ValueError("it yields nothing")
    others = [part for part in chunks.parts if not isinstance(part, str)]
    if not others:
        return "".join(chunks.parts)
    for is_part, join_parts in _JOINS:
        if all(map(is_part, others)):
            return join_parts(others)
    is_piece = chunks.parts == (others[0],) and is_gemini(others[0])  # of a stream, as all its pieces are
    if len(others) == 1 and others[0] is chunks.parts[-1] and not is_piece:  # the whole result comes after its texts
        return others[0]
    raise ValueError(f"it yields values of type {type(others[0]).__name__}, of which no answer can be made")
