"""The target proxy: lets a judge script call the run's targets over HTTP on loopback (agentv-formats 7.1).

The key names of its wire are AgentV's, so that judges written for AgentV's own SDK run unchanged.
"""

import hmac
import json
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from pytest_agentv.errors import EvaluatorError, ProviderError
from pytest_agentv.evaluators.context import ProxiedQuestion, ProxiedTargets
from pytest_agentv.evaluators.metering import current_meter
from pytest_agentv.evaluators.scripts.loopback_server import HttpRequest, HttpResponse, LoopbackServer
from pytest_agentv.evaluators.scripts.payload import camel_case_message
from pytest_agentv.models.base import Json, JsonObject, mapping
from pytest_agentv.models.messages import Message
from pytest_agentv.providers.base import ProviderResponse

URL_VARIABLE: Final = "AGENTV_TARGET_PROXY_URL"
TOKEN_VARIABLE: Final = "AGENTV_TARGET_PROXY_TOKEN"  # noqa: S105 - the name of the variable, not a token

_DEFAULT_EVAL_ID: Final = "proxy"
_DEFAULT_ATTEMPT: Final = 1


class _RefusedError(Exception):
    """A request that is refused. The sender gets the text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TargetProxy:
    """The proxy of one run of a judge script, open as long as its context is."""

    def __init__(
        self,
        targets: ProxiedTargets,
        max_calls: int,
        timeout_seconds: float | None = None,
        *,
        answer: int = 0,
        reruns: int = 0,
        twin: tuple[int, ...] = (),
    ) -> None:
        """Prepare a proxy.

        Args:
            targets: What can be called.
            max_calls: How many calls the script may make.
            timeout_seconds: The longest that one call may take; None: no limit.
            answer: The number of the answer that is judged.
            reruns: How often its case was asked before in this run.
            twin: The numbers of the script among equal members of its composites.
        """
        self._answer = answer
        self._reruns = reruns
        self._twin = twin
        self._meter = current_meter()
        self.max_calls = max_calls
        self.call_count = 0
        self.token = secrets.token_hex(32)
        self.url = ""
        self._targets = targets
        self._timeout_seconds = timeout_seconds
        self._server = LoopbackServer(self.respond, _error(503, "Proxy is shutting down"))
        self._routes = {
            ("GET", "/info"): self._info,
            ("POST", "/invoke"): self._invoke,
            ("POST", "/invokeBatch"): self._invoke_batch,
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which the script finds the proxy."""
        return {URL_VARIABLE: self.url, TOKEN_VARIABLE: self.token}

    async def __aenter__(self) -> Self:
        """Open the proxy. Raises `EvaluatorError` (kind `network`) when the system has no port to give."""
        try:
            self.url = await self._server.start()
        except OSError as error:
            message = f"the target proxy could not be started on 127.0.0.1: {error.strerror or error}"
            raise EvaluatorError(message, "network") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.stop()

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Answer one request. A failure becomes a response; only a cancellation is raised."""
        if request.method == "OPTIONS":
            return HttpResponse(204)
        if not self._is_authorized(request.headers.get("authorization", "")):
            return _error(401, "Unauthorized")
        route = self._routes.get((request.method, request.path))
        if route is None:
            return _error(404, "Not found")
        try:
            return HttpResponse(200, json.dumps(await route(request.body), allow_nan=False))
        except _RefusedError as refusal:
            return _error(refusal.status, str(refusal))
        except Exception as error:  # noqa: BLE001 - providers of plugins may raise anything; the script gets the error
            return _error(500, str(error) or type(error).__name__)

    def _is_authorized(self, authorization: str) -> bool:
        return hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())

    async def _info(self, _body: bytes) -> Json:
        """Source: scenario "Code judge queries proxy info"."""
        return {
            "targetName": self._targets.default_name,
            "maxCalls": self.max_calls,
            "callCount": self.call_count,
            "availableTargets": list(self._targets.names),
        }

    async def _invoke(self, body: bytes) -> Json:
        self._check_limit()
        return await self._ask(_parse(body))

    async def _invoke_batch(self, body: bytes) -> Json:
        """Ask one after another. A failure of one request is the answer to that request only."""
        batch = mapping(_parse(body)).get("requests")
        if not isinstance(batch, list):
            raise _RefusedError(400, "Missing required field: requests (array)")
        if self.call_count + len(batch) > self.max_calls:
            counts = f"current: {self.call_count}, batch: {len(batch)}, limit: {self.max_calls}"
            raise _RefusedError(429, f"Batch would exceed max calls ({counts})")
        return {"responses": [await self._ask_or_explain(request) for request in batch]}

    async def _ask_or_explain(self, request: Json) -> Json:
        try:
            return await self._ask(request)
        except Exception as error:  # noqa: BLE001 - as in `respond`
            return {"outputMessages": [], "rawText": f"Error: {str(error) or type(error).__name__}"}

    async def _ask(self, request: Json) -> Json:
        """Call a target. Failed calls count; refused requests do not."""
        self._check_limit()  # in a batch too: another request may have used the last calls meanwhile
        fields = mapping(request)
        question = fields.get("question")
        if not isinstance(question, str) or not question:
            raise _RefusedError(400, "Missing required field: question")
        target = self._targets.resolve(self._target_name(fields))
        self.call_count += 1
        response: ProviderResponse | None = None
        try:
            response = await target(self._question(question, fields))
        finally:
            self._meter.add_reply(response)
        if response.error is not None:
            raise ProviderError(response.error, response.error_kind)
        messages = response.output_messages or ()
        answer = {"outputMessages": [camel_case_message(message) for message in messages]}
        text = raw_text(messages)
        return answer if text is None else {**answer, "rawText": text}

    def _target_name(self, fields: JsonObject) -> str:
        """Source: scenarios "Code judge overrides target for specific call", "Code judge specifies unknown target"."""
        name = fields.get("target") or self._targets.default_name
        if name not in self._targets.names:
            raise _RefusedError(400, f"Unknown target '{name}'. Available: {', '.join(self._targets.names)}")
        return str(name)

    def _question(self, question: str, fields: JsonObject) -> ProxiedQuestion:
        system_prompt, eval_id, attempt = (fields.get(key) for key in ("systemPrompt", "evalCaseId", "attempt"))
        return ProxiedQuestion(
            question,
            system_prompt=system_prompt if isinstance(system_prompt, str) else None,
            eval_id=eval_id if isinstance(eval_id, str) and eval_id else _DEFAULT_EVAL_ID,
            attempt=attempt if isinstance(attempt, int) and attempt >= 0 else _DEFAULT_ATTEMPT,
            timeout_seconds=self._timeout_seconds,
            answer=self._answer,
            reruns=self._reruns,
            twin=self._twin,
        )

    def _check_limit(self) -> None:
        if self.call_count >= self.max_calls:
            raise _RefusedError(429, f"Max calls exceeded (limit: {self.max_calls})")


def raw_text(messages: tuple[Message, ...]) -> str | None:
    """Return the text of the last assistant message that has one: its content, or the first `text` among its parts."""
    for message in reversed(messages):
        if message.role != "assistant":
            continue
        if isinstance(message.content, str):
            return message.content
        parts = message.content if isinstance(message.content, list) else []
        texts = (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
        text: str | None = next(texts, None)
        if text is not None:
            return text
    return None


def _parse(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RefusedError(400, f"Invalid JSON: {error}") from None


def _error(status: int, message: str) -> HttpResponse:
    return HttpResponse(status, json.dumps({"error": message}))
