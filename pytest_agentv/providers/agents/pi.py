"""pi: `pi --mode json --print --no-session`, the prompt on standard input.

Source: agentv-formats 5.5; decisions 30.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pytest_agentv.model.base import ABSENT, Json, JsonObject, mapping, text_or_none
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    Executable,
    agent_prompt,
    executable_key,
)
from pytest_agentv.providers.agents.output import as_list, as_number, joined_text, result_output, shorten, with_outputs
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.targets.fields import OptionalText, SecretText

_DEFAULT_LLM_PROVIDER: Final = "google"
_KEY_VARIABLES: Final = {
    "google": "GEMINI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
_LATEST_MS: Final = 253_402_300_799_000
"""The last second of a date, at the end of the year 9999."""
_METADATA: Final = ("api", "provider", "model", "usage", "stopReason")
_DONE: Final = "agent_end"
_FAILED: Final = frozenset({"error", "aborted"})
"""Reasons to stop without an answer. The program ends with exit code 0 even then."""


class Pi(CodingAgent):
    """The coding agent pi."""

    kind = "pi-coding-agent"
    title = "pi"
    skipped_types = frozenset({"message_update", "tool_execution_update"})

    executable: Executable = executable_key("pi")

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
        options = {
            "--provider": self.llm_provider,
            "--model": self.model,
            "--tools": self.tools,
            "--thinking": self.thinking,
        }
        variable = _KEY_VARIABLES.get(_llm_provider(self).lower())
        # In a variable, if there is one: all users of the machine see the arguments of a program.
        key: dict[str, str | Secret | None] = {}
        key_option: tuple[str | Secret, ...] = ()
        if self.api_key is not None and variable is not None:
            key[variable] = self.api_key
        elif self.api_key is not None:
            key_option = ("--api-key", self.api_key)
        given = (word for option, value in options.items() if value is not None for word in (option, value))
        arguments = (*given, *key_option, "--mode", "json", "--print", "--no-session", *self.args)
        return AgentCommand(arguments, agent_prompt(self, request), environment=key)

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        """Read the messages. Each retry of the program itself reports all of them again, and the last report counts."""
        ends = [event for event in events if event.get("type") == _DONE]
        replies = [mapping(event.get("message")) for event in events if event.get("type") == "message_end"]
        transcript = [mapping(message) for message in as_list(ends[-1].get("messages"))] if ends else replies
        messages = with_outputs(
            (_read_message(message) for message in transcript if message.get("role") == "assistant"),
            _outputs(transcript),
        )
        last = next((message for message in reversed(transcript) if message.get("role") == "assistant"), {})
        reason = text_or_none(last.get("stopReason"))
        is_failed = reason in _FAILED
        spent = _Spent()
        for reply in replies:
            spent.add(mapping(reply.get("usage")))
        return AgentAnswer(
            messages,
            token_usage=spent.usage,
            cost_usd=spent.cost_usd or None,  # it reports 0 for a model of unknown price
            finish_reason=reason,
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


def _llm_provider(settings: Pi) -> str:
    """Return the provider of the model: that of the target, or the one before the model's name."""
    before = (settings.model or "").rpartition("/")[0].partition("/")[0]
    return settings.llm_provider or before or _DEFAULT_LLM_PROVIDER


@dataclass(slots=True)
class _Spent:
    """Tokens and money of all replies, including failed ones."""

    total_in: float = 0
    total_out: float = 0
    cached: float = 0
    cost_usd: float = 0

    def add(self, usage: JsonObject) -> None:
        self.total_in += as_number(usage.get("input")) + as_number(usage.get("cacheWrite"))
        self.total_out += as_number(usage.get("output"))
        self.cached += as_number(usage.get("cacheRead"))
        self.cost_usd += as_number(mapping(usage.get("cost")).get("total"))

    @property
    def usage(self) -> TokenUsage | None:
        if not self.total_in and not self.total_out:
            return None
        return TokenUsage(self.total_in, self.total_out, self.cached or None)


def _read_message(message: JsonObject) -> Message:
    blocks = [mapping(block) for block in as_list(message.get("content"))]
    text = joined_text(message.get("content"))
    return Message(
        "assistant",
        ABSENT if text is None else text,
        tuple(_tool_call(block) for block in blocks if block.get("type") == "toolCall"),
        timestamp=_timestamp(message.get("timestamp")),
        metadata={key: message[key] for key in _METADATA if key in message},
    )


def _tool_call(block: JsonObject) -> ToolCall:
    return ToolCall(str(block.get("name")), block.get("arguments", ABSENT), id=text_or_none(block.get("id")))


def _outputs(transcript: Sequence[JsonObject]) -> dict[str, Json]:
    results = (message for message in transcript if message.get("role") == "toolResult")
    return {str(result.get("toolCallId")): result_output(result.get("content")) for result in results}


def _timestamp(milliseconds: Json) -> str | None:
    value = as_number(milliseconds)
    if not 0 < value < _LATEST_MS:
        return None
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
