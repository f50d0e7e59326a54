"""Builds the prompt of a case: one flat text, or a conversation with role markers (agentv-formats 3)."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from pytest_agentv.errors import CaseError, locate
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import FilePart, InputMessage, Role
from pytest_agentv.models.text import trim
from pytest_agentv.prompts.prompt import ChatMessage, Prompt, PromptMode
from pytest_agentv.prompts.segments import (
    is_media,
    is_visible,
    joined,
    render_guidelines,
    render_parts,
    with_media,
)


def build_prompt(case: EvalCase, mode: PromptMode) -> Prompt:
    """Build the prompt of a case for a provider of the given mode.

    Raises `CaseError` for a picture or a PDF in a message of another role than the user's, in mode `lm`.
    """
    guidelines = render_guidelines(case.messages)
    if not needs_markers(case.messages):
        parts = _parts(case.messages, mode, "\n\n", trim)
        return Prompt(_flat_question(case.messages, mode), guidelines, parts=parts)
    if mode == "lm":
        _refuse_media_of_others(case)
    return Prompt(
        _marked_question(case.messages, mode),
        guidelines,
        _chat_prompt(case.messages, guidelines, mode),
    )


def needs_markers(messages: tuple[InputMessage, ...]) -> bool:
    """Whether the messages form a conversation, which needs markers for its speakers."""
    has_others = any(message.role in ("assistant", "tool") for message in messages)
    return has_others or (len(messages) > 1 and sum(map(is_visible, messages)) > 1)


def guidelines_section(guidelines: str) -> str:
    """Return the guidelines in the form of system messages; empty without guidelines."""
    return f"[[ ## Guidelines ## ]]\n\n{guidelines}" if guidelines else ""


def _flat_question(messages: tuple[InputMessage, ...], mode: PromptMode) -> str:
    texts = (text for message in messages for text in render_parts(message, mode, with_guidelines=False))
    return "\n\n".join(map(trim, texts))


def _parts(
    messages: Sequence[InputMessage], mode: PromptMode, glue: str, tidy: Callable[[str], str] = str
) -> tuple[str | FilePart, ...] | None:
    """Return the texts, pictures and PDFs of messages; None if the target gets only text."""
    if mode != "lm" or not any(is_media(part) for message in messages for part in message.parts):
        return None
    parts = (part for message in messages for part in with_media(message))
    return joined((tidy(part) if isinstance(part, str) else part for part in parts), glue)


def _refuse_media_of_others(case: EvalCase) -> None:
    """Raise `CaseError` for a picture or a PDF in a message of another role than the user's: no API accepts it."""
    for message in case.messages:
        file = next(filter(is_media, message.parts), None)
        if file is not None and message.role != "user":
            where = locate(Path(case.path), case.line)
            what = f"{file.path} is in a message of the role {message.role}"
            raise CaseError(f"{where}: {what}; models take pictures and PDFs in messages of the user only")


def _marked_question(messages: tuple[InputMessage, ...], mode: PromptMode) -> str:
    turns = (
        "\n".join([_marker(message.role), *render_parts(message, mode, with_guidelines=True)])
        for message in messages
        if is_visible(message)
    )
    return "\n\n".join(turns)


def _chat_prompt(messages: tuple[InputMessage, ...], guidelines: str, mode: PromptMode) -> tuple[ChatMessage, ...]:
    leading = tuple(takewhile(lambda message: message.role == "system", messages))
    rules = ["\n".join(render_parts(message, mode, with_guidelines=True)) for message in leading]
    system = "\n\n".join(filter(None, [guidelines_section(guidelines), *rules]))
    head = [ChatMessage("system", system)] if system else []
    turns = (_chat_message(message, mode) for message in messages[len(leading) :])
    return (*head, *(turn for turn in turns if turn is not None))


def _chat_message(message: InputMessage, mode: PromptMode) -> ChatMessage | None:
    """Turn late system messages and tool results without calls, which chat APIs reject, into marked assistant turns."""
    texts = render_parts(message, mode, with_guidelines=False)
    if message.role in ("tool", "system"):
        texts.insert(0, _marker(message.role))
    if not texts:
        return None
    if message.role != "user":
        return ChatMessage("assistant", "\n".join(texts))
    return ChatMessage("user", "\n".join(texts), _parts((message,), mode, "\n"))


def _marker(role: Role) -> str:
    return f"@[{role.capitalize()}]:"
