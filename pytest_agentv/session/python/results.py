"""The results of evaluations in Python, which pytest shows readably in an assertion."""

from dataclasses import dataclass, fields
from typing import Final, Self

from pytest_agentv.models.base import Json
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.outcomes import EvalFailed

_OWN_FIELDS: Final = ("account", "summary")


@dataclass(frozen=True, slots=True, repr=False)
class PythonEvalResult(EvalResult):
    """The result of an eval in Python. It is true when the case passed; its `repr` says in one line why it failed."""

    account: str = ""
    """The whole text of a failure."""
    summary: str = ""
    """One line of at most 200 characters, without secrets."""

    @classmethod
    def of(cls, result: EvalResult, account: str, summary: str) -> Self:
        """Return a result with its texts."""
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        return cls(**values, account=account, summary=summary)

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
