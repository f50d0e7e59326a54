"""Reads what agents and models of other packages return: results, replies, messages, chunks."""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, Final

from pytest_agentv.providers.frameworks import anthropic, chat, google_genai, langchain, pydantic_ai
from pytest_agentv.providers.frameworks import openai_agents as responses
from pytest_agentv.providers.frameworks.answer import NativeAnswer, file_of, get, items
from pytest_agentv.providers.python_calls import Chunks


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


_REPLIES: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any], NativeAnswer]]]] = (
    (chat.is_reply, chat.read_reply),
    (responses.is_reply, responses.read_reply),
    (anthropic.is_reply, anthropic.read_reply),
    (google_genai.is_reply, google_genai.read_reply),
)

_LISTS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Sequence[Any]], NativeAnswer | None]]]] = (
    (langchain.is_message, langchain.read),
    (pydantic_ai.is_message, pydantic_ai.read_messages),
    (lambda value: any(is_reply(value) for is_reply, _ in _REPLIES), _read_replies),
    (google_genai.is_content, google_genai.read_contents),
    (responses.is_item, responses.read_items),
    (chat.is_message, chat.read_messages),
)


def join(chunks: Chunks) -> Any:
    """Return the value of the joined chunks: a text, an answer, or another value that must be read."""
    if not chunks.parts:
        raise ValueError("it yields nothing")
    others = [part for part in chunks.parts if not isinstance(part, str)]
    if not others:
        return "".join(chunks.parts)
    for is_part, join_parts in _JOINS:
        if all(map(is_part, others)):
            return join_parts(others)
    if len(others) == 1 and others[0] is chunks.parts[-1]:  # the whole result comes after its texts
        return others[0]
    raise ValueError(f"it yields values of type {type(others[0]).__name__}, of which no answer can be made")


def is_cut(parts: Sequence[Any]) -> bool:
    """Whether the parts are those of a model's API, and the last one is missing."""
    return any(any(map(begins, parts)) and not any(map(ends, parts)) for begins, ends in _ENDS)


def _whole_text(chunks: Sequence[Any]) -> NativeAnswer:
    """Read messages, with their chunks joined. The chunks of a message have the same id."""
    messages: list[Any] = []
    for _, group in groupby(chunks, key=lambda chunk: (get(chunk, "type"), get(chunk, "id"))):
        members = list(group)
        is_partial = str(get(members[0], "type")).endswith("Chunk")
        messages += [reduce(operator.add, members)] if is_partial else members
    return langchain.read_messages(messages).replace(is_single_reply=len(messages) == 1)


_JOINS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Sequence[Any]], Any]]]] = (
    (chat.is_chunk, chat.join),
    (responses.is_event, responses.join),
    (anthropic.is_event, anthropic.join),
    (google_genai.is_chunk, google_genai.join),
    (langchain.is_message, _whole_text),
    (langchain.is_state, lambda states: states[-1]),
)

_ENDS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any], bool]]]] = (
    (chat.is_chunk, chat.is_last),
    (responses.is_first, responses.is_last),
    (anthropic.is_first, anthropic.is_last),
    (google_genai.is_reply, google_genai.is_last),
)
"""Tells the parts of a stream that has an end, and its end."""
