"""A request over HTTP and its reply, as plain data."""

import codecs
import re
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
    is_stream: bool = False
    """Whether the reply is a stream of events. Nothing after `data: [DONE]` is awaited."""


@record
class HttpReply(Record):
    """Any reply."""

    status: int
    headers: Mapping[str, str]
    """A mapping that ignores the case of names, or at least has lower-case names."""
    content: bytes = b""

    @property
    def charset(self) -> str | None:
        """The encoding that the reply names; None: none, or one in which no text can be read."""
        found = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("content-type") or "", re.IGNORECASE)
        try:
            if found:
                b"-".decode(found[1], "replace")  # `undefined`, of a careless script, is a codec that always fails
            return codecs.lookup(found[1]).name if found else None
        except (LookupError, UnicodeError):
            return None

    @property
    def text(self) -> str:
        """The content as a text, in the encoding that it names, else UTF-8. Invalid bytes are replaced.

        A byte order mark is no part of it.
        """
        return self.content.decode(self.charset or "utf-8", "replace").removeprefix("\ufeff")


def is_success(status: int) -> bool:
    """Whether a status says that the request was answered."""
    return 200 <= status < 300
