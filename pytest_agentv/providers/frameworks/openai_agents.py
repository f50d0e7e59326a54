"""Reads OpenAI's responses and results of openai-agents, including streamed runs. Runs its agents."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import TokenUsage, ToolCall
from pytest_agentv.providers.api.base import Billing, is_count, terms_of
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
    part_count,
    plain,
    text,
    text_content,
    tokens,
)
from pytest_agentv.providers.python_calls import Question, parts_of

_INPUTS: Final = ("input", "action", "queries", "code", "operation")
"""Keys with the input of calls without `arguments`, by kind of tool. A text is free text, and is not parsed."""

_OUTPUTS: Final = ("output", "results", "outputs")

_NO_CALLS: Final = frozenset({"message", "reasoning", "compaction", "item_reference", "mcp_list_tools"})

_UNPRICED: Final = frozenset({"code_interpreter_call", "image_generation_call"})
"""Calls of tools that OpenAI is paid for beside the tokens, at prices that no table has."""


def is_reply(value: object) -> bool:
    """Whether a value is a response."""
    return get(value, "object") == "response" and isinstance(get(value, "output"), list)


def is_item(value: object) -> bool:
    """Whether a value is an item of this API, and of no other."""
    kind = get(value, "type")
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_call_output")))


def read_reply(reply: object) -> NativeAnswer:
    """Read a response."""
    answer = read_items(get(reply, "output"))
    reason = text(get(get(reply, "incomplete_details"), "reason")) or text(get(reply, "status"))
    failure = text(get(get(reply, "error"), "message"))
    spent = read_spent(reply, text(get(reply, "model")))
    return answer.replace(
        spent=(spent,) if spent else (),
        finish_reason=reason,
        error=f"the response has failed: {failure}" if failure else None,
        is_single_reply=True,
    )


def read_items(found: Sequence[Any]) -> NativeAnswer:
    """Read the items of a conversation. The answer follows the last message of the user."""
    transcript = Transcript()
    context: list[str] = []
    refusal = None
    for item in found:
        if get(item, "role") == "user":
            transcript.restart()
            context.clear()
            refusal = None
        else:
            read_item(transcript, item)
            context += retrieved(item)
            refusals = (get(part, "refusal") for part in items(get(item, "content")) if get(part, "type") == "refusal")
            refusal = next((words for words in refusals if isinstance(words, str)), refusal)
    return NativeAnswer(transcript.messages, retrieved_context=tuple(context) or None, refusal=refusal)


def read_item(transcript: Transcript, item: object, name: str | None = None) -> None:
    """Add the contents of an item; `name` is the name of its agent."""
    kind = text(get(item, "type")) or "message"
    if kind.endswith("_output"):
        transcript.result(output_of(get(item, "output")), text(get(item, "call_id", "id")))
    elif kind == "message":
        if get(item, "role") in ("assistant", None):
            transcript.say(text_content(get(item, "content")), name=name)
    elif kind not in _NO_CALLS:
        transcript.say(ABSENT, [_call(item, kind)], name=name)


def _call(item: object, kind: str) -> ToolCall:
    """Return a call. A function's call has a name, calls of the API's own tools are named after their kind."""
    arguments, output = get(item, "arguments"), get(item, *_OUTPUTS)
    given = plain(get(item, *_INPUTS)) if arguments is None else parsed(arguments)
    return ToolCall(
        text(get(item, "name")) or kind.removesuffix("_call"),
        ABSENT if given is None else given,
        ABSENT if output is None else output_of(output),
        text(get(item, "call_id", "id")),
    )


def retrieved(item: object) -> Iterator[str]:
    """Yield the texts that a file search found."""
    if get(item, "type") == "file_search_call":
        yield from (found for part in items(get(item, "results")) if (found := text(get(part, "text"))))


def read_spent(reply: object, model: str | None) -> Spent | None:
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
        written=part_count(reply, "usage", "input_tokens_details", "cache_write_tokens"),
        # pages that are opened meanwhile are free
        web_searches=sum(action not in ("open_page", "find_in_page") for action in actions),
        file_searches=kinds.count("file_search_call"),
        # a shell in a container of OpenAI is paid for by the minute
        is_unknown=not _UNPRICED.isdisjoint(kinds) or "container_reference" in places,
    )
    return Spent(usage, model, "openai", billing=billing)


def read_usage(usage: object) -> TokenUsage | None:
    """Return the tokens of a response; None if those of question or answer are missing: the price would be too low."""
    read, written = get(usage, "input_tokens"), get(usage, "output_tokens")
    if not (is_count(read) and is_count(written)):
        return None
    cached = part_count(usage, "input_tokens_details", "cached_tokens")
    reasoning = part_count(usage, "output_tokens_details", "reasoning_tokens")
    return tokens(read, written, cached, reasoning)


def is_event(value: object) -> bool:
    """Whether a value is an event of a streamed response."""
    return str(get(value, "type")).startswith("response.")


def is_first(value: object) -> bool:
    """Whether an event begins a response."""
    return str(get(value, "type")) == "response.created"


def is_last(value: object) -> bool:
    """Whether an event ends a response."""
    return get(value, "type") in ("response.completed", "response.incomplete", "response.failed", "response.done")


def join(events: Sequence[Any]) -> Any:
    """Return the streamed response. The last event holds all of it."""
    return next((found for event in reversed(events) if (found := get(event, "response")) is not None), None)


def read(value: object) -> NativeAnswer | None:
    """Read the result of a run."""
    if not isinstance(get(value, "new_items"), list) or not isinstance(get(value, "raw_responses"), list):
        return None
    transcript = Transcript()
    context: list[str] = []
    for item in get(value, "new_items"):
        raw = get(item, "raw_item")
        name = text(get(get(item, "agent"), "name"))
        if get(item, "type") == "tool_call_output_item" and (output := get(item, "output")) is not None:
            transcript.result(output_of(output), text(get(raw, "call_id", "id")))
        elif get(item, "type") not in ("mcp_approval_request_item", "tool_approval_item"):
            read_item(transcript, raw, name)
            context += retrieved(raw)
    transcript.end(get(value, "final_output"))
    spent = (read_spent(reply, None) for reply in get(value, "raw_responses"))  # results do not name the model
    waits = [text(get(item, "name")) or "a tool" for item in items(get(value, "interruptions"))]
    return NativeAnswer(
        transcript.messages,
        spent=tuple(found for found in spent if found is not None),
        retrieved_context=tuple(context) or None,
        error=f"the run waits for a person to approve {', '.join(waits)}" if waits else None,
    )


async def run(agent: Any, question: Question, **arguments: Any) -> Any:
    """Run an agent."""
    turns = question.turns
    is_text = len(turns) == 1 and isinstance(turns[0]["content"], str)
    asked = turns[0]["content"] if is_text else [{**turn, "content": _shown(turn["content"])} for turn in turns]
    times = ToolTimes()
    result = await sys.modules["agents"].Runner.run(agent, asked, **{"hooks": _clock(times), **arguments})
    return AgentOutput(result, times.around(read if "run_config" in arguments else _with_model))


def _with_model(value: object) -> NativeAnswer | None:
    """Read a run without a model override. If all its agents have the same model, that model gave the replies."""
    answer = read(value)
    models = {_model(get(item, "agent")) for item in items(get(value, "new_items"))}
    if answer is None or len(models) != 1:
        return answer
    return answer.replace(spent=tuple(spent.replace(model=model) for model in models for spent in answer.spent))


def _model(agent: object) -> str | None:
    model = get(agent, "model")
    default = getattr(sys.modules.get("agents.models.default_models"), "get_default_model", None)
    if model is None and default is not None:
        return text(default())
    return text(model) or text(get(model, "model"))


def _clock(times: ToolTimes) -> Any:
    """Return hooks that measure the times of tools."""
    base: Any = sys.modules["agents"].RunHooks

    class Clock(base):  # type: ignore[misc]
        async def on_tool_start(self, context: object, *_: object) -> None:
            times.begin(get(context, "tool_call_id"))

        async def on_tool_end(self, context: object, *_: object) -> None:
            call_id = get(context, "tool_call_id")
            times.end(call_id, call_id)

    return Clock()


def _shown(content: Any) -> Any:
    """Return the content of a turn in the form of the responses API."""
    if isinstance(content, str):
        return content
    shown: list[dict[str, Any]] = []
    for part in parts_of(content):
        if isinstance(part, str):
            shown.append({"type": "input_text", "text": part})
        elif part.name is None:
            shown.append({"type": "input_image", "image_url": part.url, "detail": "auto"})
        else:
            shown.append({"type": "input_file", "filename": part.name, "file_data": part.url})
    return shown


async def finish(result: Any) -> Any:
    """Read a streamed run to its end."""
    if result.is_complete:
        return result
    async for _ in result.stream_events():
        pass
    return result
