"""Finds the package of an agent or a streamed run. The reader of a package is imported when it is needed."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

_ROOM: Final = "pytest_agentv.providers.python.frameworks"

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


@record
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
    return import_module(f"{_ROOM}.{name}")
