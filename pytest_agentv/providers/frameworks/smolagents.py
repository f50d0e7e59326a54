"""Reads results of smolagents, and runs its agents."""

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import BytesIO
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import UNNAMED, TokenUsage, ToolCall
from pytest_agentv.providers.frameworks import chat
from pytest_agentv.providers.frameworks.answer import (
    AgentOutput,
    NativeAnswer,
    Transcript,
    get,
    items,
    parsed,
    plain,
    text,
    time_text,
    tokens,
    total,
)
from pytest_agentv.providers.python_calls import Question, SentFile, parts_of

_FINAL: Final = "final_answer"
"""The tool that an agent calls with its answer."""

_LOCKS: Final["WeakKeyDictionary[Any, Lock]"] = WeakKeyDictionary()


def read(value: object) -> NativeAnswer | None:
    """Read the result of a run (`return_full_result=True`)."""
    if not isinstance(get(value, "steps", "messages"), list):
        return None
    steps = get(value, "steps", "messages")
    start = max((index for index, step in enumerate(steps) if get(step, "task") is not None), default=0)
    transcript = Transcript()
    for step in steps[start:]:
        _add(transcript, step)
    transcript.end(get(value, "output"))
    raws = (get(get(step, "model_output_message"), "raw") for step in steps[start:])
    spent = tuple(found for raw in raws if chat.is_reply(raw) for found in chat.read_reply(raw).spent)
    usage = _usage(steps[start:]) or _tokens(get(value, "token_usage"))
    exact = total([each.usage for each in spent])
    is_whole = exact is not None and usage is not None and exact.total == usage.total
    return NativeAnswer(
        transcript.messages,
        spent=spent if is_whole else (),
        usage=None if is_whole else usage,
        finish_reason=text(get(value, "state")),
    )


def _add(transcript: Transcript, step: object) -> None:
    calls = [_call(call, step) for call in items(get(step, "tool_calls"))]
    steps = [call for call in calls if call.tool != _FINAL]
    if steps:
        transcript.say(text(get(step, "model_output")) or ABSENT, steps, timestamp=_began(step))
    error = get(get(step, "error"), "message")
    observed = get(step, "observations") if error is None else error
    if len(calls) == 1 and observed is not None:  # the outputs of several calls are one text
        transcript.result(plain(observed), calls[0].id)


def _call(call: object, step: object) -> ToolCall:
    """Return a call of a step. The code of a code agent is the input of `python_interpreter`."""
    function = get(call, "function") or call
    given = get(function, "arguments")
    name, call_id = text(get(function, "name")) or UNNAMED, text(get(call, "id"))
    return ToolCall(name, ABSENT if given is None else parsed(given), id=call_id, timestamp=_began(step))


def _began(step: object) -> str | None:
    return time_text(get(get(step, "timing"), "start_time") or get(step, "start_time"))


def _usage(steps: Sequence[Any]) -> TokenUsage | None:
    """Return the tokens of the steps; None if one of them does not report its own."""
    asked = [step for step in steps if get(step, "model_output", "tool_calls", "plan") is not None]
    found = [_tokens(get(step, "token_usage")) for step in asked]
    known = [usage for usage in found if usage is not None]
    return total(known) if len(known) == len(found) else None


def _tokens(usage: object) -> TokenUsage | None:
    return tokens(get(usage, "input_tokens", "input"), get(usage, "output_tokens", "output"))


def run(agent: Any, question: Question, **arguments: Any) -> AgentOutput:
    """Run an agent. Its runs must follow one another, because it keeps the steps of its run. Blocks."""
    if images := list(_images(question)):
        arguments = {"images": images, **arguments}
    with _LOCKS.setdefault(agent, Lock()):
        if "return_full_result" in inspect.signature(agent.run).parameters:
            result = agent.run(question.text, return_full_result=True, **arguments)
            told = {"output": get(result, "output"), "state": get(result, "state")}
        else:
            told = {"output": agent.run(question.text, **arguments), "token_usage": _monitored(agent)}
        return AgentOutput({**told, "steps": list(agent.memory.steps)}, read)


def _images(question: Question) -> Iterator[Any]:
    """Yield the pictures of a question as Pillow images, which smolagents needs."""
    for part in (part for turn in question.turns for part in parts_of(turn["content"])):
        if isinstance(part, SentFile):
            if part.name is not None:
                raise ProviderError(f"agents of smolagents take pictures, and {part.name} is a PDF", "config")
            yield import_module("PIL.Image").open(BytesIO(part.content))


def _monitored(agent: Any) -> Any:
    """Return the tokens of the last run, in the form of versions before 1.18."""
    counts = getattr(getattr(agent, "monitor", None), "get_total_token_counts", None)
    try:
        return counts() if callable(counts) else None
    except AttributeError:  # the model does not count tokens
        return None
