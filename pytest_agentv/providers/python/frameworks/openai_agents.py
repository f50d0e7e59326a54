"""openai-agents: results of runs, streamed ones too, and agents."""

import sys
from typing import Any

from pytest_agentv.models.base import ABSENT
from pytest_agentv.providers.python.frameworks import responses
from pytest_agentv.providers.python.frameworks.answer import NativeAnswer
from pytest_agentv.providers.python.frameworks.plain import get, items, plain, text
from pytest_agentv.providers.python.frameworks.transcript import Transcript
from pytest_agentv.providers.python.question import Question


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
            transcript.result(responses.output_of(output), text(get(raw, "call_id", "id")))
        elif get(item, "type") not in ("mcp_approval_request_item", "tool_approval_item"):
            responses.read_item(transcript, raw, name)
            context += responses.retrieved(raw)
    _end(transcript, get(value, "final_output"))
    waits = [text(get(item, "name")) or "a tool" for item in items(get(value, "interruptions"))]
    return NativeAnswer(
        transcript.messages,
        spent=tuple(_spent(value)),
        retrieved_context=tuple(context) or None,
        error=f"the run waits for a person to approve {', '.join(waits)}" if waits else None,
    )


async def run(agent: Any, question: Question, **arguments: Any) -> Any:
    """Run an agent."""
    turns = question.turns
    asked = turns[0]["content"] if len(turns) == 1 else [dict(turn) for turn in turns]
    return await sys.modules["agents"].Runner.run(agent, asked, **arguments)


async def finish(result: Any) -> Any:
    """Read a streamed run to its end."""
    if result.is_complete:
        return result
    async for _ in result.stream_events():
        pass
    return result


def _end(transcript: Transcript, output: object) -> None:
    """Let the answer be the final output, which is structured where the agent has a type for it."""
    said = ABSENT if output is None else plain(output)
    messages = transcript.messages
    if said is not ABSENT and (not messages or messages[-1].content != said):
        transcript.say(said)


def _spent(value: object) -> Any:
    """Yield the tokens of each reply. The cost is known where all agents of the run name the same model."""
    models = {_model(get(item, "agent")) for item in get(value, "new_items")}
    model = models.pop() if len(models) == 1 else None
    for reply in get(value, "raw_responses"):
        spent = responses.read_usage(get(reply, "usage"), model)
        if spent is not None:
            yield spent


def _model(agent: object) -> str | None:
    model = get(agent, "model")
    return text(model) or text(get(model, "model"))
