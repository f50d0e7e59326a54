"""The protocol of adapters: they ask a target and return its answer."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, get_args, runtime_checkable

from pytest_agentv.cases.prompts import Prompt, PromptMode
from pytest_agentv.errors import ErrorKind, ProviderError, locate
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, JsonObject, Record, mapping
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import (
    Costs,
    Message,
    TokenUsage,
    TraceEvent,
    TraceEventType,
    candidate_answer,
    incomplete_reason,
    is_broken,
    is_null,
)
from pytest_agentv.model.results import ConversationFigures
from pytest_agentv.model.secrets import masked
from pytest_agentv.runtime.files import read_regular_file

_TRACE_LIMIT: Final = 64 * 2**20
"""Largest trace file in bytes."""

_EVENT_TYPES: Final[tuple[TraceEventType, ...]] = get_args(TraceEventType)


@dataclass(frozen=True, slots=True)
class ProviderRequest(Record):
    """One call of a target: the prompt of a case, or of a judge."""

    prompt: Prompt
    """What the case asks."""
    eval_id: str
    """The id of the case."""
    attempt: int = 0
    """The number of the call, 0-based."""
    answer: int = 0
    """The number of the answer, 0-based, where the case asks for several (`repeat`)."""
    reruns: int = 0
    """How often the case was asked before in this run, as by `--reruns`: the cache keeps these answers apart."""
    occurrence: tuple[int, ...] = ()
    """Which of several equal questions of the case this is; empty: the first. The cache keeps their answers apart."""
    guideline_paths: tuple[str, ...] = ()
    """Absolute paths of the guidelines."""
    input_paths: tuple[str, ...] = ()
    """Absolute paths of the other input files."""
    turn: int = 0
    """The number of the turn of a conversation, from 1; 0: it is none."""
    session: str | None = None
    """Names the conversation to a target that remembers it. Then only the new message is in the prompt. None: none."""
    system_prompt: str | None = None
    """The system prompt of a judge; None: the prompt is that of a case."""
    schema: JsonObject | None = None
    """The JSON Schema of a judge's reply, for APIs that can be bound to one; None: the reply is free."""
    workspace: str | None = None
    """The folder that the target works in, absolute; None: the case has none."""
    sandbox: tuple[str, ...] = ()
    """The words before a command that keep it from writing elsewhere; empty: nothing does."""
    timeout_seconds: float | None = None
    """The run's limit for this call, in seconds; a provider may have a shorter one of its own. None: no limit."""

    @property
    def file_paths(self) -> tuple[str, ...]:
        """All files, guidelines first."""
        return self.guideline_paths + self.input_paths

    def sandboxed(self, argv: Sequence[str], folder: Path) -> list[str]:
        """Return a command as it runs in the sandbox, if there is one. It may write to a folder of the call, too."""
        bound = ["--bind", str(folder), str(folder)] if self.sandbox else []
        return [*self.sandbox, *bound, *argv]


@dataclass(frozen=True, slots=True)
class ProviderResponse(Record):
    """What the target answered. None means that it did not report this."""

    output_messages: tuple[Message, ...] | None = None
    """What the target said and which tools it called, in order. The last text of the assistant is the answer."""
    trace: tuple[TraceEvent, ...] | None = None
    """The steps to the answer, in order. Deprecated in AgentV: report tool calls in `output_messages` instead."""
    trace_ref: str | None = None
    """A file that holds the trace as JSON or JSONL, absolute."""
    token_usage: TokenUsage | None = None
    """Tokens."""
    cost_usd: float | None = None
    """US dollars."""
    cost_source: str | None = None
    """The price table that they come from: `genai-prices` or `litellm`; None: the target reported them."""
    duration_ms: float | None = None
    """Milliseconds; the run measures them where they are not reported."""
    error: str | None = None
    """The target replied, but there is no answer to judge: the case is recorded as an error of the provider stage.

    Tokens and cost of the reply were paid for, and stay in the record.
    """
    error_kind: ErrorKind = "crash"
    """The kind of that error."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API: `stop`, `length`, `content_filter`, …"""
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up and answered from, in order; None: not reported."""
    warnings: tuple[str, ...] = ()
    """What is odd about the reply; the run warns about it once per target."""
    workspace: JsonObject | None = None
    """About the folder that the target worked in: `from`, `files`, `changed`, `diff_sha256`; the run sets it."""
    file_changes: str | None = None
    """What the target changed in that folder, as a unified diff of at most 200 kB; the run sets it."""
    cached: bool = False
    """The answer comes from the cache; its metrics are those of the call that was made for it."""
    is_text_only: bool = field(default=False, compare=False)
    """The target gave only a text, so it is not known whether it called tools."""
    session: str | None = None
    """Names the conversation to a target that goes on with it; None: it does not."""
    conversation: "Conversation | None" = None
    """How the answer came about turn by turn; None: the target was asked once. The other fields are of all turns."""
    raw: JsonObject = field(default_factory=dict)
    """For debugging: exit code, standard error, paths of logs.

    Of a model behind an API or a service, and in `ProviderError.raw` as well: `request_attempts`, `waited_ms`,
    `last_error`; these are written to the result.
    """


@dataclass(frozen=True, slots=True)
class Conversation(Record):
    """The turns of an answer."""

    replies: tuple[ProviderResponse, ...]
    """What the target answered, turn by turn."""
    prompts: tuple[Prompt, ...]
    """What it was asked."""
    costs: Costs
    """What all calls of the target took."""
    figures: ConversationFigures
    """How the conversation went."""


class Adapter(Protocol):
    """Calls the target: what `Provider.open` returns, completed.

    One object per target, process and run, shared by all cases in flight.

    `invoke` raises `ProviderError` (with a kind; a time-out has the kind `timeout`) when there is no answer.
    It is cancelled by `asyncio` cancellation and must then leave neither processes nor temporary files.

    Some attributes are optional. With `keeps_limits = True`, the run does not watch the time limits of calls, because a
    call may have to wait for its turn; the limit starts after the wait. With `reads_environ = True`, code that a call
    runs finds the variables of the folder's `.env` in `os.environ`. With `needs_no_task = True`, the adapter never
    cancels the task that calls it, and is called in the task of the case. The optional method `warm_up` starts slow
    preparations in the background. It is called before the target's first case, unless answers may come from a cache.
    """

    mode: PromptMode
    """Whether the prompt names files (`agent`) or holds their texts (`lm`)."""

    async def check(self) -> None:
        """Probe the target once per run, before the first case that needs it. Raises `ProviderError`."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask once, and return what came back. Raises `ProviderError`."""

    async def close(self) -> None:
        """Release what is held open; called once, at the end of the run."""


class TargetAdapter:
    """An adapter that needs no check and holds nothing open, unless it says otherwise."""

    async def check(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


@runtime_checkable
class BatchProvider(Protocol):
    """An adapter that can answer many requests in one call; responses come in the order of the requests."""

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Ask all requests in one call. Raises `ProviderError`."""


@runtime_checkable
class KeepsAnswers(Protocol):
    """An adapter that keeps answers for later runs."""

    def place(self, request: ProviderRequest) -> str:
        """Return what equal questions have in common."""

    def forget(self, request: ProviderRequest) -> None:
        """Let no later run take the answer to a request."""


@dataclass(frozen=True, slots=True)
class TargetEnvironment(Record):
    """What a target is opened in."""

    target: Target
    """The target, with the keys that all kinds share."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the processes it starts: this process's and those of `.env`."""

    @property
    def name(self) -> str:
        """The name of the target."""
        return self.target.name

    @property
    def folder(self) -> Path:
        """The folder of the targets file; without one, the working directory."""
        return Path.cwd() if self.target.path is None else Path(self.target.path).parent

    @property
    def where(self) -> str:
        """How messages name the target: `target 'agent' (targets.yaml:3)`."""
        target = self.target
        place = f" ({locate(Path(target.path), target.line)})" if target.path else ""
        return f"target {target.name!r}{place}"


def error_text(response: ProviderResponse) -> str | None:
    """Return why a response holds no answer; None: it holds one. Its text may be blank, as `str(TimeoutError())` is."""
    if response.error is None:
        return None
    return response.error.strip() or "the target gave an empty `error`, which does not say why there is no answer"


def require_answer(response: ProviderResponse) -> ProviderResponse:
    """Return a response, with an error if it holds no answer.

    It holds none if it is null, or if it is blank and its `finish_reason` tells why: a filter, a limit, a refusal.
    Checks for what must not be said would pass on such a response. An answer that an error of the server broke off is
    an error in any case.
    """
    if response.error is not None:
        return response.replace(error=error_text(response))
    reason = incomplete_reason(response.finish_reason)
    if reason is None:
        is_missing = is_null(response.output_messages, response.trace)
        error = "the target gave no answer: the content of its last message is null"
        return response.replace(error=error, error_kind="no_answer") if is_missing else response
    if is_broken(response.finish_reason):
        error = f"the answer is not whole: {reason} (finish_reason={response.finish_reason})"
        return response.replace(error=error, error_kind="network")
    if candidate_answer(response.output_messages).strip():
        return response
    error = f"the target gave no answer: {reason} (finish_reason={response.finish_reason})"
    return response.replace(error=error, error_kind="no_answer")


def total_seconds(requests: Sequence[ProviderRequest]) -> float | None:
    """Return the time limit of a call for several requests: the sum of theirs. None: there is none."""
    known = [request.timeout_seconds for request in requests if request.timeout_seconds is not None]
    return sum(known) if len(known) == len(requests) else None


def one_for_each(
    requests: Sequence[ProviderRequest], responses: Sequence[ProviderResponse]
) -> Sequence[ProviderResponse]:
    """Return the responses to some requests. If their number differs, all are errors: another call would cost again."""
    if len(responses) == len(requests):
        return responses
    error = f"{len(requests)} requests were sent and {len(responses)} responses came back"
    paid = (*responses, *[ProviderResponse()] * len(requests))[: len(requests)]
    return [response.replace(error=error) for response in paid]


def shortest(*limits: float | None) -> float | None:
    """Return the shortest of some time limits; None: there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def with_trace(response: ProviderResponse) -> ProviderResponse:
    """Return a response with the trace of its file, or an error, so that its answer and cost stay in the record."""
    if response.trace_ref is None or response.trace is not None or response.error is not None:
        return response
    try:
        left_out: list[str] = []
        trace = read_trace(Path(response.trace_ref), left_out)
        return response.replace(trace=trace, warnings=(*response.warnings, *left_out))
    except ProviderError as error:
        return response.replace(error=str(error), error_kind=error.kind)


def read_trace(path: Path, left_out: list[str]) -> tuple[TraceEvent, ...]:
    """Read a file that holds a JSON list of events, or an event per line. Raises `ProviderError` (kind `config`)."""
    try:
        text = read_regular_file(path, _TRACE_LIMIT).decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL character
        reason = getattr(error, "strerror", None) or error
        raise ProviderError(f"{locate(path, None)}: cannot read this trace file: {reason}", "config") from error
    is_list = text.lstrip().startswith("[")
    # Not `splitlines`, which also splits at separators that JSON allows within strings.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    found: list[tuple[str, Json]] = []
    for number, part in [(1, text)] if is_list else lines:
        try:
            value = json.loads(part)
        except (ValueError, RecursionError) as error:
            where = locate(path, number + getattr(error, "lineno", 1) - 1)
            message = f"{where}: expected a JSON list of events, or one event per line: {getattr(error, 'msg', error)}"
            raise ProviderError(message, "config") from error
        if is_list:
            found += ((f"{locate(path, None)}: [{index}]", event) for index, event in enumerate(value))
        else:
            found.append((locate(path, number), value))
    return parse_events(found, left_out)


def parse_events(values: Iterable[tuple[str, Json]], left_out: list[str]) -> tuple[TraceEvent, ...]:
    """Return the valid events of values with their places. An invalid one that may be a call raises `ProviderError`."""
    found = []
    for where, value in values:
        event = mapping(value)
        kind = event.get("type")
        if kind in _EVENT_TYPES:
            texts = {key: event[key] for key in ("timestamp", "id", "name", "text") if isinstance(event.get(key), str)}
            data = {key: event[key] for key in ("input", "output") if key in event}
            found.append(TraceEvent(kind, **texts, **data, metadata=mapping(event.get("metadata")) or None))
            continue
        hint = did_you_mean(str(kind), _EVENT_TYPES)
        shown, known = masked(repr(kind))[:80], ", ".join(_EVENT_TYPES)
        fault = f"{where}: an event has the type {shown}: expected one of {known}{f' ({hint})' if hint else ''}"
        if event and (kind is None or re.search("tool|call|func", str(kind), re.IGNORECASE)):
            raise ProviderError(fault, "config")
        left_out.append(f"{fault}; it was left out")
    return tuple(found)
