"""Eval items: the cases of an eval file in pytest's tree."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.loading.suites import CaseEntry, SuiteSource
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.eval_session import EvalSession
from pytest_agentv.session.outcomes import EvalErrored, EvalFailed, anchored_text
from pytest_agentv.session.texts import errored, failed

TAKE_TURN = pytest.StashKey[Callable[["EvalItem"], EvalResult]]()
"""What gives an item the result of its case, put up by the hooks."""


class EvalItem(pytest.Function):
    """One case.

    A `pytest.Function` gets every scope of fixtures through public names only; the function it stands on is never
    called. The case runs in `setup`, after the fixtures: what keeps it from being judged is a failed set-up (ERROR),
    a score below the threshold a failed call (FAILED).
    """

    def __init__(self, *, suite: SuiteSource, entry: CaseEntry, **kwargs: Any) -> None:
        self.suite = suite
        self.entry = entry
        self.result: EvalResult | None = None
        """Set when the case has run."""
        super().__init__(**kwargs)

    def setup(self) -> None:
        self.result = None
        self.user_properties.clear()  # a rerun would add its properties to those of the run before
        super().setup()
        if self.config.getoption("setuponly", default=False):
            return
        session = EvalSession.of(self.config)
        self.result = self.config.stash[TAKE_TURN](self)
        if session.stop_reason is not None:
            self.session.shouldstop = f"agentv: {session.stop_reason}"
        if self.result.status == "error":
            raise errored(self.config, self.result, session.masker)

    def runtest(self) -> None:
        if self.result is not None and self.result.status == "fail":
            raise failed(self.config, self.result, EvalSession.of(self.config).masker)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.entry.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        """Show our own failures as text that is anchored at the case's line, without a traceback of ours."""
        if not isinstance(excinfo.value, EvalFailed | EvalErrored):
            return super().repr_failure(excinfo)
        return anchored_text(excinfo, self.location[0], self.entry.line, excinfo.value.headline)


@functools.cache
def function_with_fixtures(names: tuple[str, ...]) -> Callable[..., None]:
    """Return a function whose signature asks for fixtures; items of one file with the same fixtures share it."""

    def agentv_case(**_: object) -> None: ...

    keywords = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    agentv_case.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return agentv_case
