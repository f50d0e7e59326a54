"""LangChain and LangGraph: messages, states of graphs, what chains return, and everything that can be invoked."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.providers.python.frameworks.answer import AgentOutput, NativeAnswer, Spent, part_count, tokens
from pytest_agentv.providers.python.frameworks.plain import get, items, parsed, plain, text, text_content
from pytest_agentv.providers.python.frameworks.transcript import Transcript
from pytest_agentv.providers.python.question import Question

_ANSWERS: Final = ("structured_response", "answer", "output", "result", "response", "generation")
"""Keys under which chains and graphs without messages have their answer."""

_CONTEXTS: Final = ("context", "source_documents", "documents", "docs")

_PROVIDERS: Final = {"google_genai": "google", "google_vertexai": "google", "azure_openai": "azure"}


def is_message(value: object) -> bool:
    """Whether a value is a message."""
    kind = get(value, "type")
    known = isinstance(kind, str) and kind.removesuffix("MessageChunk").lower() in ("ai", "human", "tool", "system")
    return known and get(value, "content") is not None and get(value, "role") is None


def is_state(value: object) -> bool:
    """Whether a value is the state of a graph, or what a chain that retrieves documents returns."""
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
    """Read a conversation: the answer is what follows the last message of the user.

    A human's message with a name is what one agent tells another, as supervisors of graphs have it.
    """
    transcript = Transcript()
    replies: list[Any] = []
    context: list[str] = []
    for message in messages:
        kind = _kind(message)
        if kind == "human" and get(message, "name") is None:
            transcript.restart()
            replies.clear()
            context.clear()
        elif kind == "ai":
            replies.append(message)
            content = text_content(get(message, "content"))
            transcript.say(
                ABSENT if content == "" and _calls(message) else content, _calls(message), name=_name(message)
            )
        elif kind == "tool":
            transcript.result(_output(message), text(get(message, "tool_call_id")), _name(message))
            context += _texts_of(get(message, "artifact"))
    spent = (_spent(reply) for reply in replies)
    return NativeAnswer(
        transcript.messages,
        spent=tuple(found for found in spent if found is not None),
        finish_reason=_finish_reason(replies[-1]) if replies else None,
        retrieved_context=tuple(context) or None,
        refusal=text(get(get(replies[-1], "additional_kwargs"), "refusal")) if replies else None,
    )


def read_output(value: object) -> NativeAnswer | None:
    """Read what a Runnable returned: also a text, a mapping or an object, which are answers as they are."""
    found = read(value)
    if found is not None:
        return found
    said = _said(value) if isinstance(value, Mapping) else ABSENT
    transcript = Transcript()
    transcript.say(plain(value if said is ABSENT else said))
    return NativeAnswer(transcript.messages, is_single_reply=True)


async def run(runnable: Any, question: Question, **arguments: Any) -> AgentOutput:
    """Invoke a graph, a chain or a model. Each call is a thread of its own for what graphs remember."""
    config = dict(arguments.pop("config", None) or {})
    config["configurable"] = {"thread_id": uuid.uuid4().hex, **(config.get("configurable") or {})}
    return AgentOutput(await runnable.ainvoke(_input(runnable, question), config=config, **arguments), read_output)


def _input(runnable: Any, question: Question) -> Any:
    """Return the input in the form that the Runnable's own schema asks for."""
    turns = [dict(turn) for turn in question.turns]
    schema = _input_schema(runnable)
    properties = schema.get("properties") or {}
    if "messages" in properties:
        return {"messages": turns}
    if schema.get("type") == "object" and properties:
        required = schema.get("required") or list(properties)
        if len(required) != 1:
            raise ProviderError(
                f"{type(runnable).__name__} takes {', '.join(map(repr, required))}: expected 'messages' or one key. "
                f"Name a function that invokes it instead",
                "config",
            )
        is_list = properties.get(required[0], {}).get("type") == "array"
        return {required[0]: turns if is_list else question.text}
    return turns if len(turns) > 1 else question.text


def _input_schema(runnable: Any) -> Mapping[str, Any]:
    """Return the JSON schema of the input; an empty one where there is none, as of functions without types."""
    try:
        schema: Any = runnable.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - other people's code: types that have no schema, older versions
        return {}
    target = str(schema.get("$ref", "")).rpartition("/")[2]
    return schema.get("$defs", {}).get(target, schema) if isinstance(schema, Mapping) else {}


def _read_state(state: Any) -> NativeAnswer:
    answer = read_messages(items(get(state, "messages")))
    said = _said(state) if not answer.messages else get(state, "structured_response")
    if said is not None and said is not ABSENT:
        transcript = Transcript()
        transcript.say(plain(said))
        answer = answer.replace(messages=answer.messages + transcript.messages)
    context = tuple(_documents(state)) or answer.retrieved_context
    waits = get(state, "__interrupt__")
    error = f"the graph was interrupted and waits for a person: {_interrupts(waits)}" if waits else None
    is_single = not items(get(state, "messages"))
    return answer.replace(retrieved_context=context, error=error, is_single_reply=is_single)


def _interrupts(waits: object) -> str:
    return ", ".join(str(plain(get(wait, "value")))[:200] for wait in items(waits))


def _said(state: Mapping[str, Any]) -> Any:
    """Return the answer of a state without messages; `ABSENT` where no key says that it is one."""
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


def _kind(message: object) -> str:
    return str(get(message, "type")).removesuffix("MessageChunk").lower()


def _name(message: object) -> str | None:
    return text(get(message, "name"))


def _calls(message: object) -> list[ToolCall]:
    """Return the calls, those whose arguments were no JSON too."""
    found = [*items(get(message, "tool_calls")), *items(get(message, "invalid_tool_calls"))]
    return [
        ToolCall(text(get(call, "name")) or "?", parsed(get(call, "args") or {}), id=text(get(call, "id")))
        for call in found
    ]


def _output(message: object) -> Json:
    content = get(message, "content")
    found = text_content(content)
    return plain(content) if found is ABSENT else parsed(found)


def _finish_reason(message: object) -> str | None:
    return text(get(get(message, "response_metadata"), "finish_reason", "stop_reason", "done_reason"))


def _spent(message: object) -> Spent | None:
    usage, metadata = get(message, "usage_metadata"), get(message, "response_metadata")
    cached = part_count(usage, "input_token_details", "cache_read")
    reasoning = part_count(usage, "output_token_details", "reasoning")
    found = tokens(get(usage, "input_tokens"), get(usage, "output_tokens"), cached, reasoning)
    if found is None:
        return None
    provider = text(get(metadata, "model_provider"))
    model = text(get(metadata, "model_name", "model"))
    return Spent(found, model, _PROVIDERS.get(provider or "", provider))
