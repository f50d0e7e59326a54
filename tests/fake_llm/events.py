"""Server-sent events."""

import json
from collections.abc import Iterable
from typing import Any


def events(payloads: Iterable[str]) -> bytes:
    return "".join(f"data: {payload}\n\n" for payload in payloads).encode()


def named_events(payloads: Iterable[Any]) -> bytes:
    """Write events whose name is their `type`."""
    return "".join(f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n" for payload in payloads).encode()
