"""Codex: `codex exec --json`, the prompt on standard input.

Source: evaluation-2026-01, "Codex CLI provider"; agentv-formats 5.2; decisions 28.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from pytest_agentv.model.base import ABSENT, Json, JsonObject, mapping, text_or_none
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.providers.agents.agent import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    agent_prompt,
    as_number,
    shorten,
)
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.targets.fields import reveal

_OPTIONS: Final = ("--ask-for-approval", "never", "exec", "--json", "--color", "never", "--skip-git-repo-check")
_TEXTS: Final = frozenset({"agent_message", "reasoning", "error"})
"""Items that are not tool calls. One of type `error` is a warning: the turn goes on."""
_CALL_KEYS: Final = frozenset({"id", "type", "status", "aggregated_output", "exit_code", "result", "error"})
"""Keys of an item that are not the input of its tool."""
_CONTINUED: Final = frozenset({"resume", "fork"})
"""Commands of `codex exec` that go on with an earlier conversation."""


class Codex(CodingAgent):
    """OpenAI's Codex."""

    kind = "codex"
    title = "Codex CLI"
    program = "codex"
    adds_up_usage = True
    stand_ins: ClassVar = {"log_format": "AGENTV_CODEX_LOG_FORMAT"}

    def command(self, request: ProviderRequest) -> AgentCommand:
        model = () if self.model is None else ("--model", self.model)
        resumed = () if request.session is None else ("resume", request.session)
        return AgentCommand((*_OPTIONS, *model, *self.args, *resumed, "-"), agent_prompt(self, request))

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        messages: dict[str, Message] = {}  # each item is reported when it starts and again when it is done
        usage: JsonObject = {}
        is_complete, failure, session = False, None, None
        for event in events:
            match event.get("type"):
                case "thread.started":
                    session = text_or_none(event.get("thread_id"))
                case "item.started" | "item.updated" | "item.completed":
                    item = mapping(event.get("item"))
                    kind = text_or_none(item.get("type"))
                    place = text_or_none(item.get("id")) or f"#{len(messages)}"
                    if kind == "agent_message":
                        messages[place] = Message("assistant", text_or_none(item.get("text")) or "")
                    elif kind is not None and kind not in _TEXTS:
                        messages[place] = Message("assistant", tool_calls=(_tool_call(kind, item),))
                case "turn.completed":
                    is_complete, failure, usage = True, None, mapping(event.get("usage"))
                case "turn.failed":
                    is_complete = True
                    failure = text_or_none(mapping(event.get("error")).get("message")) or "the turn failed"
                case "error":  # possibly transient: only an error at the end without a result counts
                    failure = text_or_none(event.get("message")) or failure
        # Then the tokens include those of earlier calls, and codex does not tell them apart.
        is_continued = not _CONTINUED.isdisjoint(map(reveal, self.args))
        return AgentAnswer(
            tuple(messages.values()),
            token_usage=None if is_continued else _usage(usage),
            session=session,
            is_complete=is_complete,
            failure=failure,
        )

    def summarize(self, event: JsonObject) -> str | None:
        kind = str(event.get("type"))
        item = mapping(event.get("item"))
        if not item:
            said = text_or_none(mapping(event.get("error")).get("message")) or text_or_none(event.get("message"))
            return f"{kind}: {said}" if said else kind
        words = (text_or_none(item.get(key)) for key in ("text", "command", "tool", "message", "query"))
        said = next((word for word in words if word), "")
        code = item.get("exit_code")
        return f"{kind}: {item.get('type')} {shorten(said)}".rstrip() + (f" (exit code {code})" if code else "")


def _tool_call(kind: str, item: JsonObject) -> ToolCall:
    """Return the call of a tool. A server's tools are named after the server and the tool, others after the item."""
    call_id = text_or_none(item.get("id"))
    if kind == "mcp_tool_call":
        name = f"mcp__{item.get('server')}__{item.get('tool')}"
        result = item.get("result") if item.get("error") is None else item.get("error")
        return ToolCall(name, item.get("arguments", ABSENT), ABSENT if result is None else result, call_id)
    given = {key: value for key, value in item.items() if key not in _CALL_KEYS}
    output: Json = {"status": item["status"]} if "status" in item else ABSENT
    if "aggregated_output" in item:
        output = {"output": item["aggregated_output"], "exit_code": item.get("exit_code")}
    return ToolCall(kind, given, output, call_id)


def _usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens. Codex includes cached tokens in the input."""
    cached = as_number(usage.get("cached_input_tokens"))
    total_in = max(0, as_number(usage.get("input_tokens")) - cached)
    return TokenUsage(total_in, as_number(usage.get("output_tokens")), cached or None) if usage else None
