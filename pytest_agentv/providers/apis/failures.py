"""Reads from a failed request why it failed: the server's words, and whether a retry may help."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.masking.secrets import beginning
from pytest_agentv.providers.apis.data import text_of
from pytest_agentv.runtime.retry import RequestFailure

_SHOWN: Final = 400
"""Characters of a server's text that a message shows."""

_KINDS: Final[dict[int, ErrorKind]] = {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}

_FILTERED: Final = re.compile(r'"code"\s*:\s*"content_(filter|policy_violation)"')
"""In the body with which Azure and OpenAI refuse a prompt (HTTP 400), without a completion."""

_USED_UP: Final = re.compile(r'"(code|type)"\s*:\s*"insufficient_quota"|"quotaId"\s*:\s*"[^"]*PerDay')
"""In the bodies with which OpenAI and Google refuse requests until the user pays or the day ends (HTTP 429)."""
_STATUSES: Final[dict[str, int]] = {
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded"), 429),
    "authentication_error": 401,
    "permission_error": 403,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses of errors that are told in a word."""
_RETRY_DELAY: Final = re.compile(r'"retryDelay"\s*:\s*"(\d{1,6}(?:\.\d+)?)s"')

_NO_CERTIFICATE: Final = re.compile("_ALERT_(CERTIFICATE_REQUIRED|BAD_CERTIFICATE)")
"""In OpenSSL's words for what a server of TLS 1.3 says after the handshake if it wants a certificate of the client."""

_HINTS: Final = {
    401: "check the api_key of",
    403: "check what the api_key may use, and the model, of",
    404: "check the model and the URL of",
}


def refused(
    status: int, headers: Mapping[str, str], body: str, model: str, target: str, *, hints: Mapping[int, str] = _HINTS
) -> RequestFailure:
    """Return the error of a reply with an error status.

    Args:
        status: The HTTP status.
        headers: A mapping that ignores the case of names.
        body: The reply's text.
        model: The model's name in the message.
        target: The target's name in the message.
        hints: Advice by status.
    """
    said = read_error_text(body) or _phrase(status)
    hint = f" ({hints[status]} {target})" if status in hints else ""
    return RequestFailure(
        f"{model} replied HTTP {status}{f': {said}' if said else ''}{hint}",
        "no_answer" if _FILTERED.search(body) else status_kind(status),
        status,
        retry_after_ms=_retry_after(headers, body),
        should_retry=_should_retry(headers, body),
    )


def without_reply(model: str, said: str) -> RequestFailure:
    """Return the error of a connection that broke before the reply was whole. `said` is the system's reason."""
    if _NO_CERTIFICATE.search(said):
        return RequestFailure(
            f"the server of {model} demands a client certificate, which is not supported: {said}", "config"
        )
    return RequestFailure(f"no whole reply from {model}: {said}", "network", is_network=True)


def without_choice(reply: JsonObject, model: str) -> RequestFailure:
    """Return the error of a reply with status 200 and without a message. Gateways send the errors of others like this.

    If the error names the status of the other server, that status counts.
    """
    error, body = reply.get("error"), json.dumps(reply, ensure_ascii=False)
    if not error:
        return RequestFailure(f"{model} replied without any choice: {shorten(body)}", "crash")
    status = _told_status(error)
    kind = "crash" if status is None else status_kind(status)
    message = f"{model} replied with an error: {read_error_text(body)}{f' (code {status})' if status else ''}"
    kind = "no_answer" if _FILTERED.search(body) else kind
    return RequestFailure(message, kind, status, False, _retry_after({}, body), _should_retry({}, body))


def _told_status(error: Json) -> int | None:
    """Return the status in a reply's error: a number, a text, else that of a word."""
    if not isinstance(error, dict):
        return None
    for told in map(error.get, ("code", "status")):
        if isinstance(told, int | str) and re.fullmatch(r"[45]\d\d", str(told)):
            return int(told)
    words = map(text_of, map(error.get, ("code", "type")))
    return next((_STATUSES[word] for word in words if word in _STATUSES), None)


def status_kind(status: int) -> ErrorKind:
    """Return the error kind of a status: server failures count as network errors, others as configuration errors."""
    if status in _KINDS:
        return _KINDS[status]
    return "network" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "config"


def _should_retry(headers: Mapping[str, str], body: str) -> bool | None:
    """Return whether the server says that a retry may help. A used-up quota lasts for days."""
    if _USED_UP.search(body):
        return False
    return {"true": True, "false": False}.get((headers.get("x-should-retry") or "").strip().lower())


def _retry_after(headers: Mapping[str, str], body: str) -> float | None:
    """Return the milliseconds that a reply asks to wait. Google's APIs put them into the body."""
    asked = parse_retry_after(headers)
    found = _RETRY_DELAY.search(body) if asked is None else None
    return asked if found is None else float(found[1]) * 1000


def parse_retry_after(headers: Any, now: datetime | None = None) -> float | None:
    """Return the milliseconds that the headers of a reply ask to wait; None if they do not, or have an invalid value.

    Args:
        headers: A mapping that ignores the case of names.
        now: The time to compare a date with; default: the server's clock, if it tells the time.
    """
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (headers.get(name) or "").strip()
        if re.fullmatch(r"\d{1,300}(\.\d*)?", text):  # more digits are no float
            return float(text) * factor
    then = _date(headers.get("retry-after"))
    if then is None:
        return None
    now = now or _date(headers.get("date")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds() * 1000)


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime((text or "").strip())
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_error_text(body: str) -> str:
    """Return the server's message in the body of an error: the message of its JSON, or its text on one line."""
    try:
        said = _message_of(json.loads(body))
    except (ValueError, RecursionError):
        said = None
    return shorten(said or body)


def describe_no_json(error: json.JSONDecodeError) -> str:
    """Describe a body that is not JSON."""
    if not error.doc.strip():
        return "an empty body"
    return f"what is no JSON: {error.msg} (character {error.pos + 1})"


def shorten(text: str) -> str:
    """Return a text on one line, cut after `_SHOWN` characters. Masks secrets before it cuts."""
    line = " ".join(text.split())
    return beginning(line, _SHOWN)


def _message_of(data: Json) -> str | None:
    """Return the message of an error in the shapes of known APIs."""
    if isinstance(data, list) and data:
        return _message_of(data[0])
    if not isinstance(data, dict):
        return None
    if "error" in data:
        return data["error"] if isinstance(data["error"], str) else _message_of(data["error"])
    message = data.get("message") or data.get("detail")
    return message if isinstance(message, str) else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
