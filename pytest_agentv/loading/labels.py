"""Texts with a name and a colon at their start: how the name is spelt, and whether prose or code follows it."""

import re
from itertools import pairwise
from typing import Final

from pytest_agentv.loading.foreign_kinds import plain_spellings
from pytest_agentv.models.base import Record
from pytest_agentv.models.kind_table import NEGATION
from pytest_agentv.models.records import record

NAME: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*"
_LABELLED: Final = re.compile(
    rf"(?P<no>!\s*|[Nn][Oo][Tt][\s_-]+)?(?P<name>(?:similar|trajectory):[a-z-]+(?=\s*[(:])|{NAME}(?:[ ]{NAME}){{0,3}})"
    r"\s*(?:\((?P<given>[^()]*)\))?\s*:(?P<rest>.*)",
    re.DOTALL,
)
_HUMP: Final = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]{2,}")
_NUMBER: Final = re.compile(r"[<>=\s]*[\d.,]+\s*%?\s*")

_OPERATOR: Final = re.compile(r"=>|[=!<>]=")
_STATEMENT: Final = re.compile(r"[{};]|\w\.\w+\(|\breturn\b.*[(.=<>]", re.DOTALL)
_KEYWORDS: Final = frozenset(
    {
        *("async", "await", "const", "def", "delete", "else", "false", "function", "if", "instanceof", "let", "new"),
        *("nil", "null", "puts", "return", "then", "throw", "true", "typeof", "unless", "var", "void"),
    }
)
"""Words that stand beside another word in code."""
_QUOTED: Final = re.compile(r'"[^"]*"|(?<!\w)\'[^\']*\'(?!\w)|`[^`]*`')
_LETTER: Final = r"(?:[A-Za-z]|[^\x00-\x7f\d])"
"""By exclusion, because vowel signs and other marks of many scripts are no letters for Python."""
_WORD: Final = re.compile(rf"(?=.*[^\W\d_]){_LETTER}+(?:['-]{_LETTER}+)*")
_FIGURE: Final = re.compile(r"(?=.*\d)[<>=]*(?:[^\W_]|[$%+,./:~-]|[^\x00-\x7f])+")
"""A number with more to it: a range, a currency, a unit: `2-3`, `$20`, `≤100`, `5km`."""
_CURRENCY: Final = re.compile("[$\u00a2-\u00a5\u20a0-\u20cf]")
_UNSPACED: Final = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]{1,2}"
    "|[\u0e00-\u109f\u1780-\u17ff]{1,8}"
)
"""What may be a word in scripts without blanks between words: Chinese and Japanese; Thai, Lao, Burmese, Khmer."""
_DATA: Final = re.compile(r"\{.*|\[.*\]", re.DOTALL)
_ITEM: Final = "- "
_ITEMS: Final = re.compile(rf"^[ \t]*{_ITEM}", re.MULTILINE)
_COMMAS: Final = (",", "\u060c", "\u3001", "\uff0c")
"""Those of Arabic, Japanese and Chinese as well."""
_FEWEST: Final = 2
"""Words that are prose."""


@record
class Label(Record):
    """What stands before the first colon of a text, and what follows."""

    no: str
    """`!`, or a `not` with what joins it to the name."""
    name: str
    given: str | None
    """What stands in brackets: a threshold."""
    rest: str

    @property
    def written(self) -> str:
        return f"{self.no}{self.name}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name in kebab case."""
        return plain_spellings((NEGATION if self.no else "") + self.name.replace(" ", "-"))

    @property
    def words(self) -> tuple[str, ...]:
        """The name in kebab case without a `not`."""
        return tuple(each.removeprefix(NEGATION) for each in self.spellings)

    @property
    def has_mark(self) -> bool:
        """Whether it is spelt as in code: `!x`, `not-x`, `a_b`, `aB` or `x(0.8)`."""
        if self.given is not None and is_number_text(self.given):
            return True
        return bool(self.no.strip("noNOtT \t\n")) or "_" in self.name or has_humps(self.name)


def read_label(text: str) -> Label | None:
    """Return the start of a text, if it looks like a check in one text: `not-contains: sorry`, `similar(0.8): yes`."""
    found = _LABELLED.fullmatch(text)
    return found and Label(found["no"] or "", found["name"], found["given"], found["rest"].strip())


def has_humps(name: str) -> bool:
    """Whether a name has capitals within: `IsJson`. `URLs` has none."""
    return _HUMP.search(name) is not None


def is_number_text(text: str) -> bool:
    """Whether a text is a number: `0.8`, `>= 80 %`."""
    return _NUMBER.fullmatch(text) is not None


def is_prose(text: str, *, with_numbers: bool = False) -> bool:
    """Whether a text has several words, besides what it quotes, and is no list of values. A list of phrases is prose.

    With numbers, `30 days` are two words. `2-3 days` always are.
    """
    if text.startswith(_ITEM):
        return any(_has_words(item, with_numbers=with_numbers) for item in _ITEMS.split(text))
    return _DATA.fullmatch(text) is None and _has_words(text, with_numbers=with_numbers)


def has_phrases(text: str) -> bool:
    """Whether a text is a list, with hyphens before its items, of which one is prose."""
    return text.startswith(_ITEM) and is_prose(text)


def _has_words(text: str, *, with_numbers: bool) -> bool:
    written = _UNSPACED.sub(r" \g<0> ", _QUOTED.sub("", text)).split()
    tokens = [token.strip(".,;:!?()*") for token in written]
    words = sum(bool(_WORD.fullmatch(token) or _CURRENCY.fullmatch(token)) for token in tokens)
    plain = [token for token in tokens if is_number_text(token)]
    figures = sum(_FIGURE.fullmatch(token) is not None for token in tokens if token not in plain)
    numbers = len(plain) if with_numbers else 0
    is_list = all(token.endswith(_COMMAS) for token in written[:-1])
    return words > 0 and words + figures + numbers >= _FEWEST and not is_list


def is_code(text: str, *, is_likely: bool) -> bool:
    """Whether a text has signs of code in any language, and is no sentence about them: `uses === instead of ==`.

    If code is likely, whatever looks like a statement is code.
    """
    written = _QUOTED.sub("", text)
    is_statement = _STATEMENT.search(written) is not None
    if is_likely and is_statement:
        return True
    return (is_statement or _OPERATOR.search(written) is not None) and not any(map(_has_pair, written.splitlines()))


def _has_pair(line: str) -> bool:
    """Whether two words stand side by side. In code, an operator or a keyword is between them."""
    pairs = pairwise(_UNSPACED.sub(r" \g<0> ", line).split())
    return any(_is_plain(first.lstrip("(*")) and _is_plain(second.rstrip(".,;:!?)*")) for first, second in pairs)


def _is_plain(token: str) -> bool:
    return _WORD.fullmatch(token) is not None and token not in _KEYWORDS
