"""The question for an agent, in the forms that packages need."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.prompts.build import guidelines_section
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.media import chat_content

Turn: TypeAlias = dict[str, Any]
"""A message: its `role` (`system`, `user` or `assistant`) and its `content`: a text, or where there are pictures and
PDFs a list of parts, as OpenAI's chat completions have them."""

USER: Final[Literal["user"]] = "user"


@record
class Question(Record):
    """The prompt of a case, as a text and as a conversation."""

    text: str
    """The whole prompt."""
    turns: tuple[Turn, ...]
    """The messages. Without a conversation, this is the text."""

    @property
    def has_files(self) -> bool:
        """Whether a message holds a picture or a PDF."""
        return not all(isinstance(turn["content"], str) for turn in self.turns)


def build_question(request: ProviderRequest, *, as_messages: bool | None) -> Question:
    """Return the question for an agent. Reads pictures and PDFs: raises `ProviderError` for those that cannot be sent.

    Args:
        request: The call.
        as_messages: Whether to pass the conversation message by message; None: only if the case has one, or pictures or
            PDFs.
    """
    text, prompt = prompt_text(request), request.prompt
    is_conversation = prompt.chat_prompt is not None or bool(prompt.media) if as_messages is None else as_messages
    if not is_conversation:
        require_no_media(request, "the agent gets a text, which", "leave out `messages: false`")
        return Question(text, ({"role": USER, "content": text},))
    return Question(text, tuple(conversation(request)))


def require_no_media(request: ProviderRequest, who: str, way_out: str) -> None:
    """Raise `ProviderError` for pictures and PDFs, because the target gets only a text."""
    if request.prompt.media:
        names = ", ".join(file.path for file in request.prompt.media)
        raise ProviderError(f"{who} cannot hold {names} ({way_out})", "config")


def conversation(request: ProviderRequest) -> list[Turn]:
    """Return the messages of a request. The guidelines are a part of the first one, the system message.

    Reads pictures and PDFs: raises `ProviderError` for those that cannot be sent.
    """
    prompt = request.prompt
    messages, guidelines = prompt.chat_prompt, ""
    if messages is None:
        messages, guidelines = (
            (ChatMessage(USER, prompt.question, prompt.parts),),
            guidelines_section(prompt.guidelines),
        )
    turns: list[Turn] = [{"role": message.role, "content": chat_content(message)} for message in messages]
    rules = (request.system_prompt, guidelines)
    system = "\n\n".join(rule for rule in rules if rule)
    return [{"role": "system", "content": system}, *turns] if system else turns


def prompt_text(request: ProviderRequest) -> str:
    """Return the system prompt of a judge, the guidelines and the question, with blank lines between them."""
    parts = (request.system_prompt, request.prompt.guidelines, request.prompt.question)
    return "\n\n".join(part for part in parts if part)


@record
class SentFile(Record):
    """A picture or a PDF in the content of a turn."""

    media_type: str
    content: bytes
    url: str
    """A `data:` URL."""
    name: str | None = None
    """The file's name; None: it is a picture."""


def parts_of(content: Any) -> Iterator[str | SentFile]:
    """Yield the texts, pictures and PDFs of a turn's content."""
    if isinstance(content, str):
        yield content
        return
    for part in content:
        if part["type"] == "text":
            yield part["text"]
        else:
            file = part.get("file", {})
            url = file.get("file_data") or part["image_url"]["url"]
            head, _, data = url.partition(",")
            kind = head.removeprefix("data:").removesuffix(";base64")
            yield SentFile(kind, b64decode(data), url, file.get("filename"))
