"""The answer in another package's result: its values, facts and messages, and which file reads it."""

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from pytest_agentv.model.base import ABSENT, Json, Record, is_number, mapping
from pytest_agentv.model.messages import (
    UNNAMED,
    Message,
    TokenUsage,
    ToolCall,
    candidate_answer,
    incomplete_reason,
    kind_of,
)
from pytest_agentv.providers.api.base import Billing, count
from pytest_agentv.providers.api.base import parsed as parsed_text
from pytest_agentv.providers.api.prices import price
from pytest_agentv.providers.base import ProviderResponse

SIZE_LIMIT: Final = 64 * 2**20
"""The most characters of a return value."""

TOO_LARGE: Final = f"it has more than {SIZE_LIMIT // 2**20} million characters"

_DEEPEST: Final = 100
_TEXT_PARTS: Final = frozenset({"text", "output_text", "input_text"})


class TooLargeError(ValueError):
    """A return value is larger than `SIZE_LIMIT`."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE)


def get(value: object, *names: str) -> Any:
    """Return the first of some attributes, or keys of a mapping, that is not None; None if there is none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def items(value: object) -> Sequence[Any]:
    """Return a list or a tuple unchanged; empty for any other value."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object) -> str | None:
    """Return a text unchanged, the text of an enum member, and None for any other value."""
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, str) else None


def text_content(content: object) -> Json:
    """Return the text of a message's content, which may have parts; `ABSENT` if it has no text."""
    if isinstance(content, str):
        return str(content)
    texts: list[str] = []
    for part in items(content):
        if isinstance(part, str):
            texts.append(part)
        elif kind_of(part) in _TEXT_PARTS and isinstance(found := get(part, "text"), str):
            texts.append(found)
    return "".join(texts) if texts else ABSENT


def read_call(call: object) -> ToolCall:
    """Return a call in the words of any API. The input of a `custom` tool is a free text."""
    called = get(call, "function", "custom", "toolUse") or call
    arguments, free = get(called, "arguments", "args"), get(called, "input")
    given = plain(free) if arguments is None else parsed(arguments)
    name = text(get(called, "name", "toolName", "tool_name", "tool")) or UNNAMED
    call_id = text(get(call, "id", "toolCallId", "tool_call_id")) or text(get(called, "toolUseId"))
    return ToolCall(name, ABSENT if given is None else given, id=call_id)


def parsed(value: object) -> Json:
    """Return plain data. Parses a text that is JSON, because most APIs send the arguments of tools as text."""
    return parsed_text(value) if isinstance(value, str) else plain(value)


def output_of(value: object) -> Json:
    """Return the output of a tool, which may have parts. Without a type, they are data."""
    is_data = any(isinstance(part, Mapping) and "type" not in part for part in items(value))
    found = ABSENT if is_data else text_content(value)
    return plain(value) if found is ABSENT else parsed(found)


def time_text(value: object) -> str | None:
    """Return a time, a `datetime` or seconds since 1970, as ISO 8601 in UTC with milliseconds."""
    if is_number(value):
        value = datetime.fromtimestamp(value, UTC)
    if isinstance(value, datetime):
        in_utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text(value)


def plain(value: object) -> Json:
    """Return plain JSON data for any value. Raises `TooLargeError`."""
    return _Plain().of(value, 0)


class _Plain:
    def __init__(self) -> None:
        self._left = SIZE_LIMIT

    def of(self, value: object, depth: int) -> Json:
        self._left -= len(value) if isinstance(value, str | bytes) else 1
        if self._left < 0:
            raise TooLargeError
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth == _DEEPEST:
            return "…"
        return self._nested(value, depth + 1)

    def _nested(self, value: object, depth: int) -> Json:
        if isinstance(value, Mapping):
            return {str(key): self.of(item, depth) for key, item in value.items()}
        if isinstance(value, SimpleNamespace):
            return self.of(vars(value), depth)
        if isinstance(value, list | tuple | Set):
            return [self.of(item, depth) for item in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if field.repr]
            return {name: self.of(getattr(value, name, None), depth) for name in names}
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, bytes | bytearray):
            return f"<{len(value)} bytes>"
        dump = getattr(value, "model_dump", None)
        try:
            return self.of(dump(mode="json"), depth) if callable(dump) and not isinstance(value, type) else str(value)
        except TooLargeError:
            raise
        except Exception:  # noqa: BLE001 - code of others failed: only the type is known
            return f"<{type(value).__name__}>"


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """The tokens of one reply of a model."""

    usage: TokenUsage
    model: str | None = None
    """The model, as its API names it."""
    provider: str | None = None
    """The provider in the price tables; None: the price is unknown."""
    cost_usd: float | None = None
    """US dollars, if the reply reports them."""
    billing: Billing = field(default_factory=Billing)
    """Other facts that affect the price."""


@dataclass(frozen=True, slots=True)
class NativeAnswer(Record):
    """The facts in another package's result."""

    messages: tuple[Message, ...]
    """The messages of this answer, in order."""
    spent: tuple[Spent, ...] = ()
    """The tokens of the replies."""
    usage: TokenUsage | None = None
    """The tokens of the whole run, if there were more than those of the replies."""
    cost_usd: float | None = None
    """US dollars of the whole run, if it reports them."""
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    refusal: str | None = None
    """The words of a refusal in place of an answer."""
    error: str | None = None
    """Why there is no answer."""
    is_single_reply: bool = False
    """Whether it is one reply of a model. Tools may have been called before it."""


@dataclass(frozen=True, slots=True)
class AgentOutput:
    """The return value of an agent that the plugin ran."""

    value: Any
    read: Callable[[Any], NativeAnswer | None]
    """Reads the value."""


def build_response(answer: NativeAnswer) -> ProviderResponse:
    """Return the response. Looking up prices may import a table: call it in a thread."""
    usage = answer.usage or total([spent.usage for spent in answer.spent])
    price = _price_of(answer)
    has_calls = any(message.tool_calls for message in answer.messages)
    error = answer.error
    if error is None and answer.refusal and not candidate_answer(answer.messages).strip():
        error = f"the model refused: {answer.refusal}"
    if error is None and not answer.messages:
        why = "nothing was said after the last message of the user"
        if answer.is_single_reply:
            reason = incomplete_reason(answer.finish_reason) or "the model's reply is empty"
            why = f"{reason} (finish_reason={answer.finish_reason})"
        error = f"the result holds no answer: {why}"
    return ProviderResponse(
        output_messages=answer.messages,
        token_usage=usage,
        cost_usd=None if price is None else price.usd,
        cost_source=None if price is None else price.source,
        finish_reason=answer.finish_reason,
        retrieved_context=answer.retrieved_context,
        error=error,
        error_kind="crash" if error is None else "no_answer",
        is_text_only=answer.is_single_reply and not has_calls,
    )


@dataclass(frozen=True, slots=True)
class _Price:
    usd: float
    source: str | None
    """The price tables; None: the framework reported the cost."""


def _price_of(answer: NativeAnswer) -> _Price | None:
    """Return the US dollars; None if the price of a reply is unknown, or some replies are."""
    if answer.cost_usd is not None:
        return _Price(answer.cost_usd, None)
    if not answer.spent or answer.usage not in (None, total([spent.usage for spent in answer.spent])):
        return None
    costs: list[float] = []
    sources: set[str] = set()
    for spent in answer.spent:
        if spent.cost_usd is not None:
            costs.append(spent.cost_usd)
            continue
        if spent.model is None or spent.provider is None:
            return None
        found = price(spent.model, spent.provider, spent.usage, spent.billing)
        if found is None:
            return None
        costs.append(found.usd)
        sources.add(found.source)
    return _Price(sum(costs), ", ".join(sorted(sources)) or None)


def total(usages: Sequence[TokenUsage]) -> TokenUsage | None:
    """Return the sum of some tokens; None without any."""
    if not usages:
        return None
    return TokenUsage(
        sum(usage.input for usage in usages),
        sum(usage.output for usage in usages),
        sum(usage.cached or 0 for usage in usages) or None,
        sum(usage.reasoning or 0 for usage in usages) or None,
    )


def tokens(total_in: object, total_out: object, cached: object = 0, reasoning: object = 0) -> TokenUsage | None:
    """Return tokens; None if none are reported. `total_in` includes the cached ones, the record does not."""
    read, written = count(total_in), count(total_out)
    if not read and not written:
        return None
    return TokenUsage(max(0, read - count(cached)), written, count(cached) or None, count(reasoning) or None)


def part_count(value: object, *path: str) -> int:
    """Return a number of tokens in a nested part; 0 if there is none."""
    for name in path:
        value = get(value, name)
    return count(value)


def part_counts(value: object, part: str, prefix: str) -> Counter[str]:
    """Return the numbers of tokens in a part, by their names without a prefix; 0 for other names."""
    found = mapping(get(value, part))
    return Counter({name.removeprefix(prefix): count(number) for name, number in found.items()})


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


def _milliseconds(started: str | None, ended: object) -> float | None:
    """Return the time between two moments; None if one is unknown, or rounded to seconds by its API."""
    if started is None or not isinstance(ended, datetime) or ended.tzinfo is None:
        return None
    begin = datetime.fromisoformat(started)
    is_exact = begin.microsecond and begin.tzinfo is not None
    return round((ended - begin).total_seconds() * 1000) if is_exact and ended >= begin else None


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
            return answer and answer.replace(messages=tuple(map(self._timed, answer.messages)))

        return read_with_times

    def _timed(self, message: Message) -> Message:
        calls = []
        for call in message.tool_calls:
            found = self._found.get(call.id or "")
            calls.append(call if found is None else call.replace(timestamp=found[0], duration_ms=found[1]))
        return message.replace(tool_calls=tuple(calls))


_PACKAGES: Final = {
    "pydantic_ai": "pydantic_ai",
    "agents": "openai_agents",
    "langchain_core": "langchain",
    "langgraph": "langchain",
    "smolagents": "smolagents",
}
"""The file of each package, by the first part of the names of its modules."""

_OF_AGENTS: Final = {
    "pydantic_ai": "run_sync",
    "openai_agents": "handoffs",
    "langchain": "ainvoke",
    "smolagents": "memory",
}
"""An attribute that only the agents of a package have, by file."""

_OF_STREAMS: Final = {"pydantic_ai": "get_output", "openai_agents": "stream_events"}
"""An attribute of a streamed run, by file."""


@dataclass(frozen=True, slots=True)
class AgentRunner(Record):
    """Describes how to run an agent of another package."""

    run: Callable[..., Any]
    """Takes the agent, a `Question`, and the target's `arguments`."""
    is_serial: bool = False
    """Whether runs must follow one another, because the agent keeps the steps of its run."""


def runner_of(value: object) -> AgentRunner | None:
    """Return how to run an agent; None for any other value."""
    name = _file_name(value)
    if name is None or isinstance(value, type) or not hasattr(value, _OF_AGENTS[name]):
        return None
    return AgentRunner(_file(name).run, is_serial=name == "smolagents")


def finisher_of(value: object) -> Callable[[Any], Any] | None:
    """Return a function that reads a streamed run to its end; None for any other value."""
    name = _file_name(value)
    is_stream = name in _OF_STREAMS and hasattr(value, _OF_STREAMS[name])
    return _file(name).finish if name is not None and is_stream else None


def file_of(value: object) -> ModuleType | None:
    """Return the file that reads the results of a value's package; None for unknown packages."""
    name = _file_name(value)
    return None if name is None else _file(name)


def _file_name(value: object) -> str | None:
    """Return the file of the package of a value's class or of one of its base classes."""
    packages = (base.__module__.partition(".")[0] for base in type(value).__mro__)
    return next((_PACKAGES[package] for package in packages if package in _PACKAGES), None)


def _file(name: str) -> ModuleType:
    """Import a reader when it is needed."""
    return import_module(f"pytest_agentv.providers.frameworks.{name}")
