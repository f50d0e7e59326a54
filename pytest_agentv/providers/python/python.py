"""The `python` provider: calls a function, so that an agent written in Python is evaluated without a shell."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import Flag, Seconds, filled_text
from pytest_agentv.models.kind import spelled
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.providers.python.function import FunctionProvider
from pytest_agentv.providers.python.importing import ImportedCallable, import_callable
from pytest_agentv.runtime.threads import run_in_thread


def _callable(value: object) -> str:
    text = filled_text(value)
    module, _, function = text.rpartition(":")
    if not module.strip() or not function.strip():
        raise ValueError(f"expected package.module:function or path/to/file.py:function, got {describe_value(value)}")
    return text


CallableName: TypeAlias = Annotated[str, BeforeValidator(_callable)]


class Python(Provider):
    """A function in the pytest process, sync or async, or an agent of a framework."""

    kind = "python"

    callable: CallableName = Field(description="package.module:function or path/to/file.py:function")
    messages: Flag | None = Field(
        default=None, description="whether it gets the conversation as a list of messages, not as one text"
    )
    arguments: dict[str, Any] = Field(default={}, description="further keyword arguments of every call")
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of one call"
    )

    def open(self, environment: TargetEnvironment) -> "PythonProvider":
        path = environment.target.path
        folder = Path.cwd() if path is None else Path(path).parent
        return PythonProvider(environment.name, self, folder, where=environment.where)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.callable)


class PythonProvider:
    """Imports the function of a target, and calls it like `FunctionProvider`."""

    mode: PromptMode = "lm"
    reads_environ = True

    def __init__(self, name: str, settings: Python, folder: Path, where: str | None = None) -> None:
        """Take a target. `where` names it in messages about its definition; None: its name does."""
        self._label = f"target '{name}': {settings.callable}"
        self._import_label = f"{where}: {settings.callable}" if where else self._label
        self._settings = settings
        self._folder = folder
        self._lock = asyncio.Lock()
        self._imported: ImportedCallable | None = None
        self._provider: FunctionProvider | None = None

    @property
    def keeps_limits(self) -> bool:
        """Whether calls wait for others first."""
        return self._provider is not None and self._provider.keeps_limits

    async def check(self) -> None:
        """Import the function, so that a fault shows before the first case."""
        await self._load()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return await (await self._load()).invoke(request)

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    async def _load(self) -> FunctionProvider:
        """Import once, in a thread, because importing an agent's libraries may take seconds."""
        settings = self._settings
        async with self._lock:
            if self._imported is None or self._provider is None:
                self._imported = imported = await run_in_thread(
                    lambda: import_callable(settings.callable, self._folder, self._import_label), "agentv-import"
                )
                self._provider = FunctionProvider(
                    self._label,
                    imported.function,
                    settings.arguments,
                    settings.timeout_seconds,
                    as_messages=settings.messages,
                )
        self._imported.check()
        return self._provider
