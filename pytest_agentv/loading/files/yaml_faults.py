"""Says what is wrong with a text that is no YAML."""

from typing import Final

import yaml

_HINTS: Final = {
    "did not find expected '-' indicator": "is this line indented as its neighbours are?",
    "did not find expected key": "is this line indented as its neighbours are, and a quote not closed too early?",
    "mapping values are not allowed in this context": "a text with a colon needs quotes; else look at the indentation",
    "found character that cannot start any token": "a text that begins with this character needs quotes",
    "found unknown escape character": "double quotes read backslashes: use single quotes",
}
"""The usual mistake behind a message of the parser."""


def reason_of(error: yaml.MarkedYAMLError, text: str, first_line: int) -> str:
    """Return the parser's message, with the start line of an unfinished value, or an explanation for tabs."""
    start, end = error.context_mark, error.problem_mark
    since = ""
    if start is not None and end is not None and start.line != end.line:
        since = f" that begins on line {start.line + first_line}"
    parts = (f"{error.context}{since}" if error.context else "", error.problem)
    is_tab = end is not None and text[end.index : end.index + 1] == "\t"
    hint = "a tab cannot indent YAML: use spaces" if is_tab else _HINTS.get(error.problem or "")
    return ", ".join(filter(None, parts)) + (f" ({hint})" if hint else "")
