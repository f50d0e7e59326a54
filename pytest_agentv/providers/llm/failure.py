"""Reads from an exception of litellm why a request failed.

litellm's own exceptions do not tell: a refused connection, a malformed reply and a missing key are all errors 500
there, and so is Anthropic's 503. The real cause is in the chain of exceptions.
"""

import json
import re
import socket
from collections.abc import Iterator
from typing import Any, Final

from pytest_agentv.providers.apis.failures import describe_no_json, refused, shorten, status_kind, without_reply
from pytest_agentv.providers.llm.limit import ReplyTooLargeError
from pytest_agentv.runtime.retry import RequestFailure

_GUESSED: Final = frozenset({422, 500})
"""The statuses that litellm invents if there was no reply."""


def read_failure(error: BaseException, model: str, target: str) -> RequestFailure:
    """Return the error for an exception of litellm; `model` and `target` are their names in the message."""
    import httpx  # noqa: PLC0415 - litellm has imported it by now; earlier it would cost 100 ms

    errors = list(_chain(error))
    too_large = next((cause for cause in errors if isinstance(cause, ReplyTooLargeError)), None)
    if too_large is not None:
        return RequestFailure(f"the reply of {model} is too large: {too_large}", "crash")
    for cause in errors:
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            return refused(response.status_code, response.headers, _body(response), model, target)
    for cause in errors:
        if isinstance(cause, httpx.TimeoutException):
            return RequestFailure(f"{model} did not reply in time: {_text(cause)}", "timeout", is_network=True)
        if isinstance(cause, httpx.TransportError | ConnectionError | socket.gaierror):
            return without_reply(model, _text(cause))
        if isinstance(cause, json.JSONDecodeError):
            return RequestFailure(f"{model} replied with {describe_no_json(cause)}", "crash")
    return _unexplained(error, model)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _unexplained(error: BaseException, model: str) -> RequestFailure:
    """Read an error without a network cause: litellm refused to ask, or did not understand the reply."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status not in _GUESSED:
        return RequestFailure(f"{model} could not be asked: {_text(error)}", status_kind(status), status)
    innermost = list(_chain(error))[-1]
    said = _text(error) if innermost is error else f"{type(innermost).__name__}: {_text(innermost)}"
    return RequestFailure(f"no answer from {model} that can be read: {said}", "crash")


def _text(error: BaseException) -> str:
    """Return an exception's own words, without the traceback and the object addresses that litellm adds."""
    text = str(error).partition("\nTraceback (most recent call last)")[0]
    text = re.sub(r"^(litellm\.)?\w+(Error|Exception|Timeout): ", "", text)
    text = re.sub(r"(\s*ssl:)?\s*<[^<>]*>|\s+ssl:\w+(?=\s|$)", "", text)
    return shorten(text.strip().rstrip(":")) or type(error).__name__


def _body(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # noqa: BLE001 - a reply that was not read to its end; its status is known anyway
        return ""
