"""Shows the variables of a folder's `.env` to code that runs in this process and reads `os.environ`.

`os.environ` belongs to the whole process: threads, subprocesses and C libraries see it too. So calls that need
different variables never run at the same time. Calls that need the same variables do.
"""

import asyncio
import os
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.engine.answers import invoke_within_limit, timed
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse


@dataclass(slots=True)
class _Call:
    """A call that needs variables."""

    variables: Mapping[str, str]
    is_open: bool = True


_CALL: Final[ContextVar[_Call | None]] = ContextVar("agentv_variables_call", default=None)
"""The call that the running code belongs to."""


class ProcessVariables:
    """Gives calls with different variables turns on `os.environ`. Used on the event loop."""

    def __init__(self) -> None:
        self._current: Mapping[str, str] = {}
        self._calls = 0
        self._waiting: deque[tuple[Mapping[str, str], asyncio.Future[None]]] = deque()
        self._added: dict[str, str] = {}
        self._ever_added: defaultdict[str, set[str]] = defaultdict(set)

    def original(self) -> dict[str, str]:
        """Return the variables of the process, without those shown for a folder."""
        return {name: value for name, value in os.environ.items() if self._added.get(name) != value}

    @asynccontextmanager
    async def shown(self, variables: Mapping[str, str]) -> AsyncIterator[None]:
        """Wait for the turn of these variables, and show them. Variables that the process sets stay as they are.

        A nested call shares the turn of the outer call. Raises `ProviderError` if the outer call has other variables,
        because the two would wait for each other.
        """
        outer = _CALL.get()
        if outer is not None and outer.is_open:
            if outer.variables != variables:
                raise ProviderError("a target was asked from within a call of a folder that has another .env", "config")
            yield
            return
        await self._enter(variables)
        call = _Call(variables)
        token = _CALL.set(call)
        try:
            yield
        finally:
            call.is_open = False
            _CALL.reset(token)
            self._leave()

    def close(self) -> None:
        """Remove leftovers: a fixture may have restored a value that was shown when the fixture started."""
        self._hide()
        for name, values in self._ever_added.items():
            if os.environ.get(name) in values:
                del os.environ[name]

    async def _enter(self, variables: Mapping[str, str]) -> None:
        if not self._waiting and (self._calls == 0 or self._current == variables):
            self._admit(variables)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((variables, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn has just come
                self._leave()
            else:
                self._waiting.remove((variables, turn))
            raise

    def _leave(self) -> None:
        self._calls -= 1
        if self._calls:
            return
        self._hide()
        if self._waiting:
            variables = self._waiting[0][0]
            admitted = [turn for needed, turn in self._waiting if needed == variables]
            self._waiting = deque(each for each in self._waiting if each[0] != variables)
            for turn in admitted:
                self._admit(variables)
                turn.set_result(None)

    def _admit(self, variables: Mapping[str, str]) -> None:
        self._calls += 1
        if self._calls > 1:
            return
        self._current = variables
        for name, value in variables.items():
            if name not in os.environ:
                os.environ[name] = self._added[name] = value
                self._ever_added[name].add(value)

    def _hide(self) -> None:
        for name, value in self._added.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        self._added.clear()


class InProcessProvider:
    """Calls a provider while `os.environ` shows the variables of its folder. Masks those that a call sets."""

    keeps_limits = True  # The time limit of a call starts when its turn comes.

    def __init__(
        self, provider: Adapter, process: ProcessVariables, variables: Mapping[str, str], masker: Masker
    ) -> None:
        self.mode: PromptMode = provider.mode
        self._provider = provider
        self._process = process
        self._variables = variables
        self._masker = masker
        if isinstance(provider, BatchProvider):
            self._batch_provider = provider
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        async with self._shown():
            await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        async with self._shown():
            started = time.perf_counter()
            return timed(await invoke_within_limit(self._provider, request), started)

    async def close(self) -> None:
        await self._provider.close()

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        async with self._shown():
            return await self._batch_provider.invoke_batch(requests)

    @asynccontextmanager
    async def _shown(self) -> AsyncIterator[None]:
        try:
            async with self._process.shown(self._variables):
                yield
        finally:
            self._masker.look_again()
