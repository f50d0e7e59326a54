"""A server on loopback that speaks the APIs of Azure, OpenAI, Anthropic and Gemini, streams, and fails on request.

    with FakeLlm() as server:
        url = server.script("c1", Reply("It is 4.", calls=(ToolCall("Bash", {"command": "expr 2 + 2"}),)))

Each script has a base URL of its own, so that one server plays the models of many targets at once, and of whole coding
agents: what it answers follows from the tool results that a request carries, not from what it was asked before.
"""

from fake_llm.records import Reply, Request, ToolCall
from fake_llm.server import FakeLlm

__all__ = ["FakeLlm", "Reply", "Request", "ToolCall"]
