"""The argument of evaluators: what they see and may call. Light to import: the classes of kinds are in `base`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol, runtime_checkable

from pytest_agentv.models.base import ABSENT, Absent, Json, Record, own_copy
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import Message
from pytest_agentv.models.options.defaults import DEFAULT_THRESHOLD
from pytest_agentv.models.records import record, replaced
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary
from pytest_agentv.prompts.prompt import Prompt
from pytest_agentv.providers.base import ProviderResponse


class Judge(Protocol):
    """The target that evaluators ask for a judgement."""

    name: str
    """The target's name, for the record."""

    async def ask(self, system_prompt: str, user_prompt: str, context: "Context") -> str:
        """Return the text of the reply. Raises `EvaluatorError` when there is no reply."""


@runtime_checkable
class ForgetfulJudge(Protocol):
    """A judge whose replies may be kept for later runs."""

    def forget(self, system_prompt: str, user_prompt: str, context: "Context") -> None:
        """Have the reply asked for anew in the next run."""


@record
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
    timeout_seconds: float | None
    """The longest that the call may take, in seconds; None: no limit."""
    answer: int = 0
    """The number of the answer that is judged, 0-based, where the case asks for several (`repeat`)."""
    reruns: int = 0
    """How often the case was asked before in this run, as by `--reruns`: the cache keeps these replies apart."""
    twin: tuple[int, ...] = ()
    """The number of the evaluator, 0-based, among equal members of its composite, after those of outer composites.

    The cache keeps the replies to their questions apart, whichever of them asks first.
    """


class ProxiedTargets(Protocol):
    """The targets that judge scripts may call."""

    default_name: str
    """The target that is called when the script names none: the judge target, else the one under test."""
    names: tuple[str, ...]
    """The target under test, then the others of its targets file."""

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        """Return a function that calls a target, and raises `ProviderError` when there is no response.

        Raises `TargetError` for a target that cannot be used.
        """


@record
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
        ...


@record
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


@record
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
    """The number of the evaluator, 0-based, among equal members of its composite, after those of outer composites.

    The cache keeps the replies to their questions apart, whichever of them asks first.
    """
    timeout_seconds: float | None = None
    """The longest that a judge may take, in seconds; None: no limit."""
    target: str = ""
    """Name of the target under test."""
    reports_calls: bool = True
    """Whether the target reports its tool calls; a target that returns only a text does not."""
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up and answered from, in order; None: not reported."""
    dry_run: bool = False
    """Whether mocks stand in for the target and the judge."""
    threshold: float = DEFAULT_THRESHOLD
    """The score from which the case passes, 0 to 1."""
    part: Json | Absent = ABSENT
    """The part of a JSON answer that the evaluator's `path` chose; ABSENT: it judges the whole answer."""
    services: Services = field(default_factory=Services, repr=False, compare=False)
    """The judge, the variables and the targets that an evaluator may use."""


_DATA: Final = ("case", "prompt", "output_messages", "trace", "trace_summary", "metrics", "part")


def for_own_code(context: Context) -> Context:
    """Return a context for code of users: what it changes in there changes no record and no other judgement."""
    copied = {name: own_copy(getattr(context, name)) for name in _DATA}
    return context.replace(**copied, services=services_for_own_code(context.services))


def services_for_own_code(services: Services) -> Services:
    """Return the services for code of users. Other cases are judged with the same variables and evaluators."""
    return replaced(services, {"environment": dict(services.environment), "case": own_copy(services.case)})
