"""Finds and calls the program of a coding agent, and describes what its events report."""

import shutil
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.base import Record
from pytest_agentv.models.masking.secrets import Secret
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.traces import TokenUsage


@record
class AgentCommand(Record):
    """How to call a program."""

    arguments: tuple[str | Secret, ...]
    stdin: str
    environment: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """Variables to set; None: remove the variable."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables to set only if they are not set."""


@record
class AgentAnswer(Record):
    """The facts that the events of a program report."""

    messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API; None: not reported."""
    is_complete: bool = False
    """Whether the program reported that it was done.

    A killed program may end with exit code 0, but without that report.
    """
    failure: str | None = None
    """Why there is no answer, in the program's words."""
    failure_kind: ErrorKind | None = None
    """None: guess it from these words."""


def find_program(executable: str, search_path: str | None, place: str) -> tuple[str, ...]:
    """Return the absolute path of a program, and the other words of `executable`.

    The path is absolute because the program starts in another folder. Raises `ProviderError` that names `place`.
    """
    words = [executable] if Path(executable).is_file() else executable.split()
    found = shutil.which(words[0], path=search_path)
    if found is None:
        what = "is no program that can be run" if "/" in words[0] else "was not found on PATH"
        message = f"{place}: executable {words[0]!r} {what}; install it, or write its path as `executable`"
        raise ProviderError(message, "config")
    return (str(Path(found).absolute()), *words[1:])
