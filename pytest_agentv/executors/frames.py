"""The format of messages between a run and its worker processes: a length, a word, a ticket and bytes."""

import json
import struct
from collections.abc import Callable
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

_HEAD: Final = struct.Struct(">IQ")
"""The length of the header and the length of the body, in bytes."""


@record
class Frame(Record):
    """One message."""

    word: str
    """`setup`, `job` and `cancel` go to the worker; `ready` and `reply` come from it; `probe` and `probed` are those
    of health checks. A worker of a cluster is also told what is `written`, and says which job is `lost`."""
    ticket: str = ""
    body: bytes = b""

    def to_bytes(self) -> bytes:
        header = json.dumps([self.word, self.ticket]).encode()
        return _HEAD.pack(len(header), len(self.body)) + header + self.body


class FrameReader:
    """Joins chunks of any size to frames."""

    def __init__(self, take: Callable[[Frame], None]) -> None:
        self._take = take
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._data += chunk
        while len(self._data) >= _HEAD.size:
            header, body = _HEAD.unpack_from(self._data)
            end = _HEAD.size + header + body
            if len(self._data) < end:
                return
            start = _HEAD.size + header
            word, ticket = json.loads(self._data[_HEAD.size : start])
            frame = Frame(word, ticket, bytes(self._data[start:end]))
            del self._data[:end]
            self._take(frame)
