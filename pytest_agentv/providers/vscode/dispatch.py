"""Dispatches requests: writes them into a subagent's folder, starts a chat, and waits for the answers."""

import asyncio
from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import JsonObject
from pytest_agentv.prompts.preread import file_uri
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.vscode.messages import Answer, Exchange, name_files, write_requests
from pytest_agentv.providers.vscode.subagents import Claim
from pytest_agentv.providers.vscode.window import Window

_POLL_SECONDS: Final = 0.5
"""The time between two looks at the answers. An answer that is unchanged for so long is complete."""


class Dispatch:
    """Requests in flight, in a folder that we own."""

    def __init__(self, claim: Claim, requests: Sequence[ProviderRequest], *, is_batch: bool) -> None:
        self.is_sent = False
        self._claim = claim
        self._requests = requests
        self._posting = name_files(claim.messages, len(requests), is_batch=is_batch)
        self.answers = [Answer(exchange) for exchange in self._posting.exchanges]

    async def send(self, window: Window, workspace: str) -> None:
        """Write the requests and start the chat. Raises `ProviderError`, `SubagentTakenError`, `OSError`."""
        self._claim.prepare(workspace)
        write_requests(self._posting, self._requests, self._claim.lock_file)
        await window.open()
        self._claim.keep()  # by now, another program that took the folder at the same moment has shown itself
        await window.chat(self._attachments(), self._chat_text())
        self.is_sent = True

    async def collect(self) -> None:
        """Wait until all answers are complete. Raises `ProviderError`, `SubagentTakenError`, `OSError`."""
        while [answer for answer in self.answers if not answer.look()]:
            self._claim.keep()
            await asyncio.sleep(_POLL_SECONDS)

    def describe(self) -> list[JsonObject]:
        """Return the record of each request."""
        return [
            describe_exchange(self._claim.name, exchange, request, exit_code=0)
            for exchange, request in zip(self._posting.exchanges, self._requests, strict=True)
        ]

    def _attachments(self) -> list[str]:
        files = dict.fromkeys(path for request in self._requests for path in request.file_paths)
        entry = str(self._posting.entry_file)
        return [*files, entry] if self._posting.orchestrator_file is None else [entry, *files]

    def _chat_text(self) -> str:
        entry = self._posting.entry_file
        text = f"Follow instructions in [{entry.name}]({file_uri(str(entry))})"
        return text if self._posting.orchestrator_file is None else f"{text}. Use #runSubagent tool."


def describe_exchange(
    subagent: str, exchange: Exchange, request: ProviderRequest, *, exit_code: int | None = None
) -> JsonObject:
    """Return the record of a request: its folder and files, or those that a dry run would use."""
    session = {
        "exit_code": exit_code,
        "subagent_name": subagent,
        "response_file": str(exchange.response_file),
        "temp_file": str(exchange.temp_file),
    }
    return {
        "session": {key: value for key, value in session.items() if value is not None},
        "input_files": list(dict.fromkeys(request.file_paths)),
        "response_file": str(exchange.response_file),
    }
