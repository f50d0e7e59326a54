"""What a coding agent's program is: how it is called, and what its events say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.messages import Message
from pytest_agentv.models.secrets import Secret
from pytest_agentv.models.targets import AgentSettings
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.base import ProviderRequest


@dataclass(frozen=True, slots=True)
class AgentCommand(Record):
    """How a program is called."""

    arguments: tuple[str | Secret, ...]
    stdin: str
    environment: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """Variables to set; None: to remove."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables to set where they are not set."""


@dataclass(frozen=True, slots=True)
class AgentAnswer(Record):
    """What the events of a program say."""

    messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    is_complete: bool = False
    """The program said that it was done; one that is killed may end with exit code 0 and does not say so."""
    failure: str | None = None
    """Why it has no answer, in the program's words."""
    failure_kind: ErrorKind | None = None
    """None: to be guessed from the words."""


class AgentProgram(Protocol):
    """What differs between coding agents."""

    title: str
    """What messages call it."""
    skipped_types: frozenset[str]
    """Events to be passed over: those that repeat the whole text with each new word."""

    def command(self, settings: AgentSettings, request: ProviderRequest) -> AgentCommand:
        """Return how the program is called; its executable comes before the arguments."""

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        """Read the events; what is odd in them is passed over."""

    def summarize(self, event: JsonObject) -> str | None:
        """Return an event's line in the log; None for an event that says nothing to people."""
