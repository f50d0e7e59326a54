"""Makes foreign text safe to show: it cannot move the cursor, colour the terminal or hide characters.

In CI it also cannot send commands to the service that reads the log.
"""

import bisect
import json
import os
import re
import textwrap
from typing import Final
from unicodedata import combining, east_asian_width

from pytest_agentv.models.masking.secrets import Masker

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters except newline and tab, line separators, marks that reverse text, lone surrogates, and characters
that XML forbids.
"""

_CI_VARIABLES: Final = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_CI_COMMAND: Final = re.compile(r"(?<!\S):(?=:)|#(?=#[A-Za-z]*\[)")
"""The first character of `::error::` (GitHub), `##[error]` (GitHub, Azure) and `##vso[` (Azure), `##teamcity[`.

GitHub reads `::` only at the beginning of a line, but wrapping can turn any blank into a line break.
"""


def visible(text: str) -> str:
    """Return text with CRLF as LF, tabs as spaces and unsafe characters as Python escapes."""
    if text.isascii() and text.isprintable():
        return harmless_in_ci(text)
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return harmless_in_ci(_UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), plain))


def harmless_in_ci(text: str) -> str:
    """Return text with commands to the CI service disarmed; outside CI, return it unchanged."""
    if _CI_COMMAND.search(text) is None or not any(map(os.environ.get, _CI_VARIABLES)):
        return text
    return _CI_COMMAND.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shown(text: str, masker: Masker) -> str:
    """Return text masked and made visible. Call it before cutting: the masker cannot find half a secret."""
    return visible(masker.mask(text)).strip("\n")


def wrap(text: str, width: int) -> list[str]:
    """Return lines of at most `width` characters. Longer words, such as paths and URLs, stay whole."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    return lines


def columns(text: str) -> int:
    """Return the width of a text on a terminal: characters of East Asian scripts take two columns."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def padded(text: str, width: int) -> str:
    """Return a text with blanks up to a number of columns."""
    return text + " " * (width - columns(text))


def escaped_size(text: str) -> int:
    """Bytes of a text in ASCII JSON, without its quotes. One character takes up to twelve bytes."""
    return len(json.dumps(text)) - 2


def shortened(text: str, length: int, mark: str = "...") -> str:
    """Return a text of at most `length` characters. `mark` replaces the part that was cut."""
    return text if len(text) <= length else f"{text[: length - len(mark)]}{mark}"


def on_one_line(text: str, length: int, mark: str = "...") -> str:
    """Return a text on one line of at most `length` characters."""
    return shortened(" ".join(text.split()), length, mark)


def cut(text: str, size: int, mark: str = "...") -> str:
    """Return a text of at most `size` escaped bytes. `mark` replaces the part that was cut."""
    head = text[: size + 1]
    if len(head) == len(text) and escaped_size(text) <= size:
        return text
    space = size - escaped_size(mark)
    length = bisect.bisect_right(range(1, len(head) + 1), space, key=lambda count: escaped_size(head[:count]))
    return head[:length] + mark
