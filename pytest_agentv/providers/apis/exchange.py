"""A request over HTTP and its reply, as plain data."""

from collections.abc import Mapping
from dataclasses import field

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record


@record
class HttpRequest(Record):
    """Any request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in lower case."""
    content: bytes | None = field(default=None, repr=False)


@record
class HttpReply(Record):
    """Any reply."""

    status: int
    headers: Mapping[str, str]
    """A mapping that finds names in any case, or at least in lower case."""
    content: bytes = b""

    @property
    def text(self) -> str:
        """The content as a text; what is no UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")
