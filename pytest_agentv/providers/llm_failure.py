"""Why a request of litellm failed.

litellm's own exceptions do not tell: a refused connection, a malformed reply and a missing key are all errors 500
there, and Anthropic's 503 is one as well. What happened is in the chain of exceptions below them.
"""

import json
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import Json
from pytest_agentv.models.secrets import masked
from pytest_agentv.providers.llm_limit import ReplyTooLargeError
from pytest_agentv.runtime.retry import RequestFailure

_SHOWN: Final = 400
"""Characters of a server's text that a message shows."""

_GUESSED: Final = frozenset({422, 500})
"""The statuses that litellm makes up for what brought no reply."""

_KINDS: Final[dict[int, ErrorKind]] = {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}

_FILTERED: Final = re.compile(r'"code"\s*:\s*"content_(filter|policy_violation)"')
"""In the body with which Azure and OpenAI refuse a prompt: HTTP 400, without a completion."""

_HINTS: Final = {
    401: "check the api_key of",
    403: "check what the api_key may use, and the model, of",
    404: "check the model and the URL of",
}


def read_failure(error: BaseException, model: str, target: str) -> RequestFailure:
    """Tell what an exception of litellm means; `model` and `target` are what the message calls them."""
    import httpx  # noqa: PLC0415 - litellm has imported it by now; before, it would cost 100 ms

    errors = list(_chain(error))
    too_large = next((cause for cause in errors if isinstance(cause, ReplyTooLargeError)), None)
    if too_large is not None:
        return RequestFailure(f"the reply of {model} is too large: {too_large}", "crash")
    for cause in errors:
        if isinstance(cause, httpx.HTTPStatusError):
            return _replied(cause.response, model, target)
    for cause in errors:
        if isinstance(cause, httpx.TimeoutException):
            return RequestFailure(f"{model} did not reply in time: {_text(cause)}", "timeout", is_network=True)
        if isinstance(cause, httpx.TransportError | ConnectionError | socket.gaierror):
            return RequestFailure(f"no whole reply from {model}: {_text(cause)}", "network", is_network=True)
        if isinstance(cause, json.JSONDecodeError):
            return RequestFailure(f"{model} replied with {_describe_no_json(cause)}", "crash")
    return _unexplained(error, model)


def parse_retry_after(headers: Any, now: datetime | None = None) -> float | None:
    """Return the milliseconds that the headers of a reply ask to wait; None where they do not, or ask nonsense.

    Args:
        headers: A mapping that finds names in any case.
        now: The time that a date is held against.
    """
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (headers.get(name) or "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d*)?", text):
            return float(text) * factor
    try:
        then = parsedate_to_datetime((headers.get("retry-after") or "").strip())
    except (ValueError, OverflowError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds() * 1000)


def read_error_text(body: str) -> str:
    """Return what a server says in the body of an error: the message of its JSON, or its text on one line."""
    try:
        said = _message_of(json.loads(body))
    except (ValueError, RecursionError):
        said = None
    return _shorten(said or body)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _replied(response: Any, model: str, target: str) -> RequestFailure:
    status = response.status_code
    body = _body(response)
    said = read_error_text(body) or _phrase(status)
    hint = f" ({_HINTS[status]} {target})" if status in _HINTS else ""
    return RequestFailure(
        f"{model} replied HTTP {status}{f': {said}' if said else ''}{hint}",
        "no_answer" if _FILTERED.search(body) else _kind(status),
        status,
        retry_after_ms=parse_retry_after(response.headers),
    )


def _kind(status: int) -> ErrorKind:
    """A server's own failure is one of the service, as is a broken connection; the rest is in the targets file."""
    if status in _KINDS:
        return _KINDS[status]
    return "network" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "config"


def _unexplained(error: BaseException, model: str) -> RequestFailure:
    """Read an error without a cause of the network: litellm refused to ask, or did not understand the reply."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status not in _GUESSED:
        return RequestFailure(f"{model} could not be asked: {_text(error)}", _kind(status), status)
    innermost = list(_chain(error))[-1]
    said = _text(error) if innermost is error else f"{type(innermost).__name__}: {_text(innermost)}"
    return RequestFailure(f"no answer from {model} that can be read: {said}", "crash")


def _describe_no_json(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "an empty body"
    return f"what is no JSON: {error.msg} (character {error.pos + 1})"


def _text(error: BaseException) -> str:
    """An exception's own words, without the traceback and the addresses of objects that litellm puts in."""
    text = str(error).partition("\nTraceback (most recent call last)")[0]
    text = re.sub(r"^(litellm\.)?\w+(Error|Exception|Timeout): ", "", text)
    text = re.sub(r"(\s*ssl:)?\s*<[^<>]*>", "", text)
    return _shorten(text.strip().rstrip(":")) or type(error).__name__


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{masked(line)[:_SHOWN]}…"


def _message_of(data: Json) -> str | None:
    """Find the message in the shapes that APIs give their errors."""
    if isinstance(data, list) and data:
        return _message_of(data[0])
    if not isinstance(data, dict):
        return None
    if "error" in data:
        return data["error"] if isinstance(data["error"], str) else _message_of(data["error"])
    message = data.get("message") or data.get("detail")
    return message if isinstance(message, str) else None


def _body(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # noqa: BLE001 - of a reply that was not read to its end; its status is known all the same
        return ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
