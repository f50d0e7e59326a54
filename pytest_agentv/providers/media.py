"""Encodes pictures and PDFs of a prompt for APIs. No other module reads their bytes."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.messages import FilePart
from pytest_agentv.models.records import record
from pytest_agentv.prompts.prompt import ChatMessage


@record
class Encoded(Record):
    """A file in the form in which it is sent."""

    media_type: str
    name: str
    """The name of the file, without its folder."""
    data: str
    """The bytes as base64."""
    is_image: bool

    @property
    def url(self) -> str:
        """The file as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"


def encoded(file: FilePart) -> Encoded:
    """Return a file in the form in which it is sent. Raises `ProviderError` like `read_media`. Blocks."""
    content = b64encode(read_media(file)).decode("ascii")
    assert file.media is not None
    return Encoded(file.media.media_type, PurePath(file.path).name, content, file.media.is_image)


def read_media(file: FilePart) -> bytes:
    """Return the bytes of a picture or a PDF. Blocks.

    Raises `ProviderError` for a file of another type, and for one that changed during the run.
    """
    fault = "is a text" if file.media is None else file.media.fault
    if file.media is None or fault is not None:
        raise ProviderError(f"{file.path} cannot be sent to a model: it {fault}", "config")
    try:
        content = Path(file.resolved_path).read_bytes()
    except OSError as error:
        raise ProviderError(f"{file.path} cannot be read: {error.strerror or error}", "config") from None
    if sha256(content).hexdigest() != file.media.sha256:
        raise ProviderError(f"{file.path} was changed while the run was going on", "config")
    return content


def parts_of(message: ChatMessage) -> tuple[str | FilePart, ...]:
    """Return the texts, pictures and PDFs of a message, in order."""
    return (message.content,) if message.parts is None else message.parts


def chat_content(message: ChatMessage) -> Any:
    """Return the content of a message of OpenAI's chat completions: a text, or a list of parts."""
    if message.parts is None:
        return message.content
    return [_chat_part(part) for part in message.parts]


def _chat_part(part: str | FilePart) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    sent = encoded(part)
    if sent.is_image:
        return {"type": "image_url", "image_url": {"url": sent.url}}
    return {"type": "file", "file": {"filename": sent.name, "file_data": sent.url}}
