"""The API that a request speaks."""

from typing import Any, Protocol

from fake_llm import anthropic_wire, chat_wire, gemini_wire, responses_wire
from fake_llm.records import Answer


class Wire(Protocol):
    """How an API writes what the server says."""

    def tool_results(self, body: Any) -> list[Any]:
        """Return the results of tools in a request, in order."""
        ...

    def answer(self, answer: Answer) -> Any:
        """Return the body of an answer."""
        ...

    def stream(self, content: Any) -> bytes:
        """Return the server-sent events that an answer's body is told in."""
        ...

    def error(self, status: int, message: str) -> Any:
        """Return the body of a failure."""
        ...


def wire_of(path: str) -> Wire:
    if path.endswith("/messages"):
        return anthropic_wire
    if path.endswith("/responses"):
        return responses_wire
    return gemini_wire if "enerateContent" in path else chat_wire
