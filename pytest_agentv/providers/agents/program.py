"""How the program of a coding agent is called, and what its events say."""

from collections.abc import Mapping
from dataclasses import field

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import Record
from pytest_agentv.models.masking.secrets import Secret
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.traces import TokenUsage


@record
class AgentCommand(Record):
    """How a program is called."""

    arguments: tuple[str | Secret, ...]
    stdin: str
    environment: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """Variables to set; None: to remove."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables to set where they are not set."""


@record
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
