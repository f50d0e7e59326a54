"""What users bring along to a case beside its file: hooks around it, objects in the place of targets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.base import ProviderResponse


@dataclass(frozen=True, slots=True)
class Decision(Record):
    """The word of a hook on whether a case passed."""

    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CaseHooks:
    """Functions that are called while a case runs; they may block, and raise `HookError`. None: nobody wants to."""

    response: Callable[[EvalCase, ProviderResponse], ProviderResponse] | None = None
    """Sees the response before the evaluators do, and returns it or another one."""
    decide: Callable[[EvalCase, EvalResult], Decision | None] | None = None
    """Decides whether a judged case passed; None: the score does."""
    recorded: Callable[[EvalCase | None, EvalResult], None] | None = None
    """Is told of a result when its line is written; the case is None if it could not be loaded."""


@dataclass(frozen=True, slots=True)
class OwnParts:
    """What takes the place of what a targets file names."""

    provider: object | None = None
    """Whatever `providers.function.adapt_provider` takes."""
    judge: object | None = None
    """As the provider."""
    answer: ProviderResponse | None = None
    """An answer that is there already: no provider is called."""

    @property
    def replace_target(self) -> bool:
        """Whether nothing of the case's target is needed but its name."""
        return self.provider is not None or self.answer is not None


NO_HOOKS: Final = CaseHooks()
NO_OWN_PARTS: Final = OwnParts()

OWN_PROVIDER: Final = "agentv_provider"
"""What messages call an object that stands in for a target."""
OWN_JUDGE: Final = "agentv_judge"
"""What messages and records call an object that judges."""
