"""Log records of cases: shown with the item they belong to, not with the item on whose turn they happened."""

import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import pytest

from pytest_agentv.models.secrets import Masker
from pytest_agentv.session.compat import logging_handlers
from pytest_agentv.session.recording import RECORDER_THREAD

_FORMAT: Final = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
_OWN_LOGGER: Final = logging.getLogger("pytest_agentv")
_LONGEST_LOG: Final = 20_000


@dataclass(slots=True, eq=False)
class CaseLog:
    """The lines that a case logged."""

    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        text = "\n".join(self.lines)
        return text if len(text) <= _LONGEST_LOG else f"...\n{text[-_LONGEST_LOG:]}"


current_log: ContextVar[CaseLog | None] = ContextVar("agentv_case_log", default=None)
"""The log of the case that the running task belongs to; tasks and threads of a case inherit it."""


class CaseLogHandler(logging.Handler):
    """Collects what cases log, secrets masked, and keeps it from pytest's own handlers."""

    def __init__(self, config: pytest.Config, masker: Masker) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._masker = masker
        self._foreign = logging_handlers(config)
        self._level: int | None = None

    def install(self, *, verbose: bool) -> None:
        """Collect from now on; with `verbose` also what this package says in detail."""
        if verbose:
            self._level = _OWN_LOGGER.level
            _OWN_LOGGER.setLevel(logging.DEBUG)
        for handler in self._foreign:
            handler.addFilter(_is_of_no_case)
        logging.getLogger().addHandler(self)

    def remove(self) -> None:
        if self._level is not None:
            _OWN_LOGGER.setLevel(self._level)
            self._level = None
        for handler in self._foreign:
            handler.removeFilter(_is_of_no_case)
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        log = current_log.get()
        if log is not None:
            log.lines.append(self._masker.mask(self.format(record)))


def _is_of_no_case(record: logging.LogRecord) -> bool:
    return current_log.get() is None and record.threadName != RECORDER_THREAD
