"""Renders the parts of messages to text (agentv-formats 3.3, 3.4)."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import PurePath
from typing import TypeGuard

from pytest_agentv.models.messages import ContentPart, FilePart, InputMessage, ObjectPart, TextPart
from pytest_agentv.models.text import pretty_json, trim
from pytest_agentv.prompts.prompt import PromptMode


def render_part(part: ContentPart, mode: PromptMode) -> str:
    """Return a part as text; empty for a part that prompts do not show."""
    match part:
        case TextPart():
            return part.value if trim(part.value) else ""
        case FilePart(is_guideline=True):
            return attached(part)
        case FilePart():
            is_named = mode == "agent" or part.media is not None
            return f'<file: path="{part.path}">' if is_named else embed_file(part.path, part.text)
        case ObjectPart():
            return pretty_json(part.value)
        case _:
            return ""


def render_parts(message: InputMessage, mode: PromptMode, *, with_guidelines: bool) -> list[str]:
    """Return the non-empty parts, with or without references to guideline files."""
    parts = (part for part in message.parts if with_guidelines or not is_guideline(part))
    return [text for part in parts if (text := render_part(part, mode))]


def with_media(message: InputMessage) -> list[str | FilePart]:
    """Return the non-empty parts without guidelines, in the form for models: pictures and PDFs stay unchanged."""
    parts = (part for part in message.parts if not is_guideline(part))
    found = (part if is_media(part) else render_part(part, "lm") for part in parts)
    return [part for part in found if part]


def joined(parts: Iterable[str | FilePart], glue: str) -> tuple[str | FilePart, ...]:
    """Return parts with consecutive texts joined."""
    found: list[str | FilePart] = []
    for is_file, group in groupby(parts, key=lambda part: isinstance(part, FilePart)):
        members = list(group)
        found += members if is_file else [glue.join(part for part in members if isinstance(part, str))]
    return tuple(found)


def render_guidelines(messages: tuple[InputMessage, ...]) -> str:
    """Return the texts of all guideline files, labelled by their base names. Every mode embeds them."""
    texts = (embed_file(PurePath(file.resolved_path).name, file.text) for file in guideline_files(messages))
    return "\n\n".join(filter(None, texts))


def guideline_files(messages: Iterable[InputMessage]) -> Iterator[FilePart]:
    """Yield the guideline files of messages."""
    for message in messages:
        yield from (part for part in message.parts if isinstance(part, FilePart) and part.is_guideline)


def attached(file: FilePart) -> str:
    """Return how a conversation names a guideline file."""
    return f"<Attached: {file.value}>"


def embed_file(label: str, text: str) -> str:
    """Return a file's text in its `<file>` element; empty for a blank file."""
    content = trim(text)
    return f'<file path="{label}">\n{content}\n</file>' if content else ""


def is_guideline(part: ContentPart) -> bool:
    return isinstance(part, FilePart) and part.is_guideline


def is_media(part: ContentPart) -> TypeGuard[FilePart]:
    """Whether a part is a picture, a PDF or another binary file."""
    return isinstance(part, FilePart) and part.media is not None


def is_visible(message: InputMessage) -> bool:
    """Whether a message has content of its own. References to guidelines and blank files do not count."""
    return bool(render_parts(message, "lm", with_guidelines=False))
