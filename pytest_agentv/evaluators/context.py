"""The argument of evaluators: what they see and may call, as JSON for scripts, and what it costs."""

import dataclasses
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject, Record, own_copy
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import (
    Costs,
    ExecutionMetrics,
    Message,
    TokenUsage,
    TraceEvent,
    TraceSummary,
)
from pytest_agentv.model.options import DEFAULT_THRESHOLD
from pytest_agentv.providers.base import ProviderResponse


class Judge(Protocol):
    """The target that evaluators ask for a judgement."""

    name: str
    """The target's name, for the record."""

    async def ask(
        self, system_prompt: str, user_prompt: str, context: "Context", schema: JsonObject | None = None
    ) -> str:
        """Return the text of the reply, by the schema if its API can be bound to one. Raises `EvaluatorError`."""


@dataclass(frozen=True, slots=True)
class ProxiedQuestion(Record):
    """What a judge script asks a target."""

    question: str
    """The text of the question."""
    system_prompt: str | None
    """The system prompt; None: the script gave none."""
    eval_id: str
    """The id of the case that is judged."""
    attempt: int
    """The number of the call, 0-based."""
    context: "Context"
    """What the script judges."""


class ProxiedTargets(Protocol):
    """The targets that judge scripts may call."""

    default_name: str
    """The target that is called when the script names none: the judge target, else the one under test."""
    names: tuple[str, ...]
    """The target under test, then the others of its targets file."""

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        """Return a function that calls a target, which may raise `ProviderError`. Raises `TargetError`."""


@dataclass(frozen=True, slots=True)
class Embedding(Record):
    """The embedding of a text."""

    vector: tuple[float, ...]
    """Its numbers."""
    tokens: float | None = None
    """Tokens that were paid for; None: none, or not known."""
    cost_usd: float | None = None
    """US dollars that were paid; None: nothing, or not known."""


class Embedder(Protocol):
    """A target that gives embeddings."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Return the embedding of each text. Raises `EvaluatorError`."""


@dataclass(frozen=True, slots=True)
class Services:
    """What an evaluator may use beside the case."""

    judge: Judge | None = None
    """The judge; None: no target can judge."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of judge scripts: the process environment and `.env`. They hold secrets."""
    targets: ProxiedTargets | None = None
    """What judge scripts that have `target` may call."""
    embedders: Mapping[str, Embedder] = field(default_factory=dict)
    """The targets of evaluators that compare embeddings, by name."""
    case: EvalCase | None = field(default=None, repr=False)
    """The case that will be judged; None: it is not known yet."""
    judges: Mapping[str | None, Judge] = field(default_factory=dict)
    """The judges that evaluators of the case name."""


@dataclass(frozen=True, slots=True)
class Context(Record):
    """The argument of every evaluator: the case, the answer, and the steps to it."""

    case: EvalCase
    """The case that is judged."""
    prompt: Prompt
    """The prompt that the target got."""
    candidate_answer: str
    """The answer: the text of the last message of the assistant."""
    output_messages: tuple[Message, ...] | None = None
    """What the target said and which tools it called, in order; None: not reported."""
    trace: tuple[TraceEvent, ...] | None = None
    """The steps to the answer, in order; None: the target reported none."""
    trace_summary: TraceSummary | None = None
    """Counts over these steps; None: there are neither steps nor tool calls to count."""
    metrics: ExecutionMetrics | None = None
    """Tokens, US dollars and milliseconds of the answer; None: nothing is known."""
    attempt: int = 0
    """The number of the call of the target, 0-based."""
    answer: int = 0
    """The number of the answer, 0-based, where the case asks for several (`repeat`)."""
    reruns: int = 0
    """How often the case was asked before in this run, as by `--reruns`: the cache keeps these replies apart."""
    twin: tuple[int, ...] = ()
    """The number of the evaluator, 0-based, among the members of its composite that may ask models, after those of
    outer composites; in a panel also how often its judge was asked before. The cache keeps these replies apart."""
    timeout_seconds: float | None = None
    """The longest that a judge may take, in seconds; None: no limit."""
    target: str = ""
    """Name of the target under test."""
    reports_calls: bool = True
    """Whether the target reports its tool calls; a target that returns only a text does not."""
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up and answered from, in order; None: not reported."""
    workspace: Any = field(default=None, repr=False, compare=False)
    """Runs commands where the target has worked; None: the case has no workspace, or the answer is of another run."""
    file_changes: str | None = None
    """What the target changed there, as a unified diff of at most 200 kB; None: the case has no workspace."""
    dry_run: bool = False
    """Whether mocks stand in for the target and the judge."""
    threshold: float = DEFAULT_THRESHOLD
    """The score from which the case passes, 0 to 1."""
    part: Json | Absent = ABSENT
    """The part of a JSON answer that the evaluator's `path` chose; ABSENT: it judges the whole answer."""
    turns: "tuple[Context, ...]" = ()
    """What a check of each turn of a conversation sees; empty: there is none. The fields above are of all turns, but
    `candidate_answer` is the last answer."""
    services: Services = field(default_factory=Services, repr=False, compare=False)
    """The judge, the variables and the targets that an evaluator may use."""

    @property
    def workspace_path(self) -> str | None:
        """The folder that the target has worked in, absolute; None as for `workspace`."""
        return None if self.workspace is None else str(self.workspace.path)


def for_own_code(context: Context) -> Context:
    """Return a context for code of users: what it changes in there changes no record and no other judgement."""
    data = ("case", "prompt", "output_messages", "trace", "trace_summary", "metrics", "part")
    copied = {name: own_copy(getattr(context, name)) for name in data}
    turns = tuple(map(for_own_code, context.turns))
    return context.replace(**copied, turns=turns, services=services_for_own_code(context.services))


def services_for_own_code(services: Services) -> Services:
    """Return the services for code of users. Other cases are judged with the same variables and evaluators."""
    return dataclasses.replace(services, environment=dict(services.environment), case=own_copy(services.case))


def build_payload(context: Context, config: JsonObject | None) -> dict[str, Json]:
    """Build the standard input of a code judge: AgentV's keys in AgentV's order, then ours. What is not known is null.

    `config` has the keys of the evaluator that are the judge's own. Templates of judges and the target proxy show
    messages under camelCase names instead. Source: agentv-formats 6.5; requirement "Canonical Code Judge Wire Schema".
    """
    case = context.case
    is_told = context.reports_calls or context.turns
    messages = context.output_messages if is_told else None  # of a text, they would be made up
    told = None if messages is None else [message.to_plain() for message in messages]
    for message in told or ():
        if not message["tool_calls"]:
            del message["tool_calls"]  # AgentV's messages have no empty list
    guidelines = set(case.guideline_paths)
    payload: dict[str, Json] = {
        "question": case.question,
        "expected_outcome": case.expected_outcome,
        "expected_messages": case.expected_messages,
        "reference_answer": case.reference_answer,
        "candidate_answer": context.candidate_answer,
        "output_messages": told,
        "guideline_files": case.guideline_paths,
        "input_files": [path for path in case.file_paths if path not in guidelines],
        "input_messages": case.input_messages,
        "trace_summary": context.trace_summary.to_plain() if context.trace_summary else None,
        "config": config,
        "execution_metrics": context.metrics.to_plain() if context.metrics else None,
        "trace": None if context.trace is None else [event.to_plain() for event in context.trace],
    }
    if context.retrieved_context is not None:
        payload["retrieved_context"] = context.retrieved_context
    if context.file_changes is not None:
        payload["file_changes"] = context.file_changes
        payload["workspace_path"] = context.workspace_path
    converted = {key: snake_case_keys(value) for key, value in payload.items()}
    return converted if case.vars is None else {**converted, "vars": case.vars}  # under the names of templates


def snake_case_keys(value: Json) -> Json:
    """Rename the keys at every depth, the user's own too, as judges of AgentV expect; NaN becomes null."""
    if isinstance(value, Mapping):
        return {_snake_case(key): snake_case_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [snake_case_keys(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _snake_case(key: str) -> str:
    """`docId` gives `doc_id`; a key that starts with an upper-case letter stays."""
    return key if re.match("[A-Z]", key) else re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)


def camel_case_message(message: Message) -> dict[str, Json]:
    """Return a message under AgentV's camelCase key names; user data within keeps its own."""
    plain = message.to_plain()
    if calls := plain.pop("tool_calls"):
        names = {"duration_ms": "durationMs"}
        plain["toolCalls"] = [{names.get(key, key): value for key, value in call.items()} for call in calls]
    return plain


class Meter:
    """The calls, tokens and US dollars of the models that one evaluator asked; all of a case share the judge."""

    def __init__(self) -> None:
        self._parts: list[Costs] = []

    @property
    def total(self) -> Costs | None:
        """The figures; None: no model was asked."""
        return Costs.added(self._parts) if self._parts else None

    def add(self, usage: TokenUsage | None = None, cost_usd: float | None = None) -> None:
        """Add a call."""
        self._parts.append(Costs.of_call(usage, cost_usd))

    def add_reply(self, response: ProviderResponse | None, calls: int = 1) -> None:
        """Add a reply and its calls; None: there was no reply, but the calls may have been paid for."""
        self._parts.append(Costs(calls - 1))
        if response is None:
            self.add()
        elif not response.cached:
            self.add(response.token_usage, response.cost_usd)


METER: Final[ContextVar[Meter | None]] = ContextVar("agentv_meter", default=None)
"""The meter of this task and of tasks that it starts, but for those with a meter of their own."""


def current_meter() -> Meter:
    """Return the meter of the running evaluator. Without one, as in a dry run, return an unused meter."""
    return METER.get() or Meter()
