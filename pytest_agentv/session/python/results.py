"""The results of evaluations in Python, which pytest shows readably in an assertion."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_agentv.models.base import Json
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.outcomes import EvalFailed

_OWN_FIELDS: Final = ("account", "summary", "_reads")
_VERDICT: Final = frozenset(
    {
        *("passed", "assert_passed", "status", "score", "hits", "misses", "evaluator_results", "reasoning", "repeat"),
        *("unmet_required", "assertion", "to_plain"),
    }
)
"""What a test reads that decides by the result."""


@dataclass(frozen=True, slots=True, repr=False)
class PythonEvalResult(EvalResult):
    """The result of an eval in Python. It is true when the case passed; its `repr` says in one line why it failed."""

    account: str = ""
    """The whole text of a failure."""
    summary: str = ""
    """One line of at most 200 characters, without secrets."""
    _reads: list[str] = field(default_factory=list, compare=False)

    if not TYPE_CHECKING:  # for type checkers, it would make misspelt attributes valid

        def __getattribute__(self, name: str) -> Any:
            if name in _VERDICT:
                object.__getattribute__(self, "_reads").append(name)
            return object.__getattribute__(self, name)

    @classmethod
    def of(cls, result: EvalResult, account: str, summary: str, reads: list[str] | None = None) -> Self:
        """Return a result with its texts. Adds to `reads` what a test reads of the verdict."""
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        return cls(**values, account=account, summary=summary, _reads=[] if reads is None else reads)

    @property
    def passed(self) -> bool:
        """Whether the case passed."""
        return self.status == "pass"

    def assert_passed(self) -> None:
        """Raise `EvalFailed` with the whole text unless the case passed."""
        __tracebackhide__ = True
        if not self.passed:
            raise EvalFailed(self.account, self.summary)

    def to_plain(self) -> dict[str, Json]:
        """Return what was recorded."""
        plain = EvalResult.to_plain(self)
        return {key: value for key, value in plain.items() if key not in _OWN_FIELDS}

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return self.summary
