"""One case to run, as plain data that can be sent to another process, its target, and its parts of user code."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_agentv.model.base import Record
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.options import DEFAULT_TARGET, RunOptions
from pytest_agentv.model.results import EvalResult, ShardFigures
from pytest_agentv.providers.base import ProviderResponse

if TYPE_CHECKING:
    from pytest_agentv.providers.python_calls import OwnCalls  # only for objects that ask the target that they replace

CaseKey: TypeAlias = tuple[str, str, str, str, str, str]
"""Eval file, raw case id and target, and the hashes of the case, of the target and of its grading."""


@dataclass(frozen=True, slots=True)
class CaseIdentity(Record):
    """The names of a case in the results file, known even if the case cannot be loaded."""

    eval_id: str
    dataset: str
    target: str
    eval_file: str
    line: int
    node_id: str
    run_id: str
    conversation_id: str | None = None
    case_hash: str | None = None
    target_hash: str | None = None
    grading_hash: str | None = None
    tags: tuple[str, ...] | None = None
    judge: str | None = None
    required: bool | None = None
    """True if the case must pass by itself, else None."""
    xfail: str | None = None
    """The reason of the mark that expects a low score, else None."""
    xfail_strict: bool | None = None
    """True if that mark is strict, else None."""
    group: str | None = None
    row: str | None = None
    """The row of a table that the case was made from."""
    combination: str | None = None
    """The values of its matrix."""
    expected_outcome: str | None = None
    reference_answer: str | None = None
    shard: ShardFigures | None = None
    """The part of the run that it is in."""
    dry_run: bool | None = None
    """True in a dry run, else None."""


@dataclass(frozen=True, slots=True)
class CaseJob(Record):
    """One case to run, as plain data."""

    identity: CaseIdentity
    case: EvalCase
    options: RunOptions
    dump_qualifier: str | None = None
    """Separates the case's dumps from those of another case with the same id."""
    answer: int = 0
    """The number of the answer, 0-based, where the case asks for several."""
    reruns: int = 0
    """How often the case was asked before in this run, as by `--reruns`."""

    @property
    def timeout_seconds(self) -> float | None:
        return self.options.timeout or None

    @property
    def repeat(self) -> int:
        """How many answers the case is judged by."""
        return self.options.repeat or self.case.repeat or self.options.ini_repeat or 1


def case_key(case: EvalResult | CaseIdentity, target: str) -> CaseKey | None:
    """Return the key of a case; None: a hash is unknown, so no earlier result can be reused."""
    if case.case_hash is None or case.target_hash is None or case.grading_hash is None:
        return None
    return case.eval_file or "", case.eval_id, target, case.case_hash, case.target_hash, case.grading_hash


# Parts of a case that come from user code and not from files: hooks, and objects that replace targets.


@dataclass(frozen=True, slots=True)
class Decision(Record):
    """A hook's decision whether a case passed."""

    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CaseHooks:
    """Functions to call while a case runs. They may block, and may raise `HookError`. None: no hook."""

    response: Callable[[EvalCase, ProviderResponse], ProviderResponse] | None = None
    """Gets the response before the evaluators, and returns it or another one."""
    decide: Callable[[EvalCase, EvalResult], Decision | None] | None = None
    """Decides whether a judged case passed; None: the score decides."""
    recorded: Callable[[EvalCase | None, EvalResult], None] | None = None
    """Gets a result when its line is written. The case is None if it could not be loaded."""


@dataclass(frozen=True, slots=True)
class Overrides(Record):
    """User objects that replace entries of the targets file."""

    provider: object | None = None
    """Any object that `providers.python.adapt_provider` accepts."""
    judge: object | None = None
    """The same kinds of objects as `provider`."""
    provider_files: tuple[Path, ...] = ()
    """The files of the fixtures that made the provider. They may configure it."""
    judge_files: tuple[Path, ...] = ()
    calls: "OwnCalls | None" = None
    """The running calls of a provider that asks the target that it replaces; None: it does not ask it."""
    answer: ProviderResponse | None = None
    """A given answer; no provider is called."""

    @property
    def replace_target(self) -> bool:
        """Whether the case needs only the name of its target."""
        return self.provider is not None or self.answer is not None

    @property
    def fixtures(self) -> tuple[str, ...]:
        """The names of the targets that are replaced and not asked: `OWN_PROVIDER`, `OWN_JUDGE`."""
        replaced = {OWN_PROVIDER: self.replace_target and self.calls is None, OWN_JUDGE: self.judge is not None}
        return tuple(name for name, is_replaced in replaced.items() if is_replaced)


NO_HOOKS: Final = CaseHooks()
NO_OVERRIDES: Final = Overrides()

OWN_PROVIDER: Final = "agentv_provider"
"""Name in messages of an object that replaces a target."""
OWN_JUDGE: Final = "agentv_judge"
"""Name in messages and records of an object that judges."""


# The choice of the target of a case.


def choose_target(options: RunOptions, written: str | None) -> str:
    """Return the name of a case's target: that of the command line (unless `default`), else of the case or its file.

    Source: evaluation-2025-11, "Target Resolution"; decisions 14.
    """
    if options.target and options.target.strip() not in ("", DEFAULT_TARGET):
        return options.target.strip()
    return written or DEFAULT_TARGET


def choose_judge(options: RunOptions, written: str | None) -> str | None:
    """Return the name of a case's judge: that of the command line, else of the case or its file, else None."""
    return (options.judge or "").strip() or written
