"""Calls targets from a judge script, through the proxy that the run opened for it (agentv-formats 7)."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pytest_agentv.sdk.judge import (
    Json,
    Message,
    camel_case,
    list_of,
    mapping,
    message_reader,
    number,
    optional,
    record_of,
    text,
)

URL_VARIABLE: Final = "AGENTV_TARGET_PROXY_URL"
TOKEN_VARIABLE: Final = "AGENTV_TARGET_PROXY_TOKEN"  # noqa: S105 - the name of the variable, not a token


class TargetNotAvailableError(RuntimeError):
    """The environment names a proxy but holds no token for it."""


class TargetInvocationError(RuntimeError):
    """A call failed. The text is the proxy's reason."""

    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        """HTTP status of the proxy's response; 429: the call limit is reached. None: there was no response."""


class TargetInfo(NamedTuple):
    """The proxy's information about itself."""

    target_name: str
    """The target of calls that name no other."""
    max_calls: int
    call_count: int
    available_targets: tuple[str, ...]


class InvokeRequest(NamedTuple):
    """One call of a batch."""

    question: str
    system_prompt: str | None = None
    eval_case_id: str | None = None
    attempt: int | None = None
    target: str | None = None
    """The target to call; None: the proxy's default target."""


class InvokeResponse(NamedTuple):
    """The answer of a target."""

    output_messages: tuple[Message, ...] = ()
    raw_text: str | None = None
    """The text of the last assistant message. In a batch, `Error: …` for a call that failed."""


class TargetClient:
    """Calls targets. Each call blocks until the answer arrives. Threads may share a client."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    def invoke(
        self,
        question: str,
        *,
        system_prompt: str | None = None,
        eval_case_id: str | None = None,
        attempt: int | None = None,
        target: str | None = None,
    ) -> InvokeResponse:
        """Call a target. Raises `TargetInvocationError`."""
        request = InvokeRequest(question, system_prompt, eval_case_id, attempt, target)
        response: InvokeResponse = _RESPONSE(self._call("POST", "/invoke", _request_body(request)), "response")
        return response

    def invoke_batch(self, requests: Iterable[InvokeRequest | Mapping[str, Json]]) -> tuple[InvokeResponse, ...]:
        """Make several calls in order. Mappings have the keys of `InvokeRequest`. Raises `TargetInvocationError`.

        A single call that fails does not raise. Its `raw_text` starts with `Error: `.
        """
        asked = (request if isinstance(request, InvokeRequest) else InvokeRequest(**request) for request in requests)
        reply = self._call("POST", "/invokeBatch", {"requests": [_request_body(request) for request in asked]})
        responses: tuple[InvokeResponse, ...] = list_of(_RESPONSE)(reply.get("responses"), "responses")
        return responses

    def get_info(self) -> TargetInfo:
        """Return the proxy's targets and its number of calls so far. Raises `TargetInvocationError`."""
        info: TargetInfo = _INFO(self._call("GET", "/info"), "response")
        return info

    def _call(self, method: str, path: str, body: Json = None) -> Mapping[str, Json]:
        status, reply = self._exchange(method, path, None if body is None else json.dumps(body))
        if 200 <= status < 300:
            return mapping(json.loads(reply), "response")
        try:
            found = json.loads(reply)
        except ValueError:
            found = None
        error = found.get("error") if isinstance(found, dict) else None
        raise TargetInvocationError(error if isinstance(error, str) and error else reply or f"HTTP {status}", status)

    def _exchange(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        # Not urllib: it would send these calls through the proxy of `http_proxy`.
        from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - 15 ms that other judges save

        connection = HTTPConnection(self._url.removeprefix("http://").rstrip("/"))
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise TargetInvocationError(f"the target proxy at {self._url} cannot be reached: {reason}") from error
        finally:
            connection.close()


def create_target_client() -> TargetClient | None:
    """Return the client of this judge's proxy; None if its evaluator has no `target`.

    Raises `TargetNotAvailableError` if the environment names a proxy without a token.
    """
    url, token = os.environ.get(URL_VARIABLE), os.environ.get(TOKEN_VARIABLE)
    if not url:
        return None
    if not token:
        raise TargetNotAvailableError(f"{URL_VARIABLE} is set, but {TOKEN_VARIABLE} is not: expected both or neither")
    return TargetClient(url, token)


def _request_body(request: InvokeRequest) -> dict[str, Json]:
    return {camel_case(name): value for name, value in request._asdict().items() if value is not None}


_INFO: Final = record_of(
    TargetInfo,
    {"target_name": text, "max_calls": number, "call_count": number, "available_targets": list_of(text)},
    camel_case,
)
_RESPONSE: Final = record_of(
    InvokeResponse, {"output_messages": list_of(message_reader(camel_case)), "raw_text": optional(text)}, camel_case
)
