"""Parts of a case that come from user code and not from files: hooks, and objects that replace targets."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.base import ProviderResponse

if TYPE_CHECKING:  # only for objects that ask the target that they replace
    from pytest_agentv.providers.python.own_calls import OwnCalls


@record
class Decision(Record):
    """A hook's decision whether a case passed."""

    passed: bool
    reason: str


@record
class CaseHooks:
    """Functions to call while a case runs. They may block, and may raise `HookError`. None: no hook."""

    response: Callable[[EvalCase, ProviderResponse], ProviderResponse] | None = None
    """Gets the response before the evaluators, and returns it or another one."""
    decide: Callable[[EvalCase, EvalResult], Decision | None] | None = None
    """Decides whether a judged case passed; None: the score decides."""
    recorded: Callable[[EvalCase | None, EvalResult], None] | None = None
    """Gets a result when its line is written. The case is None if it could not be loaded."""


@record
class Overrides(Record):
    """User objects that replace entries of the targets file."""

    provider: object | None = None
    """Any object that `providers.python.foreign.adapt_provider` accepts."""
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
