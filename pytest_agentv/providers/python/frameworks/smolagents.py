"""smolagents: results of runs, and agents."""

import inspect
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from pytest_agentv.models.base import ABSENT
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.python.frameworks.answer import AgentOutput, NativeAnswer, tokens, total
from pytest_agentv.providers.python.frameworks.plain import get, items, parsed, plain, text, time_text
from pytest_agentv.providers.python.frameworks.transcript import Transcript
from pytest_agentv.providers.python.question import Question

_FINAL: Final = "final_answer"
"""The tool by which an agent hands over its answer."""

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
    transcript.drop(_FINAL)
    output = get(value, "output")
    if output is not None:
        transcript.say(plain(output))
    return NativeAnswer(
        transcript.messages,
        usage=_usage(steps[start:]) or _tokens(get(value, "token_usage")),
        finish_reason=text(get(value, "state")),
    )


def run(agent: Any, question: Question, **arguments: Any) -> Any:
    """Run an agent. An agent keeps the steps of its run, so its runs follow one another. Blocks."""
    with _LOCKS.setdefault(agent, Lock()):
        if "return_full_result" in inspect.signature(agent.run).parameters:
            return agent.run(question.text, return_full_result=True, **arguments)
        output = agent.run(question.text, **arguments)
        steps = [step.dict() if hasattr(step, "dict") else step for step in agent.memory.steps]
        return AgentOutput({"output": output, "steps": steps, "token_usage": _monitored(agent)}, read)


def _add(transcript: Transcript, step: object) -> None:
    calls = list(_calls(step))
    error = get(step, "error")
    said = text(get(step, "model_output"))
    transcript.say(said if said and calls else ABSENT, calls, timestamp=_began(step))
    observed = get(step, "observations")
    if len(calls) == 1 and (observed is not None or error is not None):  # those of several calls are one text
        transcript.result(plain(observed if error is None else get(error, "message")), calls[0].id)


def _calls(step: object) -> Iterator[ToolCall]:
    """Yield the calls of a step; its code is what an agent of code gives to `python_interpreter`."""
    for call in items(get(step, "tool_calls")):
        function = get(call, "function") or call
        given = get(function, "arguments")
        name, call_id = text(get(function, "name")) or "?", text(get(call, "id"))
        yield ToolCall(name, ABSENT if given is None else parsed(given), id=call_id, timestamp=_began(step))


def _began(step: object) -> str | None:
    return time_text(get(get(step, "timing"), "start_time") or get(step, "start_time"))


def _usage(steps: Sequence[Any]) -> TokenUsage | None:
    """Return the tokens of the steps; None where one of them does not tell its own."""
    asked = [step for step in steps if get(step, "model_output", "tool_calls", "plan") is not None]
    found = [_tokens(get(step, "token_usage")) for step in asked]
    known = [usage for usage in found if usage is not None]
    return total(known) if len(known) == len(found) else None


def _tokens(usage: object) -> TokenUsage | None:
    return tokens(get(usage, "input_tokens", "input"), get(usage, "output_tokens", "output"))


def _monitored(agent: Any) -> Any:
    """Return the tokens of the last run, as versions before 1.18 count them."""
    counts = getattr(getattr(agent, "monitor", None), "get_total_token_counts", None)
    try:
        return counts() if callable(counts) else None
    except AttributeError:  # a model that does not count
        return None
