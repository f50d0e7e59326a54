"""Shows log records and prints of cases with the item they belong to, not with the item whose turn it was."""

import copy
import logging
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import harmless_in_ci, shown
from pytest_agentv.reporting.prints import STREAMS, CaseStream, current_log
from pytest_agentv.session.compat import logging_handlers, logging_outputs, put_on_top
from pytest_agentv.session.recording.recorder import RECORDER_THREAD

_FORMAT: Final = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
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
    """The process's loggers by name, in a dictionary that can be iterated while other threads add loggers.

    pytest iterates it in each phase of an item. Meanwhile a target may import modules that create loggers.
    """

    def values(self) -> Any:
        return list(super().values())


def keep_loggers_steady() -> None:
    """Make pytest's iterations over all loggers safe. Never undone, because it has no other effect."""
    manager = logging.getLogger().manager
    if type(manager.loggerDict) is dict:
        manager.loggerDict = _SteadyLoggers(manager.loggerDict)


class CaseLogHandler(logging.Handler):
    """Collects what cases log, masks secrets, and keeps it from pytest's own handlers."""

    def __init__(self, config: pytest.Config, masker: Masker) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._masker = masker
        self._foreign = logging_handlers(config)
        self._outputs = {handler: handler.formatter for handler in logging_outputs(config)}
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

    def emit(self, record: logging.LogRecord) -> None:
        log = current_log.get()
        if log is not None:
            log.lines.append(self._masker.mask(self.format(record)))


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
