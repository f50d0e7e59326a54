"""What an eval item raises, and how it looks."""

import warnings
from collections.abc import Iterable

from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.secrets import Masker
from pytest_agentv.reporting.escaping import shown


class EvalFailed(AssertionError):
    """The score is below the threshold; the text is the readable account of it, `headline` its one line."""

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


class EvalErrored(AgentvError):
    """The case could not be judged; the text says where and why it broke, `headline` in one line."""

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


class AgentvWarning(UserWarning):
    """Something in an eval, targets or config file that is likely a mistake."""


def show_warnings(problems: Iterable[Problem], masker: Masker) -> None:
    """Hand problems to pytest's warnings summary, each at its place in its file, safe to be shown.

    Raises one `AgentvWarning` for those that the project's `filterwarnings` makes errors.
    """
    refused = []
    for problem in problems:
        text = shown(str(problem), masker)
        try:
            warnings.warn_explicit(text, AgentvWarning, str(problem.path), problem.line or 1)
        except AgentvWarning as warning:
            refused.append(str(warning))
    if refused:
        raise AgentvWarning("\n".join(refused))
