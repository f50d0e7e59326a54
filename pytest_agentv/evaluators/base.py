"""The base of every kind of evaluator. Importing this costs pydantic: import it lazily."""

from collections.abc import Awaitable, Iterator, Sequence

from pydantic import Field, ValidationInfo

from pytest_agentv.evaluators.context import Context, Judge, ProxiedQuestion, ProxiedTargets, Services
from pytest_agentv.loading.cases.references import Scope
from pytest_agentv.models.kind import Amount, Kind, Text
from pytest_agentv.models.scores import Score

EvaluationContext = Context
"""The name that `Context` had at first."""
EvaluatorServices = Services
"""The name that `Services` had at first."""

__all__ = [
    "Context",
    "EvaluationContext",
    "Evaluator",
    "EvaluatorServices",
    "Judge",
    "ProxiedQuestion",
    "ProxiedTargets",
    "Score",
    "Services",
    "scope_of",
]


class Evaluator(Kind):
    """Judges an answer. The fields are the keys that an eval file may have for it.

    A bad answer is a low `Score`. `EvaluatorError` says that the answer could not be judged: the case is then an error.
    """

    name: Text | None = Field(default=None, description="how results call it")
    weight: Amount = Field(default=1.0, description="its share in the case's score; 0 reports without counting")

    def evaluate(self, context: Context) -> Awaitable[Score] | Score:
        """Judge an answer: write `async def evaluate`, or `def evaluate`, which runs in a thread.

        Raises `EvaluatorError` when the answer cannot be judged; any other exception is an error of the case as well.
        """
        raise NotImplementedError

    def prepare(self, services: Services) -> "Evaluator":  # noqa: ARG002 - most kinds need nothing
        """Return the evaluator that judges, before the target is called.

        Raises `EvaluatorError` (kind `config`) for what could never work, so that no answer is paid for in vain.
        """
        return self

    @property
    def label(self) -> str:
        """How results call it: by its name, else by its kind."""
        return self.name or self.kind

    @property
    def asks_judge(self) -> bool:
        """Whether it asks a model, so that the target needs a judge."""
        return False

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        """The commands that it runs, each with its folder: a resumed run looks whether their files have changed."""
        return ()

    @property
    def own_code(self) -> object:
        """Code of the user's that judges, for the same purpose; None for a built-in kind."""
        return None if type(self).__module__.startswith("pytest_agentv.") else type(self)

    def walk(self) -> "Iterator[Evaluator]":
        """Yield the evaluator and its members."""
        yield self

    @property
    def calls_targets(self) -> bool:
        """Whether a script of it may call targets."""
        return False


def scope_of(info: ValidationInfo) -> Scope | None:
    """Return the place in an eval file that is read, and what it may refer to; None: built from Python."""
    return info.context if isinstance(info.context, Scope) else None
