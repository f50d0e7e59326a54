"""Eval files: the collectors of eval items, with their marks and fixtures."""

import functools
import os
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from pytest_agentv.cases.entries import COLLECTED_KEYS, CaseEntry, SuiteSource, names_of
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import SourceError
from pytest_agentv.files.places import is_reason, mark_fault
from pytest_agentv.files.problems import Hint, Problem, join_problems
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.reports.figures import shown, visible
from pytest_agentv.session.compat import overridden_fixtures
from pytest_agentv.session.hooks import participate
from pytest_agentv.session.items import OWN_FIXTURES, EvalItem
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import AgentvWarning, EvalFailed, as_text, short_reason, show_warnings, unique_names

# Marks and fixtures that eval files give their cases: `marks`, `skip`, `xfail`, `fixtures`, `tags`.


_REASON: Final = "as the eval file says"
_MARKS = pytest.StashKey[dict[str, pytest.MarkDecorator]]()


def case_marks(
    suite: SuiteSource, entry: CaseEntry, known: dict[str, pytest.MarkDecorator]
) -> tuple[list[pytest.MarkDecorator], tuple[str, ...]]:
    """Return the marks and the fixtures of a case: its own and its file's. Its loading reports wrong values.

    `known` holds the marks of this run by name. New ones are added.
    """
    header, own = suite.header_of(entry), entry.value if isinstance(entry.value, dict) else {}
    if not any(key in own or key in header for key in COLLECTED_KEYS):
        return [], ()
    marks = []
    for name in dict.fromkeys((*names_of(header.get("marks")), *names_of(own.get("marks")))):
        if mark_fault(name) is None:
            if name not in known:
                known[name] = _xfail("") if name == "xfail" else _mark(name, suite, entry)
            marks.append(known[name])
    skip, xfail = (own.get(key, header.get(key)) for key in ("skip", "xfail"))
    if is_reason(skip):
        marks.append(pytest.mark.skip(reason=skip if isinstance(skip, str) else _REASON))
    if is_reason(xfail):
        marks.append(_xfail(xfail if isinstance(xfail, str) else _REASON))
    fixtures = dict.fromkeys((*names_of(header.get("fixtures")), *names_of(own.get("fixtures"))))
    return marks, tuple(fixtures)


def _xfail(reason: str) -> pytest.MarkDecorator:
    """Return a mark that expects only a low score. A case that cannot be judged stays an error."""
    return pytest.mark.xfail(reason=reason, raises=EvalFailed)


def _mark(name: str, suite: SuiteSource, entry: CaseEntry) -> pytest.MarkDecorator:
    """Return a mark. Shows pytest's warning of an unknown mark at the line of the case."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mark: pytest.MarkDecorator = getattr(pytest.mark, name)
    for warning in caught:
        warnings.warn_explicit(visible(str(warning.message)), warning.category, str(suite.path), entry.line)
    return mark


# Eval files: the collectors of eval items.


class _FileWithFaults(pytest.File):
    """A file that shows its faults in the short summary too. pytest itself shows only the name of the file."""

    agentv_headline: str | None = None
    """The text of the short summary, if the file is broken."""

    def agentv_mask(self, report: pytest.CollectReport) -> None:
        """Mask what was captured while the file was collected: a function that makes its rows may print."""
        masker = Masker.of_environment()
        report.sections = [(title, visible(masker.mask(text))) for title, text in report.sections]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        if not isinstance(excinfo.value, self.CollectError):
            return super().repr_failure(excinfo)
        reason, name = str(excinfo.value), os.path.relpath(self.path, self.config.rootpath)
        self.agentv_headline = short_reason(reason.partition("\n")[0], name)
        if hasattr(self.config, "workerinput"):  # the controller shows a text once if all workers send the same
            return super().repr_failure(excinfo)
        return as_text(excinfo.value, excinfo.tb, self.agentv_headline, (name, 1))


class EvalFile(pytest.Module, _FileWithFaults):
    """An eval file. A `pytest.Module`, because module-scoped fixtures need one, with a module object of its own."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        return module

    def collect(self) -> Iterable[EvalItem]:
        suite = self._read_suite()
        shared: dict[tuple[str, ...], Any] = {}
        own = self._own_fixtures(suite)
        known = self.config.stash.setdefault(_MARKS, {})
        for name, entry in zip(unique_names(entry.base_name for entry in suite.entries), suite.entries, strict=True):
            marks, wanted = case_marks(suite, entry, known)
            fixtures = tuple(dict.fromkeys((*wanted, *own))) if own else wanted
            item: EvalItem = EvalItem.from_parent(
                self,
                name=name,
                suite=suite,
                entry=entry,
                own_fixtures=own,
                callobj=function_with_fixtures(fixtures),
                fixtureinfo=shared.get(fixtures),
            )
            # Finding the fixtures anew for each item doubles the time of 10,000 items.
            shared[fixtures] = item._fixtureinfo
            for mark in marks:
                item.add_marker(mark)
            if tags := suite.tags(entry):
                item.extra_keyword_matches.update(tags)  # further words for `-k`
            yield item

    def _own_fixtures(self, suite: SuiteSource) -> tuple[str, ...]:
        """Return our fixtures that this file's conftest overrides. Only these are set up for its cases."""
        if not suite.entries:
            return ()
        probe: EvalItem = EvalItem.from_parent(
            self, name="probe", suite=suite, entry=suite.entries[0], callobj=function_with_fixtures(OWN_FIXTURES)
        )
        return overridden_fixtures(probe, OWN_FIXTURES)

    def _read_suite(self) -> SuiteSource:
        try:
            session = participate(self.config)
            suite = read_suite(self.path, call_row_maker, session.options.chosen_targets)
            refused = [problem for problem in suite.problems if not isinstance(problem, Hint)]
            if refused and session.options.strict:
                raise self.CollectError(join_problems(refused))
            show_warnings(suite.problems, session.masker)
        except (SourceError, AgentvWarning, pytest.UsageError) as error:
            raise self.CollectError(shown(str(error), Masker.of_environment())) from None
        return suite


class LeftOutFile(_FileWithFaults):
    """A file whose cases are not collected, because it holds none or has the name of another kind of file."""

    def __init__(self, *, problem: Problem, **kwargs: Any) -> None:
        self._problem = problem
        super().__init__(**kwargs)

    def collect(self) -> Iterable[pytest.Item]:
        try:
            if self._problem.level == "error" or run_options(self.config).strict:
                raise self.CollectError(str(self._problem))
            show_warnings([self._problem], Masker())
        except (AgentvWarning, pytest.UsageError) as error:
            raise self.CollectError(str(error)) from None
        return ()


@functools.cache
def function_with_fixtures(names: tuple[str, ...]) -> Callable[..., None]:
    """Return a function that requests fixtures by a mark, as a name such as `my-shop` is no parameter.

    It is in this module, because pytest shows frames of the items' module in the traceback of a failing fixture.
    """

    def agentv_case(**_: object) -> None: ...

    if names:
        agentv_case.pytestmark = [pytest.mark.usefixtures(*names).mark]  # type: ignore[attr-defined]
    return agentv_case
