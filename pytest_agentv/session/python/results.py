"""Results of evaluations written in Python: they assert readably."""

from dataclasses import dataclass, fields
from typing import Final, Self

from pytest_agentv.models.base import Json
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.outcomes import EvalFailed

_OWN_FIELDS: Final = ("account", "summary")


@dataclass(frozen=True, slots=True, repr=False)
class PythonEvalResult(EvalResult):
    """A result that is true when the case passed, and shows in one line why it did not."""

    account: str = ""
    """All that is to be said of the case, as eval files have it in their failures."""
    summary: str = ""
    """One line of at most 200 characters, without secrets."""

    @classmethod
    def of(cls, result: EvalResult, account: str, summary: str) -> Self:
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        return cls(**values, account=account, summary=summary)

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    def assert_passed(self) -> None:
        """Raise `EvalFailed` with the whole account unless the case passed."""
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
