"""Joins the chunks of an answer: texts, or the parts that the APIs of models stream."""

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, Final

from pytest_agentv.providers.python.frameworks import anthropic, chat, google_genai, langchain, responses
from pytest_agentv.providers.python.frameworks.answer import NativeAnswer
from pytest_agentv.providers.python.frameworks.plain import get
from pytest_agentv.providers.python.streams import Chunks


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
    messages = list(_messages(chunks))
    return langchain.read_messages(messages).replace(is_single_reply=len(messages) == 1)


def _messages(chunks: Sequence[Any]) -> Iterator[Any]:
    """Yield messages, with their chunks joined. The chunks of a message have the same id."""
    for _, group in groupby(chunks, key=lambda chunk: (get(chunk, "type"), get(chunk, "id"))):
        members = list(group)
        is_partial = str(get(members[0], "type")).endswith("Chunk")
        yield from [reduce(operator.add, members)] if is_partial else members


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
