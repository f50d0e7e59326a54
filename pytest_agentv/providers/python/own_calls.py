"""Tells a user's object that stands in for a target which call it answers, so that it can ask this target itself."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.prompts.prompt import Prompt, PromptMode
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse

_CALL: Final[ContextVar["OwnCall | None"]] = ContextVar("agentv_own_call", default=None)
"""The call that the running code belongs to. Threads and tasks that we start for it inherit it."""


class OwnCalls:
    """The calls of a user's object that are running. Used on the run's event loop, apart from `current`."""

    def __init__(self) -> None:
        self._running: set[OwnCall] = set()

    def of(self, provider: Adapter, eval_dir: Path, target: str) -> "OwnProvider":
        """Return an adapter that notes the calls of a user's object in place of a target."""
        return OwnProvider(provider, self, eval_dir, target)

    def current(self, eval_dir: Path, target: str) -> "OwnCall | None":
        """Return the call that the running code belongs to; None: it belongs to none. Any thread may call it.

        Threads that a user's code starts do not know their call. They belong to the only one that is running.
        If several are, it does not matter for first answers of one target. Raises `ProviderError` if it does.
        """
        call = _CALL.get()
        if call is not None and call.belongs_to(self):
            return call
        running = tuple(self._running)
        if len(running) > 1 and all(each.is_first(eval_dir, target) for each in running):
            return None
        if len(running) > 1:
            way_out = "start the thread with contextvars.copy_context().run"
            raise ProviderError(f"unknown which of {len(running)} answers a thread asks the target for: {way_out}")
        return running[0] if running else None

    @contextmanager
    def running(self, call: "OwnCall") -> Iterator[None]:
        token = _CALL.set(call)
        self._running.add(call)
        try:
            yield
        finally:
            self._running.discard(call)
            _CALL.reset(token)
            call.end()


class OwnCall:
    """A call of a user's object: the target that it stands in for, and the request. Used on the run's event loop."""

    def __init__(self, calls: OwnCalls, eval_dir: Path, target: str, request: ProviderRequest) -> None:
        self.eval_dir = eval_dir
        self.target = target
        self._calls = calls
        self._request = request
        self._asked: Counter[str] = Counter()
        self._asking: set[asyncio.Task[Any]] = set()
        self._has_ended = False

    def is_first(self, eval_dir: Path, target: str) -> bool:
        """Whether it is the first answer of its case, of this target."""
        request = self._request
        return (self.eval_dir, self.target) == (eval_dir, target) and not (request.answer or request.reruns)

    def belongs_to(self, calls: OwnCalls) -> bool:
        return self._calls is calls

    @contextmanager
    def asking(self, prompt: str) -> Iterator[ProviderRequest]:
        """Give the request that asks the target for a part of this answer. It is cancelled if the call ends first.

        Raises `ProviderError` after the call: a function that exceeded its limit runs on in its thread.
        """
        if self._has_ended:
            raise ProviderError("the target was asked for an answer that nobody waits for any more", "cancelled")
        task = asyncio.current_task()
        assert task is not None
        before = self._asked[prompt]
        self._asked[prompt] += 1
        self._asking.add(task)
        try:
            occurrence = (before,) if before else ()
            yield self._request.replace(
                prompt=Prompt(prompt), occurrence=occurrence, guideline_paths=(), input_paths=(), system_prompt=None
            )
        finally:
            self._asking.discard(task)

    def end(self) -> None:
        self._has_ended = True
        for task in self._asking:
            task.cancel()


class OwnProvider:
    """Calls a user's object, which may ask the target that it stands in for."""

    def __init__(self, provider: Adapter, calls: OwnCalls, eval_dir: Path, target: str) -> None:
        self.mode: PromptMode = provider.mode
        self.keeps_limits: bool = getattr(provider, "keeps_limits", False)
        self._provider = provider
        self._calls = calls
        self._eval_dir = eval_dir
        self._target = target

    async def check(self) -> None:
        await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        with self._calls.running(OwnCall(self._calls, self._eval_dir, self._target, request)):
            return await self._provider.invoke(request)

    async def close(self) -> None:
        await self._provider.close()
