"""Cases and targets, as the engine runs them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pytest_agentv.model.base import JsonObject, Record, is_amount
from pytest_agentv.model.messages import InputMessage

if TYPE_CHECKING:  # it is of a higher floor, and its import costs pydantic
    from pytest_agentv.evaluators.base import Evaluator

    AnyEvaluator: TypeAlias = Evaluator
else:
    AnyEvaluator = Evaluator = Any


@dataclass(frozen=True, slots=True)
class SimulatedUser(Record):
    """A model that talks to the target in place of a person."""

    target: str
    """The name of the target that plays the user."""
    goal: str
    """What the user wants."""
    persona: str | None = None
    """Who the user is; None: nobody in particular."""
    max_turns: int = 10
    """After how many turns the conversation ends at the latest."""
    max_cost_usd: float | None = None
    """What target and user may cost before the conversation ends, in US dollars; None: any amount."""
    check: bool = False
    """Whether the judge checks that the user kept to goal and persona."""


@dataclass(frozen=True, slots=True)
class TurnPlan(Record):
    """The turns of a case that is a conversation. The user of the first one speaks last in the messages of the case."""

    inputs: tuple[str, ...] = ()
    """What the user says, in each written turn."""
    user: SimulatedUser | None = None
    """Who speaks after the written turns; None: nobody."""
    on_turn_failure: Literal["continue", "stop"] = "continue"
    """Whether the conversation goes on after a turn whose checks fail."""
    lines: tuple[int | None, ...] = ()
    """The lines of the written turns in the eval file."""


@dataclass(frozen=True, slots=True)
class Workspace(Record):
    """The folder that each answer of a case gets a fresh copy of, and what is done with the copy."""

    source: str
    """The folder, absolute; with `ref`, a git repository: a folder or an address."""
    ref: str | None = None
    """The commit, branch or tag of that repository; None: the folder is taken as it is."""
    setup: tuple[str, ...] = ()
    """Shell commands that prepare what the copies are made of, once per run."""
    before: tuple[str, ...] = ()
    """Shell commands that run in each copy, before the target."""
    hidden: tuple[str, ...] = ()
    """Absolute folders whose content is copied over each copy after the target has ended."""
    check: str | None = None
    """A shell command that has to fail before the target begins; None: nothing is checked."""
    overlay: str | None = None
    """An absolute folder whose content is copied over each copy before the target begins; None: none."""
    keep: Literal["never", "failed", "always"] = "failed"
    """Which copies stay after they were judged: those of cases that did not pass, none, or all."""
    sandbox: Literal["none", "bwrap"] = "none"
    """What keeps the target from writing elsewhere."""


@dataclass(frozen=True, slots=True)
class EvalCase(Record):
    """One case: everything that running it needs, with all its files read."""

    # Source: agentv-formats 1.3 to 1.9.

    eval_id: str
    """The id, unique within its file."""
    dataset: str
    """The name of the group of cases: written in the file, else the name of the file."""
    path: str
    """The eval file, absolute."""
    line: int
    """The line of the case in its file, 1-based."""
    expected_outcome: str
    """What a good answer achieves; empty where nothing was written."""
    question: str
    """The raw question that code judges get: without roles and texts of files."""
    messages: tuple[InputMessage, ...]
    """The input, files read: what prompts are built from."""
    input_messages: tuple[JsonObject, ...]
    """The input as written."""
    expected_messages: tuple[JsonObject, ...] = ()
    """The ideal answer as written, files read: `role`, and where they are there `name`, `content`, `tool_calls`."""
    reference_answer: str = ""
    """The text of the ideal answer; empty: there is none."""
    guideline_paths: tuple[str, ...] = ()
    """Absolute paths of the input files that match the guideline patterns."""
    file_paths: tuple[str, ...] = ()
    """Guidelines first, then the other input files; absolute, in order, duplicates kept."""
    guideline_patterns: tuple[str, ...] = ()
    """Globs of the files that count as guidelines."""
    evaluators: "tuple[Evaluator, ...] | None" = None
    """None: the case has no list, and the default judge decides."""
    conversation_id: str | None = None
    """Groups cases that belong together."""
    target: str | None = None
    """The case's or its file's target; the command line overrides it."""
    judge: str | None = None
    """The case's or its file's judge, a target; the command line overrides it. None: that of the target."""
    threshold: float | None = None
    """The score from which the case passes, 0 to 1; None: that of the run."""
    threshold_source: str | None = None
    """Where the threshold was written: `case` or `file`."""
    repeat: int | None = None
    """How many answers the case is judged by, 1 to 100; None: as many as the run says, else 1."""
    repeat_source: str | None = None
    """Where that was written: `case` or `file`."""
    min_pass_rate: float | None = None
    """The share of these answers that have to pass, 0 to 1; None: that of the run, else 1."""
    min_pass_rate_source: str | None = None
    """Where that was written: `case` or `file`."""
    required: bool = False
    """Whether it must pass by itself, whatever the verdict on the whole run."""
    group: str | None = None
    """Names the cases that are not independent of each other; None: its conversation, else the case alone."""
    turns: TurnPlan | None = None
    """The turns of a conversation; None: the target is asked once."""
    workspace: Workspace | None = None
    """The folder that the target works in; None: the case has none."""
    vars: JsonObject | None = None
    """The variables of the case: those of its file, its own, the columns of its row; None: it has none."""

    @property
    def user(self) -> SimulatedUser | None:
        """Who plays the user; None: nobody."""
        return None if self.turns is None else self.turns.user

    @property
    def folder(self) -> Path:
        """The folder of the eval file."""
        return _folder(self.path)


@lru_cache
def _folder(path: str) -> Path:
    """Return the same object for all cases of a file: making and hashing a path takes long."""
    return Path(path).parent


DEFAULT_RETRY_STATUS_CODES: Final = (500, 408, 409, 429, 502, 503, 504, 520, 522, 524, 529)
"""Those of the requirements, and those of Cloudflare and Anthropic, which the vendors' own clients retry as well."""

_PATIENCE: Final = frozenset(
    {
        *("timeout_seconds", "max_retries", "retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor"),
        "retry_status_codes",
    }
)
_LOGGING: Final = frozenset({"verbose", "keep_temp_files", "healthcheck", "log_dir", "log_format"})


def affects_answers(settings: object, key: str) -> bool:
    """Whether a setting of a target may affect its answers. After a change of another one, kept answers stay valid.

    The meaning of `verbose` is known only in our own kinds. In a user's kind, it may ask for longer answers.
    """
    if key not in _LOGGING:
        return key not in _PATIENCE
    owners = [each for each in type(settings).__mro__ if key in getattr(each, "model_fields", {})]
    return not owners or not owners[-1].__module__.startswith("pytest_agentv.")


@dataclass(frozen=True, slots=True)
class RetryPolicy(Record):
    """How a model provider retries failed requests. Delay k is `initial * factor**k`, capped, with jitter."""

    max_retries: int = 3
    initial_delay_ms: float = 1000
    max_delay_ms: float = 60_000
    backoff_factor: float = 2
    status_codes: tuple[int, ...] = DEFAULT_RETRY_STATUS_CODES


@dataclass(frozen=True, slots=True)
class Target(Record):
    """One target that is ready to be called."""

    name: str
    """The name by which cases and options choose it."""
    kind: str
    """Canonical provider kind: `azure`, `cli`, `mock`, …"""
    settings: Any = None
    """The keys of its kind: an instance of the kind's class (a `Provider`)."""
    judge_target: str | None = None
    """The name of the target that judges; None: not written."""
    workers: int | None = None
    """Cases in flight, 1 to 50; None: not written."""
    provider_batching: bool = False
    """Whether one call answers many cases."""
    path: str | None = None
    """The absolute path of its targets file."""
    line: int | None = None
    """The line in the targets file, 1-based."""


_MEMBERS: Final = {
    "label": str,
    "weight": int | float,
    "judged_by": tuple,
    "asks_judge": object,
    "calls_targets": object,
    "embeds_with": str | None,
    "scripts": tuple | list,
}
"""Members of evaluators that a user's kind may override, with the types that the rest of the code relies on."""


def member_fault(evaluator: Any) -> str | None:
    """Return which member of a user's evaluator has a wrong type, or raises an error; None: none does."""
    name, member = type(evaluator).__name__, ""
    try:
        for member, wanted in _MEMBERS.items():
            if not isinstance(value := getattr(evaluator, member), wanted):
                expected_type = getattr(wanted, "__name__", wanted)
                return f"`{member}` of {name} is of type {type(value).__name__}, expected {expected_type}"
        member = "walk()"
        for each in evaluator.walk():
            each.evaluate  # noqa: B018 - it raises for other values
        member = "scripts"
        for folder, words in evaluator.scripts:
            [folder, *words]  # noqa: B018 - as above
        member = "summary()"
        if not isinstance(evaluator.summary(), str):
            return f"`{member}` of {name} returned no text"
        member = "required_score()"
        if not is_amount(evaluator.weight) or not is_amount(evaluator.required_score(0.5)):
            return f"`weight` or `{member}` of {name} is no number of 0 or more"
    except Exception as error:  # noqa: BLE001 - it is the user's code
        return f"`{member}` of {name} raised {type(error).__name__}: {error}".removesuffix(": ")
    return None
