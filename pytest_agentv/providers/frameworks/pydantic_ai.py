"""Reads results of pydantic-ai, including streamed runs, and lists of its messages. Runs its agents."""

import inspect
import sys
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject
from pytest_agentv.model.messages import UNNAMED, TokenUsage, ToolCall
from pytest_agentv.providers.api.base import Billing, count
from pytest_agentv.providers.frameworks.answer import (
    AgentOutput,
    NativeAnswer,
    Spent,
    Transcript,
    get,
    items,
    parsed,
    plain,
    text,
    time_text,
    tokens,
)
from pytest_agentv.providers.python_calls import USER, Question, Turn, parts_of

_CALLS: Final = ("tool-call", "builtin-tool-call")
_RETURNS: Final = ("tool-return", "builtin-tool-return")
_REASONING: Final = ("reasoning_tokens", "thoughts_tokens", "thinking_tokens")
_PROVIDERS: Final = {"google-gla": "google", "google-vertex": "google", "google-cloud": "google"}


def is_message(value: object) -> bool:
    """Whether a value is a message of a history."""
    return get(value, "kind") in ("request", "response") and isinstance(get(value, "parts"), list | tuple)


def read(value: object) -> NativeAnswer | None:
    """Read the result of a run."""
    if is_message(value):
        return read_messages([value])
    new_messages = getattr(value, "new_messages", None)
    if not callable(new_messages):
        return None
    messages = new_messages()
    transcript = Transcript()
    for message in messages:
        _add(transcript, message)
    transcript.drop(text(getattr(value, "_output_tool_name", None)))
    transcript.end(getattr(value, "output", None))
    return _answer(transcript, messages).replace(**_run_usage(getattr(value, "usage", None)))


def read_messages(messages: Sequence[Any]) -> NativeAnswer:
    """Read a history. The answer follows the last question."""
    start = max((index for index, message in enumerate(messages) if _is_question(message)), default=0)
    transcript = Transcript()
    for message in messages[start:]:
        _add(transcript, message)
    return _answer(transcript, messages[start:])


def _is_question(message: object) -> bool:
    kinds = {get(part, "part_kind") for part in items(get(message, "parts"))}
    return "user-prompt" in kinds and not kinds & {*_RETURNS, "retry-prompt"}


def _add(transcript: Transcript, message: object) -> None:
    parts = items(get(message, "parts"))
    if get(message, "kind") == "response":
        timestamp = time_text(get(message, "timestamp"))
        texts = [get(part, "content") for part in parts if get(part, "part_kind") == "text"]
        said = "".join(found for found in texts if isinstance(found, str))
        calls = [_call(part, timestamp) for part in parts if get(part, "part_kind") in _CALLS]
        transcript.say(said if texts else ABSENT, calls, timestamp=timestamp)
    for part in parts:
        kind = get(part, "part_kind")
        tool = text(get(part, "tool_name"))
        if kind in _RETURNS or (kind == "retry-prompt" and tool):
            call_id = text(get(part, "tool_call_id"))
            transcript.result(plain(get(part, "content")), call_id, tool, ended=get(part, "timestamp"))


def _call(part: object, timestamp: str | None) -> ToolCall:
    given = parsed(get(part, "args"))
    return ToolCall(
        text(get(part, "tool_name")) or UNNAMED,
        {} if given in (None, "") else given,
        id=text(get(part, "tool_call_id")),
        timestamp=timestamp,
    )


def _answer(transcript: Transcript, messages: Sequence[Any]) -> NativeAnswer:
    responses = [message for message in messages if get(message, "kind") == "response"]
    found = [_spent(response) for response in responses]
    last = responses[-1] if responses else None
    details = get(last, "provider_details")
    return NativeAnswer(
        transcript.messages,
        spent=tuple(spent for spent in found if spent is not None),
        finish_reason=text(get(last, "finish_reason")) or text(get(details, "finish_reason")),
        error="the run was cut off before its end" if get(last, "state") == "interrupted" else None,
    )


def _spent(response: object) -> Spent | None:
    usage = get(response, "usage")
    found = _tokens(usage)
    if found is None:
        return None
    provider = text(get(response, "provider_name"))
    cost = get(usage, "cost")
    known = None if cost is None or callable(cost) else float(cost)
    is_unknown = bool(count(get(usage, "input_audio_tokens")) + count(get(usage, "output_audio_tokens")))
    billing = Billing(written=count(get(usage, "cache_write_tokens")), is_unknown=is_unknown)
    return Spent(found, text(get(response, "model_name")), _PROVIDERS.get(provider or "", provider), known, billing)


def _run_usage(usage: object) -> dict[str, Any]:
    if inspect.ismethod(usage):  # before version 2
        usage = usage()
    if count(get(usage, "unmeasured_requests")):
        return {"spent": ()}
    cost = get(usage, "cost")
    return {"usage": _tokens(usage), "cost_usd": None if cost is None or callable(cost) else float(cost)}


def _tokens(usage: object) -> TokenUsage | None:
    """Return the tokens; None if some replies did not report theirs, because the sum would be too low."""
    if count(get(usage, "unmeasured_requests")):
        return None
    details = get(usage, "details")
    reasoning = get(usage, "output_reasoning_tokens") or get(details, *_REASONING)
    read, written = get(usage, "input_tokens", "request_tokens"), get(usage, "output_tokens", "response_tokens")
    return tokens(read, written, get(usage, "cache_read_tokens") or get(details, "cached_tokens"), reasoning)


async def run(agent: Any, question: Question, **arguments: Any) -> Any:
    """Run an agent. The messages before the last question become its history."""
    *history, last = question.turns
    if last["role"] != USER:
        if question.has_files:
            raise ProviderError("the conversation ends without the user: it cannot hold pictures and PDFs", "config")
        return await agent.run(question.text, **arguments)
    asked = last["content"] if isinstance(last["content"], str) else _shown(last["content"])
    if not history:
        return await agent.run(asked, **arguments)
    return await agent.run(asked, message_history=_history(agent, history), **arguments)


def _history(agent: Any, turns: Sequence[Turn]) -> Any:
    """Return messages of pydantic-ai. Adds the agent's system prompts, which a run with a history leaves out."""
    own = [{"role": "system", "content": prompt} for prompt in items(getattr(agent, "_system_prompts", ()))]
    messages: list[Json] = []
    for turn in [*own, *turns]:
        kind, part = ("response", "text") if turn["role"] == "assistant" else ("request", f"{turn['role']}-prompt")
        if not messages or messages[-1]["kind"] != kind:
            messages.append({"kind": kind, "parts": []})
        content = turn["content"] if isinstance(turn["content"], str) else _shown(turn["content"])
        messages[-1]["parts"].append({"part_kind": part, "content": content})
    return sys.modules["pydantic_ai.messages"].ModelMessagesTypeAdapter.validate_python(messages)


def _shown(content: Sequence[JsonObject]) -> list[Any]:
    """Return texts, pictures and PDFs in the form of an agent's input."""
    binary = sys.modules["pydantic_ai.messages"].BinaryContent
    return [
        part if isinstance(part, str) else binary(data=part.content, media_type=part.media_type)
        for part in parts_of(content)
    ]


async def finish(result: Any) -> Any:
    """Read a streamed run to its end."""
    said = list(result.new_messages()) if result.is_complete else None
    output = result.get_output()
    return AgentOutput(_Streamed(result, await output if isinstance(output, Awaitable) else output, said), read)


class _Streamed:
    """A streamed run that has ended, in the shape of other results."""

    def __init__(self, result: Any, output: object, said: Sequence[Any] | None) -> None:
        self.output = output
        self.new_messages = result.new_messages if said is None else lambda: said
        self.usage = result.usage
        self._output_tool_name = get(getattr(result, "result", None), "_output_tool_name")
