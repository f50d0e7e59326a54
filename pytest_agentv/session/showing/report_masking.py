"""Masks secrets in what pytest itself shows of items: captured prints and logs, tracebacks."""

import linecache
import warnings
from typing import Any, Final

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import harmless_in_ci, visible
from pytest_agentv.session.compat import TerminalReporter
from pytest_agentv.session.names import is_evaluation
from pytest_agentv.session.outcomes import AgentvWarning
from pytest_agentv.session.showing.properties import is_own, suite_properties

_REPRESENTATIONS: Final = "_pytest._code.code"
_MASKED: Final = pytest.StashKey[bool]()
"""Whether an item has used one of our fixtures."""
_SUBTESTS: Final = "agentv-subtests"
_SUBTEST_CONTEXTS: Final = ("SubtestContext", "SubTestContext")
"""The classes of pytest and of pytest-subtests that hold the message and the parameters of a subtest."""


def mask_from_now_on(item: pytest.Item) -> None:
    """Mask what the reports of an item show, as it uses one of our fixtures."""
    item.stash[_MASKED] = True


def is_masked(item: pytest.Item) -> bool:
    """Whether to mask what the reports of an item show. Tests may get our fixtures by `request.getfixturevalue`."""
    return is_evaluation(item) or _MASKED in item.stash


def mask_sections(report: pytest.TestReport, masker: Masker, *, is_ours: bool) -> None:
    """Mask what was captured while an item ran.

    Every report is masked, because capturing includes what processes of other cases print. Escape sequences are removed
    from our items only.
    """
    if not report.sections:
        return
    masker.look_again()
    clean = visible if is_ours else harmless_in_ci
    report.sections = [(title, clean(masker.mask(content))) for title, content in report.sections]


def mask_account(report: pytest.TestReport, masker: Masker) -> None:
    """Mask a failure that is not our own text, or the reason of a skip or of an expected failure.

    A failure has source lines, values of variables, and messages.
    """
    reason = getattr(report, "wasxfail", None)
    if report.longrepr is None and reason is None:
        return
    masker.look_again()  # a test may have set variables
    report.longrepr = _masked(report.longrepr, masker)
    if reason is not None:
        vars(report)["wasxfail"] = _masked(reason, masker)


def mask_properties(report: pytest.TestReport, masker: Masker) -> None:
    """Mask the properties that tests and fixtures record. Ours say which case it is, and hold no answers."""
    if not all(map(_is_ours, report.user_properties)):
        masker.look_again()
        report.user_properties = [each if _is_ours(each) else _masked(each, masker) for each in report.user_properties]


def _is_ours(given: object) -> bool:
    """Whether a property is ours. A plugin may put anything into the list."""
    return isinstance(given, tuple) and len(given) == 2 and is_own(given[0])


def mask_suite_properties(config: pytest.Config, masker: Masker) -> None:
    """Mask the properties of the whole run, which `record_testsuite_property` records."""
    properties = suite_properties(config)
    properties[:] = _masked(properties, masker)


def mask_end(terminal: TerminalReporter | None, masker: Masker) -> None:
    """Mask what pytest will show of `pytest.exit` or of Ctrl-C: the message, and with `--full-trace` the values."""
    masker.look_again()
    _masked(vars(terminal).get("_keyboardinterrupt_memo") if terminal is not None else None, masker)


class SubtestMasking:
    """Masks what subtests add to their reports after these were made: message, parameters, captured prints and logs."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker

    @staticmethod
    def join(config: pytest.Config, masker: Masker) -> None:
        """Take part from the first test in Python on. A run of eval files has no subtests, and need not pay for it."""
        if not config.pluginmanager.has_plugin(_SUBTESTS):
            config.pluginmanager.register(SubtestMasking(masker), _SUBTESTS)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        context = getattr(report, "context", None)
        if type(context).__name__ not in _SUBTEST_CONTEXTS:
            return
        mask_sections(report, self._masker, is_ours=False)
        for name in ("msg", "kwargs"):
            object.__setattr__(context, name, _masked(getattr(context, name, None), self._masker))  # it is frozen


def mask_warning(recorded: warnings.WarningMessage, masker: Masker) -> None:
    """Mask a warning that pytest shows at the end. Targets run in its process, so it may be theirs.

    pytest also shows the line of the file. Our warnings are about misspelt keys, and any of these may hold a secret.
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
        recorded.message = UserWarning(clean)  # pytest shows only its category


def _masked(value: Any, masker: Masker) -> Any:
    """Mask a part of pytest's representation of an exception. Changes its objects in place."""
    if isinstance(value, str):
        return masker.mask(value)
    if isinstance(value, dict):
        return {name: _masked(item, masker) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, masker) for item in value]
    if isinstance(value, tuple):
        items = list(value)
        clean = [_masked(item, masker) for item in items]
        return value if clean == items else tuple(clean)  # a named tuple cannot be made of its items
    if type(value).__module__ == _REPRESENTATIONS:
        vars(value).update({name: _masked(item, masker) for name, item in vars(value).items()})
    return value
