"""Eval items: the cases of an eval file in pytest's tree, and the targets that they call."""

import os
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.engine.jobs import NO_OVERRIDES, OWN_JUDGE, OWN_PROVIDER, Overrides
from pytest_agentv.engine.pool import ask_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.results import EvalResult
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python_calls import OwnCalls
from pytest_agentv.reports.figures import place_properties, result_properties, visible
from pytest_agentv.runtime.user_code import USER_LOOP
from pytest_agentv.session.compat import allow_to_pass, fixture_functions, uses_own_fixture
from pytest_agentv.session.outcomes import (
    NOTHING_ASKED,
    AgentvWarning,
    EvalErrored,
    EvalFailed,
    as_text,
    errored,
    failed,
    missing_fixture_text,
    parameter_fault,
)
from pytest_agentv.session.session import EvalSession
from pytest_agentv.store.fingerprints import source_file

# The values of `agentv_provider` and `agentv_judge`: our defaults, and those of users.

OWN_FIXTURES: Final = (OWN_PROVIDER, OWN_JUDGE)
"""Fixtures that replace targets if they are overridden."""


_CALLS: Final = pytest.StashKey["OwnCalls"]()


class TargetCaller:
    """A function that asks a target and returns its `ProviderResponse`. Nothing is judged or recorded.

    Called by an object that stands in for a target, it asks this target, for the answer that the object is to give.
    """

    def __init__(self, item: pytest.Item, open_session: Callable[[], EvalSession], target: str) -> None:
        self._open_session = open_session
        self._file = item.path
        self._target = target
        self._calls = item.stash[_CALLS] = OwnCalls()
        """Those of the object that asks the target through this function, if there is one."""

    def __call__(self, prompt: str) -> ProviderResponse:
        """Ask the target and wait for its answer. Raises `AgentvError` when there is none."""
        __tracebackhide__ = True
        session, call = self._open_session(), self._calls.current(self._file.parent, self._target)
        if call is None:
            session.skip_unasked(self._file, self._target, has_own_target=False)
        if session.loop.is_current or USER_LOOP.is_current:
            raise RuntimeError(f"{OWN_PROVIDER} waits for its answer: call it from a function that is not async")
        try:
            asking = ask_target(session.pool, session.options, self._file.parent, self._target, prompt, call=call)
            return session.loop.run(asking)
        except AgentvError as error:
            raise error.with_traceback(None) from None

    def __repr__(self) -> str:
        return f"<agentv_provider: target {self._target!r}>"


def overrides(item: pytest.Item, provider: object, judge: object) -> Overrides:
    """Return the objects of users that replace targets, made by an item's fixtures. Our own values replace nothing."""
    given = None if isinstance(provider, TargetCaller) else provider
    asks_target = given is not None and uses_own_fixture(item, OWN_PROVIDER)  # it may request the one it overrides
    return Overrides(
        given,
        judge,
        provider_files=() if given is None else _files_of_fixture(item, OWN_PROVIDER),
        judge_files=() if judge is None else _files_of_fixture(item, OWN_JUDGE),
        calls=item.stash.get(_CALLS, None) if asks_target else None,
    )


def _files_of_fixture(item: pytest.Item, name: str) -> tuple[Path, ...]:
    own = (each for each in fixture_functions(item, name) if not each.__module__.startswith("pytest_agentv."))
    return tuple(dict.fromkeys(file for file in map(source_file, own) if file is not None))


# Eval items: the cases of an eval file in pytest's tree.

_PLACE: Final = pytest.StashKey[str]()
"""The path of an eval file below the root directory."""


class EvalItem(pytest.Function):
    """One case.

    A `pytest.Function` gets fixtures of every scope through public names only. Its function is never called. The case
    runs in `setup`, after the fixtures. A case that cannot be judged is a failed set-up (ERROR); a score below the
    threshold is a failed call (FAILED).
    """

    def __init__(
        self, *, suite: SuiteSource, entry: CaseEntry, own_fixtures: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        self.suite = suite
        self.entry = entry
        self.own_fixtures = own_fixtures
        """Those of `OWN_FIXTURES` that a conftest or plugin overrides for the item."""
        self.asked = NOTHING_ASKED
        """Set when the case has failed."""
        self.result: EvalResult | None = None
        """Set when the case has a result, even if it did not run."""
        self.was_ended = False
        """Whether something has ended the item while its case ran."""
        self.properties = 0
        """How many of `user_properties` are ours."""
        super().__init__(**kwargs)

    def setup(self) -> None:
        __tracebackhide__ = True  # pytest shows errors of fixtures itself
        super().setup()
        if self.config.getoption("setuponly", default=False):
            return
        session = EvalSession.of(self.config)
        if session.options.dry_run:
            allow_to_pass(self)  # mocked answers pass
        result = session.flight.take(self)
        session.stopping.stop_if_needed(self.session)
        if result.status == "error":
            raise self._errored(result)

    def runtest(self) -> None:
        if self.result is not None and self.result.status == "fail":
            raise failed(self.config, self.result, EvalSession.of(self.config).masker, self.asked)

    def overrides(self, names: Collection[str]) -> Overrides:
        """Return the values of overridden fixtures for this item, which must be set up."""
        if not names:
            return NO_OVERRIDES
        return overrides(self, *(self.funcargs[name] if name in names else None for name in OWN_FIXTURES))

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Those of `own_fixtures` whose values do not ask what they replace."""
        return tuple(name for name in self.own_fixtures if name != OWN_PROVIDER or not uses_own_fixture(self, name))

    @cached_property
    def location(self) -> tuple[str, int | None, str]:
        """Return the same as pytest, but look for the path once for all items of a file."""
        assert self.parent is not None
        of_file = self.parent.stash
        if _PLACE not in of_file:
            of_file[_PLACE] = super().location[0]
        return of_file[_PLACE], self.entry.line - 1, self.name

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.entry.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        """Show our own failures as text at the case's line, without a traceback."""
        error = self.account_of(excinfo.value)
        if error is None:
            return super().repr_failure(excinfo)
        headline = str(error) if isinstance(error, AgentvWarning) else error.headline
        return as_text(error, excinfo.tb, headline, self._place())

    def has_foreign_properties(self) -> bool:
        """Whether a fixture or a plugin has recorded properties of the item."""
        return len(self.user_properties) != self.properties

    def annotate(self, report: pytest.TestReport) -> None:
        """Show the time of the case, which runs in the set-up, with the call. Pass its figures to JUnit and others."""
        result = self.result
        took = ((result.duration_ms if result else None) or 0) / 1000
        if report.when == "call":
            report.duration += took
        elif report.when == "setup":
            if report.passed:
                report.duration = max(0.0, report.duration - took)
            properties = place_properties(EvalSession.of(self.config).preparer.eval_file(self.suite), self.entry.line)
            if result is not None:
                properties += result_properties(result)
            self.user_properties += properties
            self.properties = len(properties)
            report.user_properties = list(self.user_properties)

    def _place(self) -> tuple[str, int]:
        """Return file and line of the case, or of its row."""
        row = self.entry.row
        if row is None or row.line is None:
            return self.location[0], self.entry.line
        return os.path.relpath(row.table.path, self.config.rootpath), row.line

    def account_of(self, error: BaseException) -> EvalFailed | EvalErrored | AgentvWarning | None:
        """Return what an error is shown as: our own text, without a traceback; None: pytest shows it."""
        if isinstance(error, EvalFailed | EvalErrored | AgentvWarning):
            return error
        if isinstance(error, pytest.FixtureLookupError):
            fault: str | None = visible(missing_fixture_text(error))
        else:
            fault = parameter_fault(error)
        if fault is not None:
            path, line = self._place()
            return EvalErrored(f"{fault}\n\nCase:   {path}:{line}", fault.partition("\n")[0])
        if self.was_ended and self.result is not None:
            return self._errored(self.result)
        return None

    def _errored(self, result: EvalResult) -> EvalErrored:
        # An item that runs again, or that is expected to fail, may never be shown.
        is_hidden = self.config.getoption("reruns", None) or any(map(self.get_closest_marker, ("flaky", "xfail")))
        masker = EvalSession.of(self.config).masker
        return errored(self.config, result, masker, is_surely_shown=not is_hidden)
