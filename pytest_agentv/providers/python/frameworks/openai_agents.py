"""Reads results of openai-agents, including streamed runs. Runs its agents."""

import sys
from collections.abc import Iterator
from typing import Any

from pytest_agentv.providers.python.frameworks import responses
from pytest_agentv.providers.python.frameworks.answer import AgentOutput, NativeAnswer, Spent
from pytest_agentv.providers.python.frameworks.plain import get, items, output_of, text
from pytest_agentv.providers.python.frameworks.transcript import ToolTimes, Transcript
from pytest_agentv.providers.python.question import Question, SentFile, parts_of


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
            responses.read_item(transcript, raw, name)
            context += responses.retrieved(raw)
    transcript.end(get(value, "final_output"))
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
    is_text = len(turns) == 1 and isinstance(turns[0]["content"], str)
    asked = turns[0]["content"] if is_text else [{**turn, "content": _shown(turn["content"])} for turn in turns]
    times = ToolTimes()
    result = await sys.modules["agents"].Runner.run(agent, asked, **{"hooks": _clock(times), **arguments})
    return AgentOutput(result, times.around(read if "run_config" in arguments else _with_model))


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
    return content if isinstance(content, str) else [_part(part) for part in parts_of(content)]


def _part(part: str | SentFile) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.name is None:
        return {"type": "input_image", "image_url": part.url, "detail": "auto"}
    return {"type": "input_file", "filename": part.name, "file_data": part.url}


async def finish(result: Any) -> Any:
    """Read a streamed run to its end."""
    if result.is_complete:
        return result
    async for _ in result.stream_events():
        pass
    return result


def _spent(value: object) -> Iterator[Spent]:
    """Yield the tokens of each reply. Results do not name the model."""
    for reply in get(value, "raw_responses"):
        spent = responses.read_spent(reply, None)
        if spent is not None:
            yield spent


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
