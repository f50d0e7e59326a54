"""The prompt of a case: the texts that a provider gets."""

from dataclasses import dataclass
from typing import Literal

from pytest_agentv.models.base import Record

PromptMode = Literal["agent", "lm"]
"""`agent`: the prompt references files, and the agent reads them. `lm`: the prompt embeds their texts."""


@dataclass(frozen=True, slots=True)
class ChatMessage(Record):
    """One message for a model's chat API."""

    role: Literal["system", "user", "assistant"]
    """Who says it."""
    content: str
    """The text."""


@dataclass(frozen=True, slots=True)
class Prompt(Record):
    """What a case asks."""

    question: str
    """Flat text, or text with `@[Role]:` markers for a conversation."""
    guidelines: str = ""
    """The guideline files' texts, each in its `<file>` element."""
    chat_prompt: tuple[ChatMessage, ...] | None = None
    """Only for a conversation."""
