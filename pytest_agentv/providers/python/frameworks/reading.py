"""Reads the return value of a function: a result of an agent, a reply of a model, or a list of messages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.providers.python.frameworks import anthropic, chat, google_genai, langchain, pydantic_ai, responses
from pytest_agentv.providers.python.frameworks.answer import NativeAnswer
from pytest_agentv.providers.python.frameworks.plain import get, items
from pytest_agentv.providers.python.frameworks.table import file_of


def read_native(value: object) -> NativeAnswer | None:
    """Read a result of a package, or of a model's API; None for an unknown shape."""
    framework = file_of(value)
    own: NativeAnswer | None = None if framework is None else framework.read(value)
    if own is not None:
        return own
    if isinstance(value, list | tuple):
        return _read_list(value)
    read = next((read for is_reply, read in _REPLIES if is_reply(value)), None)
    if read is not None:
        return read(value)
    if isinstance(value, Mapping) and not langchain.is_state(value) and "messages" in value:
        return _read_list(items(value["messages"]))
    if langchain.is_message(value) or langchain.is_state(value):
        return langchain.read(value)
    if get(value, "role") in ("assistant", "ai") and get(value, "content", "tool_calls", "toolCalls") is not None:
        answer = _read_list([value])
        return answer and answer.replace(is_single_reply=True)
    return None


def _read_list(values: Sequence[Any]) -> NativeAnswer | None:
    """Read a list of messages or of replies. The rarest shapes are tried first."""
    for is_it, read in _LISTS:
        if any(map(is_it, values)):
            return read(values)
    return None


def _read_replies(replies: Sequence[Any]) -> NativeAnswer | None:
    """Read all replies of one answer, and add up their tokens. The last reply tells how the answer ended."""
    answers = [answer for reply in replies if (answer := read_native(reply)) is not None]
    contexts = [found for answer in answers for found in answer.retrieved_context or ()]
    return answers[-1].replace(
        messages=tuple(message for answer in answers for message in answer.messages),
        spent=tuple(spent for answer in answers for spent in answer.spent),
        retrieved_context=tuple(contexts) or None,
        is_single_reply=False,
    )


def _is_reply(value: object) -> bool:
    return any(is_reply(value) for is_reply, _ in _REPLIES)


_REPLIES: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any], NativeAnswer]]]] = (
    (chat.is_reply, chat.read_reply),
    (responses.is_reply, responses.read_reply),
    (anthropic.is_reply, anthropic.read_reply),
    (google_genai.is_reply, google_genai.read_reply),
)

_LISTS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Sequence[Any]], NativeAnswer | None]]]] = (
    (langchain.is_message, langchain.read),
    (pydantic_ai.is_message, pydantic_ai.read_messages),
    (_is_reply, _read_replies),
    (google_genai.is_content, google_genai.read_contents),
    (responses.is_item, responses.read_items),
    (chat.is_message, chat.read_messages),
)
