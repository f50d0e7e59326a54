"""Masks secrets in what pytest itself shows of items, and shows log records with the item they belong to."""

import copy
import linecache
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, TextIO

import pytest

from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.dumps import STREAMS, CaseHandler, CaseStream, current_log
from pytest_agentv.reports.figures import harmless_in_ci, is_own_property, shown, visible
from pytest_agentv.session.compat import TerminalReporter, logging_handlers, put_on_top
from pytest_agentv.session.outcomes import AgentvWarning, is_evaluation, may_be_eval
from pytest_agentv.session.recorder import RECORDER_THREAD

# Masks secrets in what pytest itself shows of items: captured prints and logs, tracebacks.

_REPRESENTATIONS: Final = "_pytest._code.code"
_MASKED: Final = pytest.StashKey[bool]()


def mask_from_now_on(item: pytest.Item) -> None:
    """Mask what the reports of an item show, as it uses one of our fixtures."""
    item.stash[_MASKED] = True


def is_masked(item: pytest.Item) -> bool:
    """Whether to mask what the reports of an item show. Tests may get our fixtures by `request.getfixturevalue`."""
    return is_evaluation(item) or _MASKED in item.stash


def mask_sections(report: pytest.TestReport, masker: Masker) -> None:
    """Mask what was captured while any item ran, as processes of cases may print. Clean that of our items."""
    if report.sections:
        masker.look_again()
        clean = visible if may_be_eval(report.nodeid) else harmless_in_ci
        report.sections = [(title, clean(masker.mask(content))) for title, content in report.sections]


def mask_account(report: pytest.TestReport, masker: Masker) -> None:
    """Mask a failure that is not our own text, or the reason of a skip or of an expected failure."""
    masker.look_again()  # a test may have set variables
    report.longrepr = _masked(report.longrepr, masker)
    if hasattr(report, "wasxfail"):
        report.wasxfail = _masked(report.wasxfail, masker)


def mask_properties(report: pytest.TestReport, masker: Masker) -> None:
    """Mask the properties that tests and fixtures record. Ours say which case it is, and hold no answers."""
    masker.look_again()
    report.user_properties = [
        each if is_own_property(each) else _masked(each, masker) for each in report.user_properties
    ]


def mask_suite_properties(config: pytest.Config, masker: Masker) -> None:
    """Mask the properties of the whole run, which `record_testsuite_property` records."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(properties := getattr(plugin, "global_properties", None), list):
            properties[:] = _masked(properties, masker)


def mask_end(terminal: TerminalReporter | None, masker: Masker) -> None:
    """Mask what pytest will show of `pytest.exit` or of Ctrl-C: the message, and with `--full-trace` the values."""
    masker.look_again()
    _masked(vars(terminal).get("_keyboardinterrupt_memo") if terminal is not None else None, masker)


def mask_warning(recorded: warnings.WarningMessage, masker: Masker) -> None:
    """Mask a warning that pytest shows at the end, with the line of the file. Any misspelt key may hold a secret."""
    if issubclass(recorded.category, AgentvWarning):
        recorded.line = ""
    elif recorded.line is None:
        recorded.line = masker.mask(linecache.getline(recorded.filename, recorded.lineno))
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


# Shows log records and prints of cases with the item they belong to, not with the item whose turn it was.

_OWN_LOGGER: Final = logging.getLogger("pytest_agentv")


class _MaskingFormatter(logging.Formatter):
    """Masks secrets in what another formatter returns. Makes a case's records unable to move the cursor."""

    def __init__(self, formatter: logging.Formatter, masker: Masker) -> None:
        super().__init__()
        self._formatter = formatter
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        if current_log.get() is None:
            return self._masker.mask(self._formatter.format(record))
        plain = copy.copy(record)  # the record stays as it was for other handlers
        plain.msg, plain.args = shown(record.getMessage(), self._masker), None
        return harmless_in_ci(self._masker.mask(self._formatter.format(plain)))


class _SteadyLoggers(dict[str, Any]):
    """The process's loggers by name. pytest iterates them in each phase of an item, while targets add new ones."""

    def values(self) -> Any:
        return list(super().values())


def keep_loggers_steady() -> None:
    """Make pytest's iterations over all loggers safe. Never undone, because it has no other effect."""
    manager = logging.getLogger().manager
    if type(manager.loggerDict) is dict:
        manager.loggerDict = _SteadyLoggers(manager.loggerDict)


class CaseLogHandler(CaseHandler):
    """Collects what cases log, masks secrets, and keeps it from pytest's own handlers."""

    def __init__(self, config: pytest.Config, masker: Masker) -> None:
        super().__init__(masker)
        self._foreign, outputs = logging_handlers(config)
        self._outputs = {handler: handler.formatter for handler in outputs}
        self._level: int | None = None

    def install(self, *, verbose: bool) -> None:
        """Start to collect; with `verbose`, also the details that this package logs."""
        keep_loggers_steady()
        if verbose:
            self._level = _OWN_LOGGER.level
            _OWN_LOGGER.setLevel(logging.DEBUG)
        for handler in self._foreign:
            handler.addFilter(_is_of_no_case)
        for handler, formatter in self._outputs.items():
            handler.setFormatter(_MaskingFormatter(formatter or logging.Formatter(), self._masker))
        logging.getLogger().addHandler(self)

    def remove(self) -> None:
        if self._level is not None:
            _OWN_LOGGER.setLevel(self._level)
            self._level = None
        for handler in self._foreign:
            handler.removeFilter(_is_of_no_case)
        for handler, formatter in self._outputs.items():
            handler.setFormatter(formatter)
        logging.getLogger().removeHandler(self)


def _is_of_no_case(record: logging.LogRecord) -> bool:
    return current_log.get() is None and record.threadName != RECORDER_THREAD


def route_prints(config: pytest.Config, masker: Masker) -> Callable[[], None]:
    """Keep what cases print for their own reports, and mask what others print. Return what ends that."""
    is_live = config.getoption("capture", default=None) == "no"

    def on_top(name: str, below: TextIO, is_of_run: bool) -> TextIO | CaseStream:
        if isinstance(below, CaseStream):
            return below
        return CaseStream(name, below, masker, is_live=is_live, masks=is_of_run)

    restore = put_on_top(config, on_top)

    def end() -> None:
        restore()
        for name in STREAMS:
            stream = getattr(sys, name)
            if isinstance(stream, CaseStream) and stream.masker is masker:
                setattr(sys, name, stream.below)

    return end
