"""Breaks the texts of failures between words, on terminals only."""

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from pytest_agentv.reporting.escaping import columns
from pytest_agentv.session.compat import TerminalReporter, is_watched
from pytest_agentv.session.showing.item_outcomes import EVALUATED

_WHOLE: Final = ("Rerun:", "Case:", "Log:")
"""The beginnings of lines that people copy from the terminal."""
_NARROWEST: Final = 40


def wrap_accounts(terminal: TerminalReporter) -> None:
    """Wrap our texts in the failed reports that pytest is about to print.

    Other plugins have read the reports already, with the original texts.
    """
    width = terminal.config.get_terminal_writer().fullwidth
    if width < _NARROWEST or not is_watched(terminal):
        return
    for report in (*terminal.stats.get("failed", ()), *terminal.stats.get("error", ())):
        if hasattr(report, EVALUATED):
            for entry in _texts(report.longrepr):
                entry.lines = [part for line in entry.lines for part in wrapped(line, width)]


def _texts(shown: Any) -> Iterator[Any]:
    """Yield those parts of a representation that are our texts, not tracebacks."""
    traceback = getattr(shown, "reprtraceback", None)
    for entry in getattr(traceback, "reprentries", ()):
        if getattr(entry, "style", None) == "value":
            yield entry


def wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines of at most `width` columns with the same indentation. Rows of tables stay whole."""
    text = line.lstrip(" ")
    if len(line) <= width or line.startswith(_WHOLE) or "  " in text or columns(line) != len(line):
        return [line]
    indent = line[: len(line) - len(text)]
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if text.startswith("- ") else indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
