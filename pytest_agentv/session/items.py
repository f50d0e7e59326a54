"""Eval items: the cases of an eval file in pytest's tree."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.own_parts import NO_OWN_PARTS, OwnParts
from pytest_agentv.loading.suites import CaseEntry, SuiteSource
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.eval_session import EvalSession
from pytest_agentv.session.outcomes import AgentvWarning, EvalErrored, EvalFailed
from pytest_agentv.session.target_caller import OWN_FIXTURES, own_parts
from pytest_agentv.session.texts import errored, failed

TAKE_TURN = pytest.StashKey[Callable[["EvalItem"], EvalResult]]()
"""What gives an item the result of its case, put up by the hooks."""


class EvalItem(pytest.Function):
    """One case.

    A `pytest.Function` gets every scope of fixtures through public names only; the function it stands on is never
    called. The case runs in `setup`, after the fixtures: what keeps it from being judged is a failed set-up (ERROR),
    a score below the threshold a failed call (FAILED).
    """

    def __init__(
        self, *, suite: SuiteSource, entry: CaseEntry, own_fixtures: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        self.suite = suite
        self.entry = entry
        self.own_fixtures = own_fixtures
        """Those of `OWN_FIXTURES` that a conftest or plugin overrides for the item."""
        self.reference_answer = ""
        """Set when the case has failed."""
        self.result: EvalResult | None = None
        """Set when the case has run."""
        super().__init__(**kwargs)

    def setup(self) -> None:
        __tracebackhide__ = True  # what a fixture raises is shown without us
        self.result = None
        self.user_properties.clear()  # a rerun would add its properties to those of the run before
        super().setup()
        if self.config.getoption("setuponly", default=False):
            return
        session = EvalSession.of(self.config)
        self.result = self.config.stash[TAKE_TURN](self)
        session.stop_if_needed(self.session)
        if self.result.status == "error":
            raise errored(self.config, self.result, session.masker)

    def runtest(self) -> None:
        if self.result is not None and self.result.status == "fail":
            raise failed(self.config, self.result, EvalSession.of(self.config).masker, self.reference_answer)

    def own_parts(self, names: Collection[str]) -> OwnParts:
        """Return what overridden fixtures made for this item, which is set up."""
        if not names:
            return NO_OWN_PARTS
        return own_parts(*(self.funcargs[name] if name in names else None for name in OWN_FIXTURES))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.entry.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        """Show our own failures as text that is anchored at the case's line, without a traceback of ours."""
        error = excinfo.value
        if not isinstance(error, EvalFailed | EvalErrored | AgentvWarning):
            return super().repr_failure(excinfo)
        shown = excinfo.getrepr(style="value")
        # The one representation that keeps its message in the short summary on every pytest, under xdist too.
        if shown.reprcrash is not None:
            shown.reprcrash.path = self.location[0]
            shown.reprcrash.lineno = self.entry.line
            shown.reprcrash.message = str(error) if isinstance(error, AgentvWarning) else error.headline
        return shown
