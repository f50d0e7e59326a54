"""The programs of coding agents: Claude Code, Codex and pi.

Source: evaluation-2026-01, "Claude Code CLI provider" and "Codex CLI provider"; agentv-formats 5.2, 5.5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Final

from pydantic import Field

from pytest_agentv.model.base import ABSENT, Json, JsonObject, mapping, text_or_none
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    agent_document,
    agent_prompt,
    as_number,
    calls_among,
    guess_kind,
    joined_text,
    result_output,
    sum_tokens,
    system_prompt,
    with_outputs,
)
from pytest_agentv.providers.api.base import entries
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.kind import items
from pytest_agentv.targets.fields import OptionalText, SecretText, reveal

# `claude -p --output-format stream-json --verbose`, the prompt on standard input.

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
        for event in events:
            message = mapping(event.get("message"))
            match event.get("type"):
                case "assistant" if message.get("model") != "<synthetic>":  # which is of the program itself: an error
                    transcript.add_reply(message, text_or_none(event.get("parent_tool_use_id")))
                case "user":
                    transcript.add_results(message)
        return _read_results([event for event in events if event.get("type") == "result"], transcript)


@dataclass(slots=True)
class _Transcript:
    """The messages so far. A reply comes as one event per block. All its blocks have the same id."""

    messages: list[Message] = field(default_factory=list)
    outputs: dict[str, Json] = field(default_factory=dict)
    """The output of tools, by the id of the call."""
    reply_id: Json = None
    """The id of the reply whose blocks are still coming."""

    def add_reply(self, message: JsonObject, parent: str | None) -> None:
        """Add a reply; `parent` is the call that started the sub-agent that it is from."""
        text = joined_text(message.get("content"))
        calls = calls_among(message.get("content"), "tool_use", "input")
        if self.messages and self.reply_id is not None and self.reply_id == message.get("id"):
            last = self.messages[-1]
            whole = "\n".join(part for part in (text_or_none(last.content), text) if part is not None)
            content = last.content if text is None else whole
            self.messages[-1] = last.replace(content=content, tool_calls=last.tool_calls + calls)
        elif text is not None or calls:
            origin = None if parent is None else {"parent_tool_use_id": parent}
            self.messages.append(Message("assistant", ABSENT if text is None else text, calls, metadata=origin))
            self.reply_id = message.get("id")

    def add_results(self, message: JsonObject) -> None:
        self.reply_id = None
        for block in entries(message.get("content")):
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
        errors = [error for error in items(result.get("errors")) if isinstance(error, str)]
        reason = ": ".join(filter(None, (subtype, *errors))) or "it said that it failed"
        status = as_number(result.get("api_error_status"))
        kind = guess_kind(f"{status:g}") if status else None
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


# `codex exec --json`, the prompt on standard input.

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


# `pi --mode json --print --no-session`, the prompt on standard input.

_KEY_VARIABLES: Final = {
    "google": "GEMINI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
_METADATA: Final = ("api", "provider", "model", "usage", "stopReason")
_FAILED: Final = frozenset({"error", "aborted"})
"""Reasons to stop without an answer. The program ends with exit code 0 even then."""


class Pi(CodingAgent):
    """The coding agent pi."""

    kind = "pi-coding-agent"
    title = "pi"
    program = "pi"
    skipped_types = frozenset({"message_update", "tool_execution_update"})

    model: OptionalText = spelled("model", "pi_model", "piModel", default=None, description="passed on to pi")
    llm_provider: OptionalText = spelled(
        *("pi_provider", "piProvider", "llm_provider"), default=None, description="the provider of the model"
    )
    api_key: SecretText = Field(default=None, description="passed in the variable that pi reads for the provider")
    tools: OptionalText = spelled("tools", "pi_tools", "piTools", default=None, description="passed on to pi")
    thinking: OptionalText = spelled(
        "thinking", "pi_thinking", "piThinking", default=None, description="passed on to pi"
    )

    def command(self, request: ProviderRequest) -> AgentCommand:
        options: dict[str, str | Secret | None] = {
            "--provider": self.llm_provider,
            "--model": self.model,
            "--tools": self.tools,
            "--thinking": self.thinking,
        }
        before = (self.model or "").rpartition("/")[0].partition("/")[0]  # `openai` of `openai/gpt-4o`
        variable = _KEY_VARIABLES.get((self.llm_provider or before or "google").lower())
        # In a variable, if there is one: all users of the machine see the arguments of a program.
        key = {variable: self.api_key} if variable and self.api_key else {}
        if not key:
            options["--api-key"] = self.api_key
        given = (word for option, value in options.items() if value is not None for word in (option, value))
        session = [] if self.goes_on(request) else ["--no-session"]
        session = session if request.session is None else ["--session", request.session]
        arguments = (*given, "--mode", "json", "--print", *session, *self.args)
        return AgentCommand(arguments, agent_prompt(self, request), environment=key)

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        """Read the messages. Each retry of the program itself reports all of them again, and the last report counts."""
        ends = [event for event in events if event.get("type") == "agent_end"]
        replies = [mapping(event.get("message")) for event in events if event.get("type") == "message_end"]
        transcript = entries(ends[-1].get("messages")) if ends else replies
        results = (message for message in transcript if message.get("role") == "toolResult")
        outputs = {str(result.get("toolCallId")): result_output(result.get("content")) for result in results}
        said = (_read_message(message) for message in transcript if message.get("role") == "assistant")
        last = next((message for message in reversed(transcript) if message.get("role") == "assistant"), {})
        reason = text_or_none(last.get("stopReason"))
        is_failed = reason in _FAILED
        usages = [mapping(reply.get("usage")) for reply in replies]  # including failed replies
        spent = sum_tokens(usages, "input", "cacheWrite", "cacheRead", "output")
        cost_usd = sum(as_number(mapping(usage.get("cost")).get("total")) for usage in usages)
        return AgentAnswer(
            with_outputs(said, outputs),
            token_usage=spent if spent.input or spent.output else None,
            cost_usd=cost_usd or None,  # it reports 0 for a model of unknown price
            finish_reason=reason,
            session=next((text_or_none(each.get("id")) for each in events if each.get("type") == "session"), None),
            is_complete=bool(ends),
            failure=text_or_none(last.get("errorMessage")) or "the run was aborted" if is_failed else None,
        )


def _read_message(message: JsonObject) -> Message:
    text = joined_text(message.get("content"))
    calls = calls_among(message.get("content"), "toolCall", "arguments")
    metadata = {key: message[key] for key in _METADATA if key in message}
    return Message("assistant", ABSENT if text is None else text, calls, metadata=metadata)
