"""Stands for tool calls that a target does not report."""

from typing import Any, Final, NoReturn

from pytest_agentv.errors import EvaluatorError

_USES: Final = (
    *("bool", "contains", "getitem", "iter", "len", "reversed", "add", "radd", "mul", "rmul", "hash"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
)
"""The special methods by which code uses a tuple."""


class UnknownCalls:
    """Raises `EvaluatorError` when code looks at it. An empty tuple would say that no tool was called.

    Code that takes all values, and does not look at this one, can judge.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise EvaluatorError(self._reason, "config")


def _refuse(calls: UnknownCalls, *_: Any) -> NoReturn:
    raise EvaluatorError(calls._reason, "config")


for _name in _USES:
    setattr(UnknownCalls, f"__{_name}__", _refuse)
