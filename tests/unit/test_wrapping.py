"""The columns that a text takes on a terminal."""

import pytest

from pytest_agentv.reports.figures import columns, padded


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("\u4e16\u754c", 4), ("e\u0301", 1), ("\uff21", 2), ("", 0), ("Gr\u00fc\u00dfe", 5)]
)
def test_columns_of_a_text(text: str, width: int) -> None:
    assert columns(text) == width
    assert columns(padded(text, 8)) == 8
