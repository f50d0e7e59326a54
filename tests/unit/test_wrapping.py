"""Lines of failures on a terminal: broken between words, as wide as it is."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.reports.figures import columns, padded
from pytest_agentv.session.compat import is_watched
from pytest_agentv.session.texts import wrapped


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        ("", [""]),
        ("  one two three four five", ["  one two three", "  four five"]),
        ("  - one two three four", ["  - one two", "    three four"]),
        ("one two three four five six", ["one two three", "four five six"]),
        ("  " + "x" * 30, ["  " + "x" * 30]),
        ("Rerun:  pytest a.yaml::case --flag", ["Rerun:  pytest a.yaml::case --flag"]),
        ("name    type    0.500  1", ["name    type    0.500  1"]),
        ("  \u4e16\u754c " * 5, ["  \u4e16\u754c " * 5]),
    ],
)
def test_a_line_is_broken_between_words(line: str, lines: list[str]) -> None:
    assert wrapped(line, 16) == lines


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("\u4e16\u754c", 4), ("e\u0301", 1), ("\uff21", 2), ("", 0), ("Gr\u00fc\u00dfe", 5)]
)
def test_columns_of_a_text(text: str, width: int) -> None:
    assert columns(text) == width
    assert columns(padded(text, 8)) == 8


@pytest.mark.parametrize("isatty", [True, False, lambda: True, lambda: False])
def test_whether_a_terminal_is_watched_is_known_on_every_pytest(isatty: Any) -> None:
    terminal: Any = SimpleNamespace(isatty=isatty)
    assert is_watched(terminal) == (isatty() if callable(isatty) else isatty)
