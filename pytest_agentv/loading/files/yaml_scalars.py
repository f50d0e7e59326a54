"""Values of YAML scalars in the core schema 1.2, as in AgentV: `yes` is a text, `0o10` is 8."""

import re
from typing import Final

from pytest_agentv.models.base import Json

_CONSTANTS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER: Final = re.compile(
    r"(?P<int>[-+]?[0-9]+)|0o(?P<oct>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
    re.ASCII,
)
_FLOAT_BITS: Final = 1024
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")
_OLD_BREAKS: Final = "\x85\u2028\u2029"
"""Line breaks in YAML 1.1, which libyaml and PyYAML read, but not in 1.2."""
_STAND_INS: Final = "\U0010fffb\U0010fffc\U0010fffd"
"""Characters for private use that no file holds."""
_HIDING: Final = str.maketrans(_OLD_BREAKS, _STAND_INS)
_SHOWING: Final = str.maketrans(_STAND_INS, _OLD_BREAKS)
_NO_TAG: Final = "!"
"""What YAML puts before a value that is to be read as if it had quotes."""
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_TAGGED_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
    "map": (dict,),
    "seq": (list,),
}
_TEXT_TAGS: Final = frozenset((f"{_TAG_PREFIX}str", f"{_TAG_PREFIX}timestamp"))


def hide_old_breaks(text: str) -> str:
    """Return a YAML text of the same length in which a parser for YAML 1.1 finds only the line breaks of 1.2."""
    return text.translate(_HIDING) if any(each in text for each in _OLD_BREAKS) else text


def show_old_breaks(text: str) -> str:
    """Return a scalar of a text that `hide_old_breaks` has changed, as it is written."""
    return text.translate(_SHOWING)


def plain_value(text: str) -> Json:
    """Return the value of an unquoted scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in _FIRST_OF_NUMBER and (match := _NUMBER.fullmatch(text)):
        if match["int"]:
            return _whole_number(text, 10)
        if match["oct"]:
            return _whole_number(match["oct"], 8)
        return _whole_number(match["hex"], 16) if match["hex"] else float(text)
    return text


def _whole_number(digits: str, base: int) -> int | float:
    """Return a whole number. A number too large for a float becomes infinite, as in AgentV."""
    try:
        number = int(digits, base)
    except ValueError:  # more digits than Python converts
        return float(digits)
    return number if number.bit_length() < _FLOAT_BITS else float("-inf" if number < 0 else "inf")


def unread_tag(tag: str) -> str | None:
    """Return a tag that we do not read, as it is written; None: we read it."""
    kind = tag.removeprefix(_TAG_PREFIX)
    if tag == _NO_TAG or tag in _TEXT_TAGS or (kind != tag and kind in _TAGGED_TYPES):
        return None
    return tag if kind == tag else f"!!{kind}"


def tagged_value(written: Json, tag: str) -> Json:
    """Return the value of a scalar's text, a list or a mapping with a tag that we read.

    Raises `ValueError` if it is not of the tag's type.
    """
    if tag == _NO_TAG or (tag in _TEXT_TAGS and isinstance(written, str)):
        return written
    kind = tag.removeprefix(_TAG_PREFIX)
    expected = _TAGGED_TYPES.get(kind, (str,))
    value = plain_value(written) if isinstance(written, str) else written
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        shown = "a mapping" if isinstance(written, dict) else "a list" if isinstance(written, list) else repr(written)
        raise ValueError(f"{shown} is no !!{kind}")
    return value
