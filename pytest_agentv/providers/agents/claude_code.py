"""Claude Code: `claude -p --output-format stream-json --verbose`, the prompt on standard input.

Source: evaluation-2026-01, "Claude Code CLI provider"; decisions 28.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Final

from pytest_agentv.model.base import ABSENT, Json, JsonObject, mapping, text_or_none
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    agent_document,
    as_list,
    as_number,
    joined_text,
    result_output,
    shorten,
    status_kind,
    sum_tokens,
    system_prompt,
    with_outputs,
)
from pytest_agentv.providers.base import ProviderRequest

_DEFAULTS: Final = {
    "CLAUDE_CODE_MAX_RETRIES": "2",  # by default, it retries even a wrong key ten times, for minutes
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_NESTING_MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
"""Variables that tell the program that it runs inside another Claude Code."""
_OF_ONE_TURN: Final = "model_usage_since_last_result"
"""The key of what a turn spent, by model, in newer releases."""


class ClaudeCode(CodingAgent):
    """Anthropic's Claude Code."""

    kind = "claude-code"
    title = "Claude Code CLI"
    program = "claude"
    skipped_types = frozenset({"stream_event"})
    stand_ins: ClassVar = {"log_format": "AGENTV_CLAUDE_CODE_LOG_FORMAT"}

    def command(self, request: ProviderRequest) -> AgentCommand:
        arguments: list[str | Secret] = ["-p", "--output-format", "stream-json", "--verbose"]
        if self.model is not None:
            arguments += ["--model", self.model]
        # By default, the program keeps its own system prompt, which is part of the evaluation.
        is_own = request.system_prompt is not None or self.system_prompt is not None
        arguments += ["--system-prompt" if is_own else "--append-system-prompt", system_prompt(self, request)]
        for folder in dict.fromkeys(str(PurePath(path).parent) for path in request.file_paths):
            arguments += ["--add-dir", folder]  # otherwise it refuses to read outside of the working directory
        if request.session is not None:
            arguments += ["--resume", request.session]
        return AgentCommand(
            (*arguments, *self.args),
            agent_document(request),
            environment=dict.fromkeys(_NESTING_MARKS),
            defaults=_DEFAULTS,
        )

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        transcript = _Transcript()
        results: list[JsonObject] = []
        for event in events:
            match event.get("type"):
                case "assistant":
                    transcript.add_reply(event)
                case "user":
                    transcript.add_results(mapping(event.get("message")))
                case "result":
                    results.append(event)
        return _read_results(results, transcript)

    def summarize(self, event: JsonObject) -> str | None:
        kind = event.get("type")
        if kind == "result":
            cost, duration = as_number(event.get("total_cost_usd")), as_number(event.get("duration_ms"))
            denied = [str(mapping(denial).get("tool_name")) for denial in as_list(event.get("permission_denials"))]
            refusals = f", refused for lack of permission: {', '.join(denied)}" if denied else ""
            return f"result: {event.get('subtype')}, ${cost:.4f}, {duration:.0f}ms{refusals}"
        if kind not in ("assistant", "user"):
            return f"{kind}: {event['subtype']}" if "subtype" in event else str(kind)
        content = mapping(event.get("message")).get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
        return f"{kind}: " + "; ".join(filter(None, (_summarize_block(mapping(block)) for block in blocks)))


@dataclass(slots=True)
class _Transcript:
    """The messages so far. A reply comes as one event per block. All its blocks have the same id."""

    messages: list[Message] = field(default_factory=list)
    outputs: dict[str, Json] = field(default_factory=dict)
    """The output of tools, by the id of the call."""
    reply_id: Json = None
    """The id of the reply whose blocks are still coming."""

    def add_reply(self, event: JsonObject) -> None:
        message = mapping(event.get("message"))
        if message.get("model") == "<synthetic>":  # the program itself wrote it, such as the text of an error
            return
        text = joined_text(message.get("content"))
        calls = tuple(
            ToolCall(str(block.get("name")), block.get("input", ABSENT), id=text_or_none(block.get("id")))
            for block in map(mapping, as_list(message.get("content")))
            if block.get("type") == "tool_use"
        )
        if self.messages and self.reply_id is not None and self.reply_id == message.get("id"):
            last = self.messages[-1]
            whole = "\n".join(part for part in (text_or_none(last.content), text) if part is not None)
            content = last.content if text is None else whole
            self.messages[-1] = last.replace(content=content, tool_calls=last.tool_calls + calls)
        elif text is not None or calls:
            parent = text_or_none(event.get("parent_tool_use_id"))  # the call that started a sub-agent
            origin = None if parent is None else {"parent_tool_use_id": parent}
            self.messages.append(Message("assistant", ABSENT if text is None else text, calls, metadata=origin))
            self.reply_id = message.get("id")

    def add_results(self, message: JsonObject) -> None:
        self.reply_id = None
        for block in map(mapping, as_list(message.get("content"))):
            call_id = text_or_none(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and call_id is not None:
                self.outputs[call_id] = result_output(block.get("content"))


def _read_results(results: Sequence[JsonObject], transcript: _Transcript) -> AgentAnswer:
    """Read the results, one for each turn: a task that ends in the background starts another turn."""
    messages = with_outputs(transcript.messages, transcript.outputs)
    if not results:
        return AgentAnswer(messages)
    result = results[-1]
    # Each result has the time of its own turn, without the wait between turns: then our own clock counts.
    duration_ms = as_number(result.get("duration_ms")) if len(results) == 1 else 0
    token_usage, cost_usd = _spent(results)
    answer = AgentAnswer(
        messages,
        token_usage=token_usage,
        cost_usd=cost_usd or None,
        duration_ms=duration_ms or None,
        session=text_or_none(result.get("session_id")),
        is_complete=True,
    )
    text = text_or_none(result.get("result"))
    if result.get("is_error") or result.get("subtype") != "success":
        subtype = text_or_none(result.get("subtype")) or ""
        errors = [error for error in as_list(result.get("errors")) if isinstance(error, str)]
        reason = ": ".join(filter(None, (subtype, *errors))) or "it said that it failed"
        kind = status_kind(as_number(result.get("api_error_status")))
        if kind is None and subtype.startswith("error_max_"):  # the words of a limit hold a number like a status
            kind = "process"
        return answer.replace(failure=text or reason, failure_kind=kind)
    if text is not None and (not messages or messages[-1].content != text):
        return answer.replace(messages=(*messages, Message("assistant", text)))
    return answer


def _spent(results: Sequence[JsonObject]) -> tuple[TokenUsage | None, float]:
    """Return the tokens of all requests, those of sub-agents included, and their cost.

    Newer releases report what each turn spent, by model; their totals include earlier runs whose conversation goes on.
    In older ones, `modelUsage` is that of the whole run, and `usage` is that of one turn, without sub-agents.
    """
    turns = [result.get(_OF_ONE_TURN) for result in results]
    cost_usd = as_number(results[-1].get("total_cost_usd"))
    by_model = list(mapping(results[-1].get("modelUsage")).values())
    if all(isinstance(turn, dict) for turn in turns):
        by_model = [usage for turn in turns for usage in mapping(turn).values()]
        cost_usd = math.fsum(as_number(mapping(usage).get("costUSD")) for usage in by_model)
    if usages := list(filter(None, map(mapping, by_model))):
        names = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
        return sum_tokens(usages, *names), cost_usd
    usages = [usage for result in results if (usage := mapping(result.get("usage")))]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return sum_tokens(usages, *names) if usages else None, cost_usd


def _summarize_block(block: JsonObject) -> str | None:
    match block.get("type"):
        case "text":
            return shorten(str(block.get("text")))
        case "tool_use":
            return f"tool_use ({block.get('name')})"
        case "tool_result":
            return f"tool_result ({block.get('tool_use_id')})"
    return text_or_none(block.get("type"))
