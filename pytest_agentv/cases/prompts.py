"""The prompt of a case: one flat text, or a conversation with role markers (agentv-formats 3)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Final, Literal, TypeGuard

from pytest_agentv.errors import CaseError, locate
from pytest_agentv.model.base import JsonObject, Record, pretty_json, trim
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import (
    ContentPart,
    FilePart,
    InputMessage,
    Message,
    ObjectPart,
    TextPart,
    candidate_answer,
)

PromptMode = Literal["agent", "lm"]
"""`agent`: the prompt references files, and the agent reads them. `lm`: the prompt embeds their texts."""


@dataclass(frozen=True, slots=True)
class ChatMessage(Record):
    """One message for a model's chat API."""

    role: Literal["system", "user", "assistant"]
    """Who says it."""
    content: str
    """The text; pictures and PDFs are named in it."""
    parts: tuple[str | FilePart, ...] | None = None
    """The texts, pictures and PDFs in order; None: there is only text."""


@dataclass(frozen=True, slots=True)
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


# The parts of messages as text (agentv-formats 3.3, 3.4).


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


def asks_nothing(written: Iterable[JsonObject], messages: Iterable[InputMessage]) -> bool:
    """Whether only blanks are sent to the target, given the messages as written and with files read."""
    if any(message.get("tool_calls") for message in written):
        return False
    for part in (part for message in messages for part in message.parts):
        match part:
            case TextPart(value) if not value.strip():
                continue
            case FilePart() if part.media is None and not part.text.strip():
                continue
            case _:
                return False  # an item that is not sent has a warning of its own
    return True


# The prompt of these parts (agentv-formats 3).


def build_prompt(case: EvalCase, mode: PromptMode) -> Prompt:
    """Build the prompt of a case for a provider of the given mode.

    Raises `CaseError` for a picture or a PDF in a message of another role than the user's, in mode `lm`.
    """
    files = guideline_files(case.messages)  # every mode embeds them, labelled by their base names
    guidelines = "\n\n".join(filter(None, (embed_file(Path(file.resolved_path).name, file.text) for file in files)))
    has_others = any(message.role in ("assistant", "tool") for message in case.messages)
    if not has_others and sum(map(is_visible, case.messages)) <= 1:  # a conversation needs markers for its speakers
        parts = _parts(case.messages, mode, "\n\n", trim)
        texts = (text for message in case.messages for text in render_parts(message, mode, with_guidelines=False))
        return Prompt("\n\n".join(map(trim, texts)), guidelines, parts=parts)
    for message in case.messages if mode == "lm" else ():
        file = next(filter(is_media, message.parts), None)
        if file is not None and message.role != "user":
            where = locate(Path(case.path), case.line)
            what = f"{file.path} is in a message of the role {message.role}"
            raise CaseError(f"{where}: {what}; models take pictures and PDFs in messages of the user only")
    turns = (
        "\n".join([_marker(message.role), *render_parts(message, mode, with_guidelines=True)])
        for message in case.messages
        if is_visible(message)
    )
    return Prompt("\n\n".join(turns), guidelines, _chat_prompt(case.messages, guidelines, mode))


def spoken(messages: Iterable[Message]) -> str:
    """Return the texts of a conversation with markers for its speakers, as prompts show one."""
    texts = ((message.role, candidate_answer([message.replace(role="assistant")])) for message in messages)
    return "\n\n".join(f"{_marker(role)}\n{text}" for role, text in texts if text)


def _parts(
    messages: Sequence[InputMessage], mode: PromptMode, glue: str, tidy: Callable[[str], str] = str
) -> tuple[str | FilePart, ...] | None:
    """Return the texts, pictures and PDFs of messages; None if the target gets only text."""
    if mode != "lm" or not any(is_media(part) for message in messages for part in message.parts):
        return None
    found: list[str | FilePart] = []
    for message in messages:
        for part in message.parts:
            if is_media(part):
                found.append(part)
            elif not is_guideline(part) and (text := tidy(render_part(part, mode))):
                if found and isinstance(found[-1], str):  # consecutive texts are joined
                    found[-1] = f"{found[-1]}{glue}{text}"
                else:
                    found.append(text)
    return tuple(found)


def _marker(role: str) -> str:
    return f"@[{role.capitalize()}]:"


def _chat_prompt(messages: tuple[InputMessage, ...], guidelines: str, mode: PromptMode) -> tuple[ChatMessage, ...]:
    leading = tuple(takewhile(lambda message: message.role == "system", messages))
    rules = ["\n".join(render_parts(message, mode, with_guidelines=True)) for message in leading]
    system = "\n\n".join(filter(None, [guidelines_section(guidelines), *rules]))
    chat = [ChatMessage("system", system)] if system else []
    for message in messages[len(leading) :]:
        texts = render_parts(message, mode, with_guidelines=False)
        if message.role in ("tool", "system"):  # late ones, which chat APIs reject, become turns of the assistant
            texts.insert(0, _marker(message.role))
        if message.role == "user" and texts:
            chat.append(ChatMessage("user", "\n".join(texts), _parts((message,), mode, "\n")))
        elif texts:
            chat.append(ChatMessage("assistant", "\n".join(texts)))
    return tuple(chat)


def guidelines_section(guidelines: str) -> str:
    """Return the guidelines in the form of system messages; empty without guidelines."""
    return f"[[ ## Guidelines ## ]]\n\n{guidelines}" if guidelines else ""


# Templates with `{{ name }}` placeholders (agentv-formats 6.3).

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([a-zA-Z0-9_]+)\s*\}\}")


def render_template(template: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables in one pass, so that variables in their values stay. Unknown names stay unchanged."""
    return _PLACEHOLDER.sub(lambda match: variables.get(match[1], match[0]), template)


def template_variables(template: str) -> tuple[str, ...]:
    """Return the distinct names that a template uses, in the order of first use."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))


# The document for agents: links to the files to read first, then the query (agentv-formats 5.2).


def build_preread(
    question: str,
    guideline_paths: Sequence[str],
    input_paths: Sequence[str],
    *,
    input_word: Literal["input", "attachment"] = "input",
) -> str:
    """Build the document. Without files it is only the query.

    Args:
        question: The prompt's question.
        guideline_paths: Absolute paths; each is linked once.
        input_paths: Absolute paths of the other files; guidelines among them are not linked again.
        input_word: The agent's word for files that are not guidelines.
    """
    guidelines = tuple(dict.fromkeys(guideline_paths))
    inputs = tuple(path for path in dict.fromkeys(input_paths) if path not in guidelines)
    first: list[str] = []
    for heading, paths in (
        ("Read each of these guideline files:", guidelines),
        (f"Read each of these {input_word} files:", inputs),
    ):
        links = [f"* [{PurePath(path).name}]({file_uri(path)})" for path in paths]
        first += [heading, *links[:-1], f"{links[-1]}."] if links else []
    if first:
        first += [
            "Should one of them not be there, reply with `ERROR: missing-file <filename>` and do nothing else.",
            "Once you have read them, follow your system_instructions to answer the user query below.",
        ]
    return "\n\n".join(filter(None, ["\n".join(first), "[[ ## user_query ## ]]", trim(question)]))


def file_uri(path: str) -> str:
    """Return a readable `file://` link: without percent escapes, unlike `Path.as_uri`."""
    posix = PurePath(path).as_posix()
    return f"file://{posix}" if posix.startswith("/") else f"file:///{posix}"
