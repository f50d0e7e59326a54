"""The prompt of a case: the texts that a provider gets."""

from typing import Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.messages import FilePart
from pytest_agentv.models.records import record

PromptMode = Literal["agent", "lm"]
"""`agent`: the prompt references files, and the agent reads them. `lm`: the prompt embeds their texts."""


@record
class ChatMessage(Record):
    """One message for a model's chat API."""

    role: Literal["system", "user", "assistant"]
    """Who says it."""
    content: str
    """The text; pictures and PDFs are named in it."""
    parts: tuple[str | FilePart, ...] | None = None
    """The texts, pictures and PDFs in order; None: there is only text."""


@record
class Prompt(Record):
    """What a case asks."""

    question: str
    """Flat text, or text with `@[Role]:` markers for a conversation."""
    guidelines: str = ""
    """The guideline files' texts, each in its `<file>` element."""
    chat_prompt: tuple[ChatMessage, ...] | None = None
    """Only for a conversation."""
    parts: tuple[str | FilePart, ...] | None = None
    """The texts, pictures and PDFs of the question in order, in mode `lm`; None: only text, or a conversation."""

    @property
    def media(self) -> tuple[FilePart, ...]:
        """The pictures and PDFs that a model is to see, in order."""
        found = [self.parts, *(message.parts for message in self.chat_prompt or ())]
        return tuple(part for parts in found for part in parts or () if isinstance(part, FilePart))

    def in_words(self) -> "Prompt":
        """Return the prompt with its pictures and PDFs only named, for records and hashes."""
        if not self.media:
            return self
        chat = self.chat_prompt and tuple(message.replace(parts=None) for message in self.chat_prompt)
        return self.replace(chat_prompt=chat, parts=None)
