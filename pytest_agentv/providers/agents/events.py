"""Reads the events of coding agents. Their shapes change with every release, so unexpected values are skipped."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import ABSENT, Json, is_number, mapping
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.messages import Message, ToolCall

_KINDS: Final[Mapping[int, ErrorKind]] = {401: "auth", 403: "auth", 429: "rate_limit"}
_STATUS: Final = re.compile(r"\b(401|403|429|50[0234]|529)\b")
_WORDS: Final[Mapping[ErrorKind, tuple[str, ...]]] = {
    "rate_limit": ("rate limit",),
    "auth": ("api key", "log in", "logged in", "login", "authenticat", "missing environment variable"),
    "network": (
        *("connect", "network", "high demand", "overloaded", "timed out"),
        *("econnre", "other side closed", "socket hang up", "und_err_"),  # in the words of Node.js
    ),
}
_NO_ANSWER: Final = ("content_filter", "incomplete response")
"""Words of a reply that the API itself cut. The text around them may be that of a connection that ended."""
_LONGEST_SUMMARY: Final = 50
"""Characters of a text in the summary log."""
_LARGEST_NUMBER: Final = 2**53
"""The largest integer that JavaScript programs count exactly."""


def as_list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def as_number(value: Json) -> float:
    """Return a number unchanged; 0 for any other value, for NaN, and for numbers too large to compute with."""
    return value if is_number(value) and abs(value) <= _LARGEST_NUMBER else 0


def joined_text(content: Json) -> str | None:
    """Return the text of a message's content, which is a text or a list of blocks; None if there is no text."""
    if isinstance(content, str):
        return content
    blocks = [mapping(block) for block in as_list(content)]
    texts = [text for block in blocks if block.get("type") == "text" and isinstance(text := block.get("text"), str)]
    return "\n".join(texts) if texts else None


def result_output(content: Json) -> Json:
    """Return the output of a tool: the text of its result, or the blocks if one of them is not a text."""
    blocks = as_list(content)
    if blocks and all(mapping(block).get("type") == "text" for block in blocks):
        return joined_text(content)
    return content


def with_outputs(messages: Iterable[Message], outputs: Mapping[str, Json]) -> tuple[Message, ...]:
    """Add the outputs of tools to the calls of messages, by the ids of the calls."""

    def complete(call: ToolCall) -> ToolCall:
        return call if call.id is None else call.replace(output=outputs.get(call.id, ABSENT))

    return tuple(
        message.replace(tool_calls=tuple(map(complete, message.tool_calls))) if message.tool_calls else message
        for message in messages
    )


def status_kind(status: float) -> ErrorKind | None:
    """Return the kind of failure of an HTTP status; None if the status does not tell."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "network"
    return _KINDS.get(int(status))


def guess_kind(text: str) -> ErrorKind:
    """Return the kind of failure that a program's text describes."""
    lowered = text.lower()
    if any(word in lowered for word in _NO_ANSWER):
        return "no_answer"
    status = _STATUS.search(lowered)
    known = status_kind(int(status[1])) if status else None
    if known is not None:
        return known
    for kind, words in _WORDS.items():
        if any(word in lowered for word in words):
            return kind
    return "process"


def shorten(text: str) -> str:
    """Return the beginning of a text for a log line.

    Masks secrets before it cuts, because half a secret is not recognized.
    """
    line = " ".join(masked(text).split())
    return line if len(line) <= _LONGEST_SUMMARY else f"{line[:_LONGEST_SUMMARY]}..."
