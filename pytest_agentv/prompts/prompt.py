"""The prompt of a case: the texts that a provider gets."""

from typing import Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

PromptMode = Literal["agent", "lm"]
"""`agent`: the prompt references files, and the agent reads them. `lm`: the prompt embeds their texts."""


@record
class ChatMessage(Record):
    """One message for a model's chat API."""

    role: Literal["system", "user", "assistant"]
    """Who says it."""
    content: str
    """The text."""


@record
class Prompt(Record):
    """What a case asks."""

    question: str
    """Flat text, or text with `@[Role]:` markers for a conversation."""
    guidelines: str = ""
    """The guideline files' texts, each in its `<file>` element."""
    chat_prompt: tuple[ChatMessage, ...] | None = None
    """Only for a conversation."""
