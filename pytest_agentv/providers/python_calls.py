"""Calls user code: on which loop or thread, with which question, and which call it answers."""

import asyncio
import inspect
import time
from asyncio import timeout as time_limit
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pytest_agentv.cases.prompts import ChatMessage, Prompt, PromptMode, guidelines_section
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import Record, format_number
from pytest_agentv.providers.api.base import chat_content
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, TargetAdapter
from pytest_agentv.runtime.user_code import (
    USER_LOOP,
    CallTimeoutError,
    Outcome,
    attempt_in_thread,
    leaves,
    user_traceback,
)

SIZE_LIMIT: Final = 64 * 2**20

TOO_LARGE: Final = f"it has more than {SIZE_LIMIT // 2**20} million characters"

Function: TypeAlias = Callable[..., Any]
T = TypeVar("T")


async def call_user(
    function: Function,
    arguments: Sequence[object],
    keywords: Mapping[str, Any],
    *,
    label: str,
    limit: float | None,
) -> object:
    """Call a user's function, an async one on the loop for user code. Reads generators to their end."""
    if _is_async(function) or _is_async(type(function).__call__):
        return await call_async(lambda: _finished(function(*arguments, **keywords)), label, limit)
    started = time.monotonic()
    try:
        async with time_limit(limit):
            outcome = await attempt_in_thread(lambda: _gathered(function(*arguments, **keywords)), "agentv-python")
    except TimeoutError as error:
        note = "; a sync function cannot be stopped: its thread runs on until it returns"
        raise _timeout_error(label, limit, note) from error
    value: object = _value_of(outcome, label)
    if not (isinstance(value, Awaitable | AsyncIterator) or is_streamed_run(value)):
        return value
    rest = None if limit is None else max(0, limit - (time.monotonic() - started))
    return await call_async(lambda: _finished(value), label, rest, whole_limit=limit)


async def call_async(
    start: Callable[[], Awaitable[T]], label: str, limit: float | None, *, whole_limit: float | None = None
) -> T:
    """Await a user's coroutine on the loop for user code. Raises `ProviderError` for any exception."""
    try:
        outcome = await USER_LOOP.call(start, limit)
    except CallTimeoutError as error:
        note = "; the event loop of async functions is blocked: call nothing that blocks in them, or use `def`"
        raise _timeout_error(
            label, limit if whole_limit is None else whole_limit, note if error.is_blocked else ""
        ) from None
    return _value_of(outcome, label)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_streamed_run(value: object) -> bool:
    """Whether a value is a run of openai-agents that may go on."""
    return package_of(value) == "agents" and hasattr(value, "stream_events")


async def _finished(value: Any) -> object:
    """Await a value, and read a stream to its end. Raises `ValueError` if it is too large."""
    while isinstance(value, Awaitable):
        value = await value
    if is_streamed_run(value):
        async for _ in value.stream_events():
            pass
    elif isinstance(value, AsyncIterator):
        budget = _Budget()
        return Chunks([budget.take(part) async for part in value])
    return _gathered(value)


def _gathered(value: object) -> object:
    """Read a generator to its end. Blocks. Raises `ValueError`, `ProviderError`."""
    if not isinstance(value, Iterator):
        return value
    budget, parts, chunks = _Budget(), list[Any](), iter(value)
    while True:
        try:
            part = next(chunks)
        except StopIteration as end:
            if end.value is not None:
                message = f"the generator ends with `return` and a {type(end.value).__name__}: yield it, or it is lost"
                raise ProviderError(message, "config") from None
            return Chunks(parts)
        parts.append(budget.take(part))


def _value_of(outcome: Outcome[T], label: str) -> T:
    error = outcome.error
    if error is None:
        return outcome.get()
    causes = leaves(error)
    if len(causes) == 1 and isinstance(causes[0], ProviderError):
        raise causes[0]  # the function may raise the error kind itself
    is_timeout = all(isinstance(cause, TimeoutError) for cause in causes)
    raise ProviderError(f"{label} raised {user_traceback(error)}", "timeout" if is_timeout else "crash") from error


def _timeout_error(label: str, limit: float | None, note: str) -> ProviderError:
    return ProviderError(f"{label} timed out after {format_number(limit or 0)}s{note}", "timeout")


class Chunks(tuple[Any, ...]):
    """All values of a generator, in order."""

    __slots__ = ()


class _Budget:
    """Ends an endless generator before memory ends."""

    def __init__(self) -> None:
        self._left = SIZE_LIMIT

    def take(self, part: Any) -> Any:
        self._left -= 1 + len(part) if isinstance(part, str) else 100
        if self._left < 0:
            raise ValueError(TOO_LARGE)
        return part


# The question for an agent, in the forms that packages need.

Turn: TypeAlias = dict[str, Any]
"""A message: its `role` (`system`, `user` or `assistant`) and its `content`: a text, or where there are pictures and
PDFs a list of parts, as OpenAI's chat completions have them."""

USER: Final[Literal["user"]] = "user"


@dataclass(frozen=True, slots=True)
class PythonPrompt(Record):
    """The prompt of a case, as a text and as a conversation."""

    text: str
    turns: tuple[Turn, ...]
    """The messages. Without a conversation, this is the text."""

    @property
    def has_files(self) -> bool:
        """Whether a message holds a picture or a PDF."""
        return not all(isinstance(turn["content"], str) for turn in self.turns)


def build_question(request: ProviderRequest, *, as_messages: bool | None) -> PythonPrompt:
    """Return the question for an agent. `as_messages`: None takes messages if the case has several, or pictures."""
    text, prompt = prompt_text(request), request.prompt
    is_conversation = prompt.chat_prompt is not None or bool(prompt.media) if as_messages is None else as_messages
    if not is_conversation:
        require_no_media(request, "the agent gets a text, which", "leave out `messages: false`")
        return PythonPrompt(text, ({"role": USER, "content": text},))
    return PythonPrompt(text, tuple(conversation(request)))


def require_no_media(request: ProviderRequest, who: str, way_out: str) -> None:
    """Raise `ProviderError` for pictures and PDFs, because the target gets only a text."""
    if request.prompt.media:
        names = ", ".join(file.path for file in request.prompt.media)
        raise ProviderError(f"{who} cannot hold {names} ({way_out})", "config")


def conversation(request: ProviderRequest) -> list[Turn]:
    """Return the messages of a request, guidelines in the system message. Reads pictures: raises `ProviderError`."""
    prompt = request.prompt
    messages = prompt.chat_prompt or (ChatMessage(USER, prompt.question, prompt.parts),)
    guidelines = guidelines_section(prompt.guidelines) if prompt.chat_prompt is None else ""
    turns: list[Turn] = [{"role": message.role, "content": chat_content(message)} for message in messages]
    system = "\n\n".join(filter(None, (request.system_prompt, guidelines)))
    return [{"role": "system", "content": system}, *turns] if system else turns


def prompt_text(request: ProviderRequest) -> str:
    """Return the system prompt of a judge, the guidelines and the question, with blank lines between them."""
    return "\n\n".join(filter(None, (request.system_prompt, request.prompt.guidelines, request.prompt.question)))


# Agents of frameworks, told by their package and an attribute that only its agents have.

_AGENTS: Final = {
    "pydantic_ai": "run_sync",
    "agents": "handoffs",
    "langchain_core": "ainvoke",
    "langgraph": "ainvoke",
}


def package_of(value: object) -> str | None:
    """Return the framework of a value's class or of one of its base classes; None for any other value."""
    packages = (base.__module__.partition(".")[0] for base in type(value).__mro__)
    return next((package for package in packages if package in _AGENTS), None)


def runner_of(value: object) -> Function | None:
    """Return what runs an agent, with a `Question` and the target's `arguments`; None for any other value."""
    package = package_of(value)
    if package is None or isinstance(value, type) or not hasattr(value, _AGENTS[package]):
        return None
    from pytest_agentv.providers.frameworks import RUNNERS  # noqa: PLC0415 - imports the readers of all packages

    return RUNNERS[package]


# Tells a user's object that stands in for a target which call it answers, so that it can ask this target itself.

_CALL: Final[ContextVar["OwnCall | None"]] = ContextVar("agentv_own_call", default=None)
"""The call that the running code belongs to. Threads and tasks that we start for it inherit it."""


class OwnCalls:
    """The calls of a user's object that are running. Used on the run's event loop, apart from `current`."""

    def __init__(self) -> None:
        self.running: set[OwnCall] = set()

    def current(self, eval_dir: Path, target: str) -> "OwnCall | None":
        """Return the call that the running code belongs to; None: it belongs to none. Any thread may call it.

        Threads that a user's code starts do not know their call. They belong to the only one that is running.
        If several are, it does not matter for first answers of one target. Raises `ProviderError` if it does.
        """
        call = _CALL.get()
        if call is not None and call.calls is self:
            return call
        running = tuple(self.running)
        if len(running) > 1 and all(each.first_of == (eval_dir, target) for each in running):
            return None
        if len(running) > 1:
            way_out = "start the thread with contextvars.copy_context().run"
            raise ProviderError(f"unknown which of {len(running)} answers a thread asks the target for: {way_out}")
        return running[0] if running else None


class OwnCall:
    """A call of a user's object: the target that it stands in for, and the request. Used on the run's event loop."""

    def __init__(self, calls: OwnCalls, eval_dir: Path, target: str, request: ProviderRequest) -> None:
        self.eval_dir = eval_dir
        self.target = target
        self.calls = calls
        self._request = request
        self._asked: Counter[str] = Counter()
        self._asking: set[asyncio.Task[Any]] = set()
        self._has_ended = False
        self.first_of = None if request.answer or request.reruns else (eval_dir, target)
        """The target, if it is the first answer of its case."""

    @contextmanager
    def asking(self, prompt: str) -> Iterator[ProviderRequest]:
        """Give the request that asks the target for a part of this answer. Raises `ProviderError` after the call."""
        if self._has_ended:
            raise ProviderError("the target was asked for an answer that nobody waits for any more", "cancelled")
        task = asyncio.current_task()
        assert task is not None
        before = self._asked[prompt]
        self._asked[prompt] += 1
        self._asking.add(task)
        own = {"guideline_paths": (), "input_paths": (), "system_prompt": None, "schema": None}
        try:
            yield self._request.replace(prompt=Prompt(prompt), occurrence=(before,) if before else (), **own)
        finally:
            self._asking.discard(task)

    def end(self) -> None:
        self._has_ended = True
        for task in self._asking:
            task.cancel()


class OwnProvider(TargetAdapter):
    """Calls a user's object, which may ask the target that it stands in for."""

    def __init__(self, provider: Adapter, calls: OwnCalls, eval_dir: Path, target: str) -> None:
        self.mode: PromptMode = provider.mode
        self.keeps_limits: bool = getattr(provider, "keeps_limits", False)
        self._provider = provider
        self._calls = calls
        self._eval_dir = eval_dir
        self._target = target

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        call = OwnCall(self._calls, self._eval_dir, self._target, request)
        token = _CALL.set(call)
        self._calls.running.add(call)
        try:
            return await self._provider.invoke(request)
        finally:
            self._calls.running.discard(call)
            _CALL.reset(token)
            call.end()
