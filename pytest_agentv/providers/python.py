"""The `python` provider: calls a function, so that an agent written in Python is evaluated without a shell."""

import asyncio
from pathlib import Path

from pytest_agentv.models.targets import PythonSettings
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.function import FunctionProvider
from pytest_agentv.providers.python_import import ImportedCallable, import_callable
from pytest_agentv.runtime.threads import run_in_thread


class PythonProvider:
    """Imports the function of a target, and calls it as `FunctionProvider` says."""

    mode: PromptMode = "lm"
    reads_environ = True

    def __init__(self, name: str, settings: PythonSettings) -> None:
        self._label = f"target '{name}': {settings.callable}"
        self._settings = settings
        self._lock = asyncio.Lock()
        self._imported: ImportedCallable | None = None
        self._provider: FunctionProvider | None = None

    async def check(self) -> None:
        """Import the function, so that a fault of it is found before the first case."""
        await self._load()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return await (await self._load()).invoke(request)

    async def close(self) -> None:
        """Nothing is held open."""

    async def _load(self) -> FunctionProvider:
        """Import once, in a thread: importing an agent's libraries may take seconds."""
        settings = self._settings
        async with self._lock:
            if self._imported is None or self._provider is None:
                self._imported = imported = await run_in_thread(
                    lambda: import_callable(settings.callable, Path(settings.cwd), self._label), "agentv-import"
                )
                self._provider = FunctionProvider(
                    self._label, imported.function, settings.arguments, settings.timeout_seconds
                )
        self._imported.check()
        return self._provider
