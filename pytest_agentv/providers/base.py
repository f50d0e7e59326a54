"""The protocol of adapters: they ask a target and return its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from pytest_agentv.errors import ErrorKind, locate
from pytest_agentv.models.answers import candidate_answer, is_null
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.finish_reasons import incomplete_reason, is_broken
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.targets import Target
from pytest_agentv.models.traces import TokenUsage, TraceEvent
from pytest_agentv.prompts.prompt import Prompt, PromptMode

RUN_VARIABLE: Final = "AGENTV_RUN_ID"
"""In the environment of some providers: what names the run, where it has several processes."""

_IS_NULL: Final = "the target gave no answer: the content of its last message is null"

_NO_REASON: Final = "the target gave an empty `error`, which does not say why there is no answer"


@record
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
    system_prompt: str | None = None
    """The system prompt of a judge; None: the prompt is that of a case."""
    timeout_seconds: float | None = None
    """The run's limit for this call, in seconds; a provider may have a shorter one of its own. None: no limit."""

    @property
    def file_paths(self) -> tuple[str, ...]:
        """All files, guidelines first."""
        return self.guideline_paths + self.input_paths


@record
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
    cached: bool = False
    """The answer comes from the cache; its metrics are those of the call that was made for it."""
    is_text_only: bool = field(default=False, compare=False)
    """The target gave only a text, so it is not known whether it called tools."""
    raw: JsonObject = field(default_factory=dict)
    """For debugging: exit code, standard error, paths of logs.

    Of a model behind an API or a service, and in `ProviderError.raw` as well: `request_attempts`, `waited_ms`,
    `last_error`; these are written to the result.
    """


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


@runtime_checkable
class BatchProvider(Protocol):
    """An adapter that can answer many requests in one call; responses come in the order of the requests."""

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Ask all requests in one call. Raises `ProviderError`."""


@runtime_checkable
class KeepsAnswers(Protocol):
    """An adapter that keeps answers for later runs."""

    def place(self, request: ProviderRequest) -> Path:
        """Return where the answer to a request is kept."""

    def forget(self, request: ProviderRequest) -> None:
        """Delete the answer to a request, if it is kept."""


@record
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
    def where(self) -> str:
        """How messages name the target: `target 'agent' (targets.yaml:3)`."""
        target = self.target
        place = f" ({locate(Path(target.path), target.line)})" if target.path else ""
        return f"target {target.name!r}{place}"


ProviderFactory: TypeAlias = Callable[[Target, Mapping[str, str]], Any]
"""Creates the adapter of a target; the mapping is the environment: the process's variables and those of `.env`."""


def error_text(response: ProviderResponse) -> str | None:
    """Return why a response holds no answer; None: it holds one. Its text may be blank, as `str(TimeoutError())` is."""
    return None if response.error is None else response.error.strip() or _NO_REASON


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
        return response.replace(error=_IS_NULL, error_kind="no_answer") if is_missing else response
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
