"""Masks secrets in what pytest itself shows of items: captured prints and logs, tracebacks."""

import linecache
import warnings
from typing import Any

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import harmless_in_ci, visible
from pytest_agentv.session.outcomes import AgentvWarning

_REPRESENTATIONS = "_pytest._code.code"


def mask_sections(report: pytest.TestReport, masker: Masker, *, is_ours: bool) -> None:
    """Mask what was captured while an item ran.

    A case that runs ahead prints into the report of whatever item has its turn, so no report is left out. The escape
    sequences of a test that is not ours are its own affair.
    """
    if not report.sections:
        return
    clean = visible if is_ours else harmless_in_ci
    report.sections = [(title, clean(masker.mask(content))) for title, content in report.sections]


def mask_traceback(report: pytest.TestReport, masker: Masker) -> None:
    """Mask a failure that is not our own text: source lines, values of variables, messages."""
    report.longrepr = _masked(report.longrepr, masker)


def mask_warning(recorded: warnings.WarningMessage, masker: Masker) -> None:
    """Mask a warning that pytest shows at the end: targets run in its process, so theirs are among them.

    pytest shows the line of the file as well. Ours are about misspelt keys: nobody knows which of these hold a secret.
    """
    if issubclass(recorded.category, AgentvWarning):
        recorded.line = ""
    elif recorded.line is None:
        line = linecache.getline(recorded.filename, recorded.lineno).strip()
        clean = masker.mask(line)
        recorded.line = None if clean == line else clean
    text = str(recorded.message)
    clean = harmless_in_ci(masker.mask(text))
    if clean != text:
        recorded.message = UserWarning(clean)  # its category stays, and is what is shown


def _masked(value: Any, masker: Masker) -> Any:
    """Return a part of pytest's representation of an exception without secrets; its objects are changed in place."""
    if isinstance(value, str):
        return masker.mask(value)
    if isinstance(value, list | tuple):
        return type(value)(_masked(item, masker) for item in value)
    if type(value).__module__ == _REPRESENTATIONS:
        vars(value).update({name: _masked(item, masker) for name, item in vars(value).items()})
    return value
