"""Reads LangChain and LangGraph: messages, states of graphs, return values of chains. Invokes Runnables."""

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import UNNAMED, ToolCall
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api.base import Billing, terms_of
from pytest_agentv.providers.frameworks import chat
from pytest_agentv.providers.frameworks.answer import (
    AgentOutput,
    NativeAnswer,
    Spent,
    ToolTimes,
    Transcript,
    get,
    items,
    output_of,
    parsed,
    part_counts,
    plain,
    text,
    text_content,
    tokens,
)
from pytest_agentv.providers.python_calls import Question

_ANSWERS: Final = ("structured_response", "answer", "output", "result", "response", "generation")
"""Keys with the answer of chains and graphs without messages."""

_QUESTIONS: Final = ("question", "input", "query", "prompt", "user_input", "task")
"""Keys for the question, if chains and graphs take several."""

_CONTEXTS: Final = ("context", "source_documents", "documents", "docs")

_CALLBACKS: Final = "langchain_core.callbacks"
"""Loaded whenever LangChain is. We import no framework ourselves."""

_PROVIDERS: Final = {"google_genai": "google", "google_vertexai": "google", "azure_openai": "azure"}


def is_message(value: object) -> bool:
    """Whether a value is a message."""
    kind = get(value, "type")
    known = isinstance(kind, str) and kind.removesuffix("MessageChunk").lower() in ("ai", "human", "tool", "system")
    return known and get(value, "content") is not None and get(value, "role") is None


def is_state(value: object) -> bool:
    """Whether a value is the state of a graph, or the result of a retrieval chain."""
    if any(map(is_message, items(get(value, "messages")))):
        return True
    return isinstance(value, Mapping) and any(True for _ in _documents(value)) and _said(value) is not ABSENT


def read(value: object) -> NativeAnswer | None:
    """Read a message, a list of messages, or a state."""
    if is_message(value):
        return read_messages([value]).replace(is_single_reply=True)
    if is_state(value):
        return _read_state(value)
    return read_messages(items(value)) if any(map(is_message, items(value))) else None


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a conversation. The answer follows the last message of the user.

    A human message with a name is from one agent to another, as in supervisor graphs.
    """
    transcript = Transcript()
    replies: list[Any] = []
    context: list[str] = []
    for message in messages:
        kind, name = str(get(message, "type")).removesuffix("MessageChunk").lower(), get(message, "name")
        if kind == "human" and name is None:
            transcript.restart()
            replies.clear()
            context.clear()
        elif kind == "ai":
            replies.append(message)
            transcript.say(text_content(get(message, "content")), _calls(message), name=text(name))
        elif kind == "tool":
            transcript.result(output_of(get(message, "content")), text(get(message, "tool_call_id")), text(name))
            context += _texts_of(get(message, "artifact"))
    spent = (_spent(reply) for reply in replies)
    last = replies[-1] if replies else None
    return NativeAnswer(
        transcript.messages,
        spent=tuple(found for found in spent if found is not None),
        finish_reason=text(get(get(last, "response_metadata"), "finish_reason", "stop_reason", "done_reason")),
        retrieved_context=tuple(context) or None,
        refusal=text(get(get(last, "additional_kwargs"), "refusal")),
    )


def _calls(message: object) -> list[ToolCall]:
    """Return the calls, including those whose arguments are invalid JSON."""
    found = [*items(get(message, "tool_calls")), *items(get(message, "invalid_tool_calls"))]
    return [
        ToolCall(text(get(call, "name")) or UNNAMED, parsed(get(call, "args") or {}), id=text(get(call, "id")))
        for call in found
    ]


def _spent(message: object) -> Spent | None:
    usage, metadata = get(message, "usage_metadata"), get(message, "response_metadata")
    tier, provider = text(get(metadata, "service_tier")), text(get(metadata, "model_provider"))
    read, said = (part_counts(usage, part, f"{tier}_") for part in ("input_token_details", "output_token_details"))
    found = tokens(get(usage, "input_tokens"), get(usage, "output_tokens"), read["cache_read"], said["reasoning"])
    if found is None:
        return None
    for_hour = read["ephemeral_1h_input_tokens"]
    written = read["cache_creation"] + read["ephemeral_5m_input_tokens"] + for_hour
    billing = Billing(None, terms_of(tier), written, for_hour, is_unknown=bool(read["audio"] or said["audio"]))
    name = text(get(metadata, "model_name", "model"))
    return Spent(found, name, _PROVIDERS.get(provider or "", provider), billing=billing)


def read_output(value: object) -> NativeAnswer | None:
    """Read the return value of a Runnable. It may be a text, a mapping or an object, each of which is an answer."""
    found = read(value)
    if found is not None:
        return found
    said = _said(value) if isinstance(value, Mapping) else ABSENT
    transcript = Transcript()
    transcript.say(plain(value if said is ABSENT else said))
    return NativeAnswer(transcript.messages, is_single_reply=True)


def read_state(value: Any) -> NativeAnswer | None:
    """Read the return value of a graph. This is its whole state, which is no answer itself."""
    if not isinstance(value, Mapping):
        return read_output(value)
    if items(get(value, "messages")) or "__interrupt__" in value or _said(value) is not ABSENT:
        return _read_state(value)
    keys = ", ".join(map(repr, value)) or "no keys"
    raise ValueError(f"the state of the graph has {keys}: expected 'messages' or one of {', '.join(_ANSWERS)}")


def _read_state(state: Any) -> NativeAnswer:
    messages = items(get(state, "messages"))
    answer = read_messages(messages) if any(map(is_message, messages)) else chat.read_messages(messages)
    said = _said(state) if not answer.messages else get(state, "structured_response")
    if said is not None and said is not ABSENT:
        transcript = Transcript()
        transcript.say(plain(said))
        answer = answer.replace(messages=answer.messages + transcript.messages)
    context = tuple(_documents(state)) or answer.retrieved_context
    waits = get(state, "__interrupt__")
    asked = ", ".join(masked(str(plain(get(wait, "value"))))[:200] for wait in items(waits))
    error = f"the graph was interrupted and waits for a person: {asked}" if waits else None
    return answer.replace(retrieved_context=context, error=error, is_single_reply=not messages)


def _said(state: Mapping[str, Any]) -> Any:
    """Return the answer of a state without messages; `ABSENT` if no key holds one."""
    found = get(state, *_ANSWERS)
    if found is None:
        return ABSENT
    return text_content(get(found, "content")) if is_message(found) else found


def _documents(state: object) -> Iterator[str]:
    for key in _CONTEXTS:
        yield from _texts_of(get(state, key))


def _texts_of(documents: object) -> Iterator[str]:
    for document in items(documents):
        if found := text(get(document, "page_content")):
            yield found


async def run(runnable: Any, question: Question, **arguments: Any) -> AgentOutput:
    """Invoke a graph, a chain or a model. Each call has its own thread id for the memory of graphs."""
    config = dict(arguments.pop("config", None) or {})
    config["configurable"] = {"thread_id": uuid.uuid4().hex, **(config.get("configurable") or {})}
    read_it, times = read_state if hasattr(runnable, "get_state") else read_output, ToolTimes()
    callbacks = config.get("callbacks", [])
    if _CALLBACKS in sys.modules and isinstance(callbacks, list):  # a user's own callback manager stays unchanged
        config["callbacks"] = [*callbacks, _clock(times)]
    result = await runnable.ainvoke(_input(runnable, question), config=config, **arguments)
    return AgentOutput(result, times.around(read_it))


def _clock(times: ToolTimes) -> Any:
    """Return a callback handler that measures the times of tools."""
    base: Any = sys.modules[_CALLBACKS].BaseCallbackHandler

    class Clock(base):  # type: ignore[misc]
        run_inline = True  # a thread would call it too late

        def on_tool_start(self, *_: object, run_id: object, **__: object) -> None:
            times.begin(run_id)

        def on_tool_end(self, output: object, *, run_id: object, **_: object) -> None:
            times.end(run_id, get(output, "tool_call_id"))

    return Clock()


def _input(runnable: Any, question: Question) -> Any:
    """Return the input in the form of the Runnable: messages, a mapping with one key, or a text."""
    turns = [dict(turn) for turn in question.turns]
    keys = _input_keys(runnable)
    if keys is None:
        return question.text if len(turns) == 1 and not question.has_files else turns
    if "messages" in keys:
        return {"messages": turns}
    asked = [key for key in keys if len(keys) == 1 or key in _QUESTIONS]
    if len(asked) != 1:
        takes = ", ".join(map(repr, keys))
        what = f"expected 'messages', one key, or one of {', '.join(_QUESTIONS)} among them"
        raise ProviderError(
            f"{type(runnable).__name__} takes {takes}: {what}. Name a function that invokes it", "config"
        )
    if question.has_files:
        raise ProviderError(f"the key {asked[0]!r} takes a text, which cannot hold pictures and PDFs", "config")
    return {asked[0]: question.text}


def _input_keys(runnable: Any) -> Sequence[str] | None:
    """Return the keys of the input; None if it is not a mapping, or unknown."""
    state = get(getattr(runnable, "builder", None), "input_schema", "input", "schema")
    keys = list(getattr(state, "__annotations__", ()))  # of a graph, whose schema fails for some types
    if keys:
        return keys
    try:
        schema: Any = runnable.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - code of others: types without a schema, older versions
        return None
    target = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = schema.get("$defs", {}).get(target, schema)
    properties = schema.get("properties") if schema.get("type") == "object" else None
    return schema.get("required") or list(properties) if properties else None
