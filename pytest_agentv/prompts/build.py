"""Builds the prompt of a case: one flat text, or a conversation with role markers (agentv-formats 3)."""

from itertools import takewhile

from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import InputMessage, Role
from pytest_agentv.models.text import trim
from pytest_agentv.prompts.prompt import ChatMessage, Prompt, PromptMode
from pytest_agentv.prompts.segments import is_visible, render_guidelines, render_parts


def build_prompt(case: EvalCase, mode: PromptMode) -> Prompt:
    """Build the prompt of a case for a provider of the given mode."""
    guidelines = render_guidelines(case.messages)
    if not needs_markers(case.messages):
        return Prompt(_flat_question(case.messages, mode), guidelines)
    return Prompt(
        _marked_question(case.messages, mode),
        guidelines,
        _chat_prompt(case.messages, guidelines, mode),
    )


def needs_markers(messages: tuple[InputMessage, ...]) -> bool:
    """Whether the messages form a conversation, which needs markers for its speakers."""
    return any(message.role in ("assistant", "tool") for message in messages) or sum(map(is_visible, messages)) > 1


def guidelines_section(guidelines: str) -> str:
    """Return the guidelines in the form of system messages; empty without guidelines."""
    return f"[[ ## Guidelines ## ]]\n\n{guidelines}" if guidelines else ""


def _flat_question(messages: tuple[InputMessage, ...], mode: PromptMode) -> str:
    texts = (text for message in messages for text in render_parts(message, mode, with_guidelines=False))
    return "\n\n".join(map(trim, texts))


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
    return ChatMessage("user" if message.role == "user" else "assistant", "\n".join(texts))


def _marker(role: Role) -> str:
    return f"@[{role.capitalize()}]:"
