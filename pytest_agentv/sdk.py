"""The SDK for judge scripts in Python: the input and result of `code_judge` scripts, and a client for targets.

It uses the standard library only, so that a judge starts in a few milliseconds. So the records are named tuples:
importing `dataclasses` would double a judge's start-up time.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from types import UnionType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

__all__ = [
    "CodeJudgeInput",
    "ExecutionMetrics",
    "InvokeRequest",
    "InvokeResponse",
    "Message",
    "Result",
    "TargetClient",
    "TargetInfo",
    "TargetInvocationError",
    "TargetNotAvailableError",
    "TokenUsage",
    "ToolCall",
    "TraceEvent",
    "TraceSummary",
    "WireError",
    "code_judge",
    "create_target_client",
    "read_input",
]

Json: TypeAlias = Any
"""A plain JSON value."""


class ToolCall(NamedTuple):
    """A tool call of the target under test."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    timestamp: str | None = None
    duration_ms: float | None = None


class Message(NamedTuple):
    """One message. Its content is a text, a list of parts, a mapping or None."""

    role: str
    content: Json = None
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    timestamp: str | None = None
    metadata: Mapping[str, Json] | None = None


class TokenUsage(NamedTuple):
    """Tokens of one answer."""

    input: float
    output: float
    cached: float | None = None
    reasoning: float | None = None


class TraceSummary(NamedTuple):
    """Counts over the trace of the answer."""

    event_count: int
    tool_names: tuple[str, ...]
    tool_calls_by_name: Mapping[str, int]
    """Names are in snake_case, because AgentV converts all keys of the payload."""
    error_count: int
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None


class ExecutionMetrics(NamedTuple):
    """Duration, tokens and cost of the answer; None if unknown."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    tool_durations: Mapping[str, Sequence[float]] | None = None
    """Milliseconds of each call by tool. Names are in snake_case."""
    exploration_ratio: float | None = None
    tokens_per_tool: float | None = None


class TraceEvent(NamedTuple):
    """One step of the trace."""

    type: str
    """`model_step`, `tool_call`, `tool_result`, `message` or `error`."""
    timestamp: str | None = None
    id: str | None = None
    name: str | None = None
    input: Json = None
    output: Json = None
    text: str | None = None
    metadata: Mapping[str, Json] | None = None


class CodeJudgeInput(NamedTuple):
    """The case and the answer to judge."""

    question: str
    expected_outcome: str
    candidate_answer: str
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    output_messages: tuple[Message, ...] | None = None
    """None: the target reported no messages."""
    guideline_files: tuple[str, ...] = ()
    """Absolute paths, like the next field."""
    input_files: tuple[str, ...] = ()
    input_messages: tuple[Message, ...] = ()
    trace_summary: TraceSummary | None = None
    config: Mapping[str, Json] | None = None
    """The evaluator's custom keys, in snake_case."""
    execution_metrics: ExecutionMetrics | None = None
    trace: tuple[TraceEvent, ...] | None = None
    vars: Mapping[str, Json] | None = None
    """The variables of the case. None: it has none."""
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up; None: not reported."""


class Result(NamedTuple):
    """A judge's result for an answer."""

    score: float
    """0 to 1. The run clamps other scores, with a warning. True counts as 1."""
    hits: Sequence[str] = ()
    misses: Sequence[str] = ()
    reasoning: str | None = None
    details: Mapping[str, Json] | None = None
    """Structured findings, copied to the results file unchanged."""


class WireError(ValueError):
    """Data has the wrong shape. The text says where, and what was expected."""


def read_input(data: Json) -> CodeJudgeInput:
    """Read a judge's input. Ignores unknown keys. Raises `WireError`."""
    judge_input: CodeJudgeInput = _read(CodeJudgeInput, data, "")
    return judge_input


def build_reply(result: Result | Mapping[str, Json]) -> dict[str, Json]:
    """Return the JSON object that a judge prints. Raises `WireError` for an invalid result."""
    if not isinstance(result, Result | Mapping):
        returned = "nothing" if result is None else _shortened(result)
        raise WireError(f'the judge returned {returned}: expected a Result, or a mapping such as {{"score": 0.5}}')
    checked: Result = _read(Result, result._asdict() if isinstance(result, Result) else result, "")
    if str(checked.score) in ("inf", "-inf"):
        _fail("score", "a finite number", checked.score)
    found = {key: value for key, value in checked._asdict().items() if value is not None}
    return {**found, "score": checked.score + 0}  # True is 1


def _read(kind: Any, value: Json, where: str, key_of: Callable[[str], str] = str) -> Any:
    """Return JSON as a field of some type holds it. The data of users, `Json`, stays unchanged. Raises `WireError`.

    A key of a record that is missing or null has the field's default. `key_of` returns the key of a field in the data.
    """
    if kind is Any:
        return value
    if isinstance(kind, UnionType):
        return None if value is None else _read(kind.__args__[0], value, where, key_of)
    if kind is str:
        return value if isinstance(value, str) else _fail(where, "a text", value)
    if kind in (int, float):
        is_number = isinstance(value, int | float) and str(value) != "nan"
        return value if is_number else _fail(where, "a number", value)
    is_record = hasattr(kind, "_fields")
    if is_record or kind.__origin__ is Mapping:
        if not isinstance(value, Mapping):
            _fail(where, "a mapping", value)
        if not is_record:
            return value
        keys = {field: key_of(field) for field in kind._fields}
        given = {field: key for field, key in keys.items() if value.get(key) is not None}
        needed = {field: key for field, key in keys.items() if field in given or field not in kind._field_defaults}
        prefix = f"{where}." if where else ""
        types = kind.__annotations__
        return kind(
            **{field: _read(types[field], value.get(key), f"{prefix}{key}", key_of) for field, key in needed.items()}
        )
    if not isinstance(value, list | tuple):
        _fail(where, "a list", value)
    return tuple(_read(kind.__args__[0], item, f"{where}[{index}]", key_of) for index, item in enumerate(value))


def _camel_case(name: str) -> str:
    """`tool_calls` gives `toolCalls`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _fail(where: str, expected: str, value: Json) -> NoReturn:
    raise WireError(f"{where or 'the data'}: expected {expected}, got {_shortened(value)}")


def _shortened(value: Any) -> str:
    shown = json.dumps(value, default=repr, ensure_ascii=False)
    return f"{shown[:60]}…" if len(shown) > 60 else shown


Judge: TypeAlias = Callable[[CodeJudgeInput], Any]
"""A function that returns a `Result`, a mapping with its keys, or an awaitable of either."""

J = TypeVar("J", bound=Judge)


def code_judge(function: J) -> J:
    """Run a function as this script's judge. Use it as a decorator on the last function of the script.

    The function runs at once when the script is executed, and never when it is imported, for example by a test.
    Prints of the function go to standard error. If it raises, the script prints a result of score 0 and exits with 1.
    """
    if sys._getframe(1).f_globals.get("__name__") == "__main__":
        run_judge(function)
    return function


def run_judge(function: Judge) -> None:
    """Judge the case on standard input and print the result. Exits with 1 if the function raises."""
    output = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            reply = _judged(function)
    except Exception as error:  # noqa: BLE001 - the run must see any failure of a judge
        _exit_with(error)
    output.write(f"{reply}\n")
    output.flush()


def _judged(function: Judge) -> str:
    """Return the reply of a judge to the case on standard input, as JSON."""
    try:
        payload = json.loads(sys.stdin.buffer.read())
    except ValueError as error:
        raise WireError(f"standard input is not valid JSON: {error}") from None
    result = function(read_input(payload))
    if hasattr(result, "__await__"):
        import asyncio  # noqa: PLC0415 - 30 ms that other judges save

        async def wait() -> Any:
            return await result

        result = asyncio.run(wait())
    reply = build_reply(result)
    try:
        return json.dumps(reply, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:  # all other fields are checked already
        raise WireError(f"details: {error}") from None


def _exit_with(error: Exception) -> NoReturn:
    import traceback  # noqa: PLC0415 - only for failures

    if isinstance(error, WireError):  # the last line says everything; lines of this package would hide it
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
        traceback.print_exception(error)
    failure = {"score": 0, "hits": [], "misses": [message], "reasoning": f"Evaluation failed: {message}"}
    sys.stdout.write(f"{json.dumps(failure, indent=2)}\n")
    sys.stdout.flush()
    sys.exit(1)


# Calls targets from a judge script, through the proxy that the run opened for it (agentv-formats 7).

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
        reply = self._call("POST", "/invoke", _request_body(request))
        response: InvokeResponse = _read(InvokeResponse, reply, "response", _camel_case)
        return response

    def invoke_batch(self, requests: Iterable[InvokeRequest | Mapping[str, Json]]) -> tuple[InvokeResponse, ...]:
        """Make several calls in order. Mappings have the keys of `InvokeRequest`. Raises `TargetInvocationError`.

        A single call that fails does not raise. Its `raw_text` starts with `Error: `.
        """
        asked = (request if isinstance(request, InvokeRequest) else InvokeRequest(**request) for request in requests)
        reply = self._call("POST", "/invokeBatch", {"requests": [_request_body(request) for request in asked]})
        responses: tuple[InvokeResponse, ...] = _read(
            tuple[InvokeResponse, ...], reply.get("responses"), "responses", _camel_case
        )
        return responses

    def get_info(self) -> TargetInfo:
        """Return the proxy's targets and its number of calls so far. Raises `TargetInvocationError`."""
        info: TargetInfo = _read(TargetInfo, self._call("GET", "/info"), "response", _camel_case)
        return info

    def _call(self, method: str, path: str, body: Json = None) -> Mapping[str, Json]:
        status, reply = self._exchange(method, path, None if body is None else json.dumps(body))
        if 200 <= status < 300:
            data: Mapping[str, Json] = _read(Mapping[str, Json], json.loads(reply), "response")
            return data
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
    return {_camel_case(name): value for name, value in request._asdict().items() if value is not None}
