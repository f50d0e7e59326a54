"""Small stand-ins for results of other packages: what counts is their shape, and the name of their package."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python import _read


def of(package: str, **fields: Any) -> Any:
    """Return an object whose class is of a package."""
    return type("Result", (SimpleNamespace,), {"__module__": f"{package}.inner"})(**fields)


@pytest.fixture
def stand_in():
    return of


@pytest.fixture
def read():
    """Read a value as the answer of a function."""

    def read_one(value: Any) -> ProviderResponse:
        return _read(value, "mine")

    return read_one


@pytest.fixture
def told():
    """Return the calls of a response: tool, input and output, and the texts of its messages."""

    def tell(response: ProviderResponse) -> tuple[list[Any], list[Any]]:
        messages = response.output_messages or ()
        calls = [(call.tool, call.input, call.output) for message in messages for call in message.tool_calls]
        return calls, [message.content for message in messages if isinstance(message.content, str | dict)]

    return tell
