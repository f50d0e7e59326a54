"""pi: `pi --mode json --print --no-session`, the prompt on standard input.

Source: agentv-formats 5.5; decisions 30.
"""

from collections.abc import Sequence
from typing import Final

from pytest_agentv.model.base import ABSENT, JsonObject, mapping, text_or_none
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import Message, ToolCall
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    agent_prompt,
    as_list,
    as_number,
    joined_text,
    result_output,
    shorten,
    sum_tokens,
    with_outputs,
)
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.targets.fields import OptionalText, SecretText

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
    api_key: SecretText = spelled(
        *("api_key", "apiKey"), default=None, description="passed in the variable that pi reads for the provider"
    )
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
        transcript = [mapping(message) for message in as_list(ends[-1].get("messages"))] if ends else replies
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

    def summarize(self, event: JsonObject) -> str | None:
        kind = str(event.get("type"))
        match kind:
            case "message_end":
                message = mapping(event.get("message"))
                said = text_or_none(message.get("errorMessage")) or joined_text(message.get("content")) or ""
                return f"{kind}: {message.get('role')}: {shorten(said)}"
            case "tool_execution_start":
                return f"{kind}: {event.get('toolName')} ({event.get('toolCallId')})"
            case "tool_execution_end":
                return f"{kind}: {event.get('toolName')}" + (" failed" if event.get("isError") else "")
            case "auto_retry_start":
                return f"{kind}: attempt {event.get('attempt')}: {event.get('errorMessage')}"
            case "message_start" | "turn_start":
                return None
        return kind


def _read_message(message: JsonObject) -> Message:
    blocks = [mapping(block) for block in as_list(message.get("content"))]
    text = joined_text(message.get("content"))
    calls = tuple(
        ToolCall(str(block.get("name")), block.get("arguments", ABSENT), id=text_or_none(block.get("id")))
        for block in blocks
        if block.get("type") == "toolCall"
    )
    metadata = {key: message[key] for key in _METADATA if key in message}
    return Message("assistant", ABSENT if text is None else text, calls, metadata=metadata)
