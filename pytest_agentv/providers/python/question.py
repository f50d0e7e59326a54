"""What an agent of another package is asked, in the forms that packages take."""

from typing import Final, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.prompts.build import guidelines_section
from pytest_agentv.providers.base import ProviderRequest

Turn: TypeAlias = dict[str, str]
"""A message: its `role` (`system`, `user` or `assistant`) and its `content`."""

USER: Final = "user"


@record
class Question(Record):
    """The prompt of a case, as a text and as a conversation."""

    text: str
    """The whole prompt."""
    turns: tuple[Turn, ...]
    """The messages; where there is no conversation, that is the text."""


def build_question(request: ProviderRequest, *, as_messages: bool | None) -> Question:
    """Return what an agent is asked.

    Args:
        request: The call.
        as_messages: Whether it gets the conversation message by message; None: where the case has one.
    """
    text = prompt_text(request)
    is_conversation = request.prompt.chat_prompt is not None if as_messages is None else as_messages
    return Question(text, tuple(conversation(request)) if is_conversation else ({"role": USER, "content": text},))


def conversation(request: ProviderRequest) -> list[Turn]:
    """Return the messages of a request; the guidelines are a part of the first, that of the system."""
    prompt = request.prompt
    if prompt.chat_prompt is None:
        turns = [{"role": USER, "content": prompt.question}]
        rules = (request.system_prompt, guidelines_section(prompt.guidelines))
    else:
        turns = [{"role": message.role, "content": message.content} for message in prompt.chat_prompt]
        rules = (request.system_prompt, "")
    system = "\n\n".join(rule for rule in rules if rule)
    return [{"role": "system", "content": system}, *turns] if system else turns


def prompt_text(request: ProviderRequest) -> str:
    """Return the system prompt of a judge, the guidelines and the question, with blank lines between them."""
    parts = (request.system_prompt, request.prompt.guidelines, request.prompt.question)
    return "\n\n".join(part for part in parts if part)
