"""Collects the messages of an answer, and adds the results and times of tools to their calls."""

import time
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.providers.python.frameworks.answer import NativeAnswer
from pytest_agentv.providers.python.frameworks.plain import parsed, plain, time_text


class Transcript:
    """Messages in order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._open: list[tuple[int, int]] = []
        """The calls without a result, as positions of the message and of the call in it."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def restart(self) -> None:
        """Forget all messages: the user asks again, so they are no part of this answer."""
        self._messages.clear()
        self._open.clear()

    def say(
        self, content: Json, calls: Sequence[ToolCall] = (), *, name: str | None = None, timestamp: str | None = None
    ) -> None:
        """Add a message of the assistant, unless it has neither content nor calls."""
        if content == "" and calls:  # some APIs send an empty text with calls
            content = ABSENT
        if content is ABSENT and not calls:
            return
        position = len(self._messages)
        self._messages.append(Message("assistant", content, tuple(calls), name, timestamp))
        self._open += [(position, index) for index, call in enumerate(calls) if call.output is ABSENT]

    def result(self, output: Json, call_id: str | None, tool: str | None = None, ended: object = None) -> None:
        """Add the result of a call: the one with this id, else the first unfinished call of this tool."""
        place = self._place(call_id, tool)
        if place is None:
            return
        self._open.remove(place)
        message = self._messages[place[0]]
        call = message.tool_calls[place[1]]
        done = call.replace(output=output, duration_ms=call.duration_ms or _milliseconds(call.timestamp, ended))
        calls = (*message.tool_calls[: place[1]], done, *message.tool_calls[place[1] + 1 :])
        self._messages[place[0]] = message.replace(tool_calls=calls)

    def drop(self, tool: str | None) -> None:
        """Remove the calls of a tool that returns the answer: they are not steps."""
        if tool is None:
            return
        kept = [
            message.replace(tool_calls=tuple(call for call in message.tool_calls if call.tool != tool))
            for message in self._messages
        ]
        self._messages = [message for message in kept if message.tool_calls or message.content is not ABSENT]
        self._open.clear()

    def end(self, output: object) -> None:
        """Add the output of a run as its answer, unless the last message says the same, perhaps as JSON."""
        if output is None:
            return
        said = plain(output)
        last = self._messages[-1].content if self._messages else ABSENT
        if said not in (last, parsed(last)):
            self.say(said)

    def _place(self, call_id: str | None, tool: str | None) -> tuple[int, int] | None:
        for place in self._open:
            call = self._messages[place[0]].tool_calls[place[1]]
            if call.id == call_id if call_id and call.id else tool in (None, call.tool):
                return place
        return None


class ToolTimes:
    """The start times and durations of tool calls in one run, for packages whose results lack them.

    Callbacks of the run report them, from any thread.
    """

    def __init__(self) -> None:
        self._begun: dict[Hashable, tuple[str | None, float]] = {}
        self._found: dict[str, tuple[str | None, float]] = {}

    def begin(self, key: Hashable) -> None:
        """Note that a call started."""
        self._begun[key] = time_text(datetime.now(UTC)), time.perf_counter()

    def end(self, key: Hashable, call_id: object) -> None:
        """Note that a call ended; `call_id` is the id from the model."""
        begun = self._begun.pop(key, None)
        if begun is not None and isinstance(call_id, str):
            self._found[call_id] = begun[0], round((time.perf_counter() - begun[1]) * 1000)

    def around(self, read: Callable[[Any], NativeAnswer | None]) -> Callable[[Any], NativeAnswer | None]:
        """Return a reader of the run's result that adds the times."""

        def read_with_times(value: Any) -> NativeAnswer | None:
            answer = read(value)
            return answer and answer.replace(messages=tuple(map(self._timed_message, answer.messages)))

        return read_with_times

    def _timed_message(self, message: Message) -> Message:
        return message.replace(tool_calls=tuple(map(self._timed_call, message.tool_calls)))

    def _timed_call(self, call: ToolCall) -> ToolCall:
        found = self._found.get(call.id or "")
        return call if found is None else call.replace(timestamp=found[0], duration_ms=found[1])


def _milliseconds(started: str | None, ended: object) -> float | None:
    """Return the time between two moments; None if one is unknown, or rounded to seconds by its API."""
    if started is None or not isinstance(ended, datetime) or ended.tzinfo is None:
        return None
    begin = datetime.fromisoformat(started)
    is_exact = begin.microsecond and begin.tzinfo is not None
    return round((ended - begin).total_seconds() * 1000) if is_exact and ended >= begin else None
