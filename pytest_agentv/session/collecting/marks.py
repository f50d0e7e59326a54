"""Marks and fixtures that eval files give their cases: `marks`, `skip`, `xfail`, `fixtures`, `tags`."""

import warnings
from typing import Final

import pytest

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource, names_of
from pytest_agentv.loading.keys import MARK_KEYS, is_mark, is_reason
from pytest_agentv.models.base import Json
from pytest_agentv.models.records import record
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.session.outcomes import EvalFailed


@record
class CaseMarks:
    """The marks, fixtures and keywords of a case."""

    marks: tuple[pytest.MarkDecorator, ...] = ()
    fixtures: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    """Tags: further words for `-k`."""


NONE: Final = CaseMarks()


def case_marks(suite: SuiteSource, entry: CaseEntry, warned: set[str]) -> CaseMarks:
    """Return the marks of a case: its own and its file's. Wrong values are reported when the case is loaded.

    `warned` holds the unknown marks that a warning was shown for. New ones are added.
    """
    header, own = suite.header_of(entry), entry.value if isinstance(entry.value, dict) else {}
    if MARK_KEYS.isdisjoint(own) and MARK_KEYS.isdisjoint(header):
        return NONE
    names = (*names_of(header.get("marks")), *names_of(own.get("marks")))
    marks = [_mark(name, suite, entry, warned) for name in dict.fromkeys(names) if is_mark(name)]
    skip, xfail = (own.get(key, header.get(key)) for key in ("skip", "xfail"))
    if is_reason(skip):
        marks.append(pytest.mark.skip(reason=_reason(skip)))
    if is_reason(xfail):
        marks.append(_xfail(reason=_reason(xfail)))
    return CaseMarks(
        tuple(marks),
        tuple(dict.fromkeys((*names_of(header.get("fixtures")), *names_of(own.get("fixtures"))))),
        suite.tags(entry),
    )


def _xfail(reason: str = "") -> pytest.MarkDecorator:
    """Return a mark that expects only a low score. A case that cannot be judged stays an error."""
    return pytest.mark.xfail(reason=reason, raises=EvalFailed)


def _mark(name: str, suite: SuiteSource, entry: CaseEntry, warned: set[str]) -> pytest.MarkDecorator:
    """Return a mark. Shows pytest's warning of an unknown mark once, at the line of the first case with that mark."""
    if name == "xfail":
        return _xfail()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mark: pytest.MarkDecorator = getattr(pytest.mark, name)
    for warning in caught if name not in warned else ():
        warnings.warn_explicit(visible(str(warning.message)), warning.category, str(suite.path), entry.line)
        warned.add(name)
    return mark


def _reason(value: Json) -> str:
    return value if isinstance(value, str) else "as the eval file says"
