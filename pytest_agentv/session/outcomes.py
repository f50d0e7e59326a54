"""The exceptions of eval items, and how pytest shows them."""

import re
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

import pytest

from pytest_agentv.errors import AgentvError, ErrorKind
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import shown


class EvalFailed(AssertionError):
    """A case failed: its score is below the threshold, or a hook failed it.

    `headline` is the first line of the text.
    """

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


class EvalErrored(AgentvError):
    """A case could not be judged. The text says where and why it broke; `headline` says it in one line."""

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


RUN_ENDS: Final = (KeyboardInterrupt, pytest.exit.Exception)
"""Exceptions that end the run, and not only the item."""


_NO_PARAMETER: Final = re.compile(
    r"The requested fixture has no parameter.*Requested fixture '(.+?)' defined in:\s*(.+?)\n", re.DOTALL
)


def kind_of_break(error: BaseException) -> ErrorKind:
    """Return the error kind to record for a case whose item failed in set-up."""
    if isinstance(error, RUN_ENDS):
        return "cancelled"
    is_config = isinstance(error, pytest.FixtureLookupError | OSError) or parameter_fault(error) is not None
    return "config" if is_config else "crash"


def text_of_break(error: BaseException) -> str:
    """Return the text of an exception of a fixture, hook or signal."""
    if isinstance(error, pytest.FixtureLookupError):
        return error.msg or f"fixture {error.argname!r} not found"
    if isinstance(error, KeyboardInterrupt):
        return "Ctrl-C (KeyboardInterrupt)"
    return parameter_fault(error) or f"{type(error).__name__}: {error}".removesuffix(": ")


def parameter_fault(error: BaseException) -> str | None:
    """Return why a fixture with `params` cannot be set up for a case; None: the error is another one."""
    found = _NO_PARAMETER.match(str(error)) if isinstance(error, pytest.fail.Exception) else None
    if found is None:
        return None
    way_out = "`execution.targets` and `matrix` run a case several times"
    return f"fixture {found[1]!r} ({found[2]}) has params, and only tests in Python can be parametrized: {way_out}"


def ended_text(error: BaseException) -> str:
    """Return why a case was ended while it ran."""
    return f"ended before it was done: {text_of_break(error)}"


def as_text(error: BaseException, traceback: TracebackType, headline: str, place: tuple[str, int]) -> Any:
    """Return what pytest shows of an error: its text, anchored at a place, and a headline in the short summary."""
    # Only this representation keeps its message in the short summary in every pytest, also under xdist.
    text = pytest.ExceptionInfo.from_exc_info((type(error), error, traceback)).getrepr(style="value")
    if text.reprcrash is not None:
        text.reprcrash.path, text.reprcrash.lineno = place
        text.reprcrash.message = headline
    return text


def retold(text: str, headline: str, place: tuple[str, int]) -> Any:
    """Return what pytest shows for an error of which a worker sent only the text."""
    try:
        raise AgentvError(text)
    except AgentvError as error:
        return as_text(error, pytest.ExceptionInfo.from_current().tb, headline, place)


class AgentvWarning(UserWarning):
    """A likely mistake in an eval, targets or config file."""


class CannotRun(AgentvError):
    """A case cannot run: a fixture that it requests is unusable, or there is no event loop.

    The traceback that pytest would show is one of our functions.
    """

    @property
    def headline(self) -> str:
        return str(self).partition("\n")[0]


def show_warnings(problems: Iterable[Problem], masker: Masker) -> None:
    """Pass problems to pytest's warnings summary, each at its place in its file, safe to show.

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
