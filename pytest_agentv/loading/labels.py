"""Texts with a name and a colon at their start: how the name is spelt, and whether prose or code follows it."""

import ast
import re
import textwrap
import warnings
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

FUNCTION: Final = re.compile(r"\S+\.py:[A-Za-z_]\w*")
_CODE_MARK: Final = re.compile(r"=>|[=!<>]=|[{};]|\w\.\w+\(|\breturn\b.*[(.=<>]", re.DOTALL)
_QUOTED: Final = re.compile(r'"[^"]*"|(?<!\w)\'[^\']*\'(?!\w)|`[^`]*`')
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_DATA: Final = ("{", "[", "- ")
_FEWEST: Final = 2
"""Words that are prose."""
_VALUES: Final = frozenset({"answer", "data", "case", "vars", "tool_calls", "metrics", "output", "context"})
"""Names that expressions read here and in promptfoo."""


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
    """Whether a text has several words, besides what it quotes, and is no list of values.

    With numbers, `30 days` are two words.
    """
    written = _QUOTED.sub("", text).split()
    tokens = [token.strip(".,;:!?()*") for token in written]
    words = sum(_WORD.fullmatch(token) is not None for token in tokens)
    numbers = sum(is_number_text(token) for token in tokens) if with_numbers else 0
    is_list = all(token.endswith(",") for token in written[:-1])
    return words > 0 and words + numbers >= _FEWEST and not is_list and not text.startswith(_DATA)


def has_code_mark(text: str) -> bool:
    """Whether a text has signs of code in any language, such as `=>`."""
    return _CODE_MARK.search(_QUOTED.sub("", text)) is not None


def is_python(text: str) -> bool:
    """Whether a text is a function of a file, or Python code that calls or compares something."""
    if FUNCTION.fullmatch(text):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"def _():\n{textwrap.indent(text, ' ')}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_judges(node) for node in ast.walk(tree))


def _judges(node: ast.AST) -> bool:
    """Whether code calls or compares. `snippets in fences` does by the letter, and is prose."""
    if not isinstance(node, ast.Compare):
        return isinstance(node, ast.Call)
    names = [each.id for each in (node.left, *node.comparators) if isinstance(each, ast.Name)]
    is_wordy = all(isinstance(each, ast.In | ast.NotIn | ast.Is | ast.IsNot) for each in node.ops)
    return not is_wordy or len(names) <= len(node.comparators) or _VALUES.issuperset(names)
