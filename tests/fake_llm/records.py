"""What a test tells the server to do, and what it hears of the requests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KEY_HEADERS = ("api-key", "x-api-key", "x-goog-api-key", "authorization")


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model wants to be called."""

    name: str
    arguments: Mapping[str, Any] | str
    """A text is the input of a free-form tool, which only the Responses API has."""
    said: str = ""
    """Text before the call, in the same answer."""
    namespace: str = ""
    """Of a tool of an MCP server, in the Responses API."""


@dataclass(frozen=True)
class Reply:
    """What the server does with one request; with `calls`, with all requests of one conversation."""

    text: str = "hello"
    status: int = 200
    message: str = "the server says no"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_compressed: bool = False
    delay_seconds: float = 0
    """Before each answer."""
    waits_for: int = 0
    """So many requests of the script are in flight together before any is answered."""
    fault: Literal["malformed", "empty", "cut", "cut_body", "hang"] | None = None
    """`cut` closes the connection instead of an answer, `cut_body` in the middle of one, `hang` never answers."""
    cached_tokens: int = 0
    """Of the 30 that each request is said to have."""
    content: Any = None
    """Replaces the whole body of an answer, where a stream is made of it, or of a failure."""
    calls: tuple[ToolCall, ...] = ()
    """Asked for before anything else, one per answer: a request that brings n tool results is answered with call n."""
    is_parallel: bool = False
    """All calls are asked for in one answer."""
    when: str = ""
    """Only conversations with this text in them get the reply."""

    def pending_calls(self, results: int) -> dict[str, ToolCall]:
        """Return the calls to ask for now, by their ids, when so many results have come."""
        until = len(self.calls) if self.is_parallel else results + 1
        return {f"call_{results + at}": call for at, call in enumerate(self.calls[results:until], start=1)}


@dataclass(frozen=True)
class Request:
    """What arrived."""

    script: str
    method: str
    path: str
    """Without the script's part."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any

    @property
    def api_key(self) -> str | None:
        return next((self.headers[name] for name in KEY_HEADERS if name in self.headers), None)

    @property
    def is_question(self) -> bool:
        """Whether it asks a model for an answer."""
        return self.method == "POST" and not self.path.endswith("/count_tokens")

    @property
    def wants_stream(self) -> bool:
        return ":streamGenerateContent" in self.path or self.body.get("stream") is True

    def holds(self, text: str) -> bool:
        return text in json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True)
class Answer:
    """What the model says in one turn."""

    model: str
    text: str
    """Empty where it only calls tools."""
    calls: Mapping[str, ToolCall]
    """By id."""
    cached_tokens: int
