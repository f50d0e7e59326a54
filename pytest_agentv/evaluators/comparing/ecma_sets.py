r"""Writes characters and sets of JavaScript's regular expressions in the language of the package `regex`.

No flag is needed to read what is written here: `\d` of the package is not that of JavaScript.
"""

import re
from typing import Final

ANY: Final = r"[\x00-\U0010ffff]"
NONE: Final = r"[^\x00-\U0010ffff]"
DOT: Final = r"[^\n\r\u2028\u2029]"
_WORD: Final = "0-9A-Za-z_"
EDGE: Final = f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))"
NO_EDGE: Final = f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))"
SETS: Final = {
    "d": "0-9",
    "D": r"\x00-/:-\U0010ffff",
    "w": _WORD,
    "W": r"\x00-/:-@\x5b-\x5e`\x7b-\U0010ffff",
    # The white space and the line terminators of ECMAScript.
    "s": r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "S": (
        r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
        r"\u3001-\ufefe\uff00-\U0010ffff"
    ),
}
"""The inner part of a class by the letter of an escape. A class cannot hold the complement of another."""

_CATEGORY_NAMES: Final = """
C Other Cc Control cntrl Cf Format Cn Unassigned Co Private_Use Cs Surrogate L Letter LC Cased_Letter Ll
Lowercase_Letter Lm Modifier_Letter Lo Other_Letter Lt Titlecase_Letter Lu Uppercase_Letter M Mark Combining_Mark
Mc Spacing_Mark Me Enclosing_Mark Mn Nonspacing_Mark N Number Nd Decimal_Number digit Nl Letter_Number No
Other_Number P Punctuation punct Pc Connector_Punctuation Pd Dash_Punctuation Pe Close_Punctuation Pf
Final_Punctuation Pi Initial_Punctuation Po Other_Punctuation Ps Open_Punctuation S Symbol Sc Currency_Symbol Sk
Modifier_Symbol Sm Math_Symbol So Other_Symbol Z Separator Zl Line_Separator Zp Paragraph_Separator Zs
Space_Separator
"""
_BINARY_NAMES: Final = """
ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Bidi_Control Bidi_C Bidi_Mirrored Bidi_M Case_Ignorable CI
Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM Changes_When_Lowercased CWL
Changes_When_Titlecased CWT Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep
Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation EPres
Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit Hex
IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS Ideographic Ideo Join_Control
Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn
Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted
SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS White_Space space
XID_Continue XIDC XID_Start XIDS
"""
"""The properties that need no value, as ECMAScript spells them. The package takes more, such as `Greek` and `alnum`."""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_BINARY: Final = frozenset(_BINARY_NAMES.split())
_BLOCKS: Final = {"IDC": "ID_Continue", "VS": "Variation_Selector"}
"""Short names that the package takes for those of blocks."""
_SCRIPT: Final = re.compile(r"(?:Script|sc|Script_Extensions|scx)=(?:[A-Z][a-z]+){1,2}(?:_[A-Z][a-z]+)*")


def property_set(letter: str, name: str) -> str | None:
    r"""Return the inner part of a class for `\p{name}` or `\P{name}`; None if ECMAScript has no such property."""
    category = name.removeprefix("General_Category=").removeprefix("gc=")
    if category in _CATEGORIES:
        return rf"\{letter}{{gc={category}}}"
    return rf"\{letter}{{{_BLOCKS.get(name, name)}}}" if name in _BINARY or _SCRIPT.fullmatch(name) else None


def literal(code: int) -> str:
    """Return what matches one character, within a class and outside."""
    char = chr(code)
    return char if char.isalnum() and char.isascii() else rf"\U{code:08x}"
