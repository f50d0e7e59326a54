"""Texts that are data or code, and no prose. Import this lazily: few texts are."""

import ast
import keyword
import re
import textwrap
import warnings
from collections.abc import Iterator
from typing import Final

import yaml

from pytest_agentv.models.base import Json

FUNCTION: Final = re.compile(r"\S+\.py:[A-Za-z_]\w*")
_VALUES: Final = frozenset({"answer", "data", "case", "vars", "tool_calls", "metrics", "output", "context"})
"""Names that expressions read here and in promptfoo."""
_VALUE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_VALUES))})(?!\w)")
_WORDS: Final = re.compile(
    rf"\s*(?!(?:{'|'.join([*keyword.kwlist, *keyword.softkwlist])})\b)\w+[ \t]+(?!(?:and|for|if|in|is|not|or|else)\b)\w"
)
"""Two words at the start that no code has side by side. Most sentences begin so."""
_FENCE: Final = re.compile(r"```\w*\s(.*)```", re.DOTALL)
_QUOTES: Final = "`\"'"
_DATA: Final = re.compile(r"\{.*\}|\[.*\]", re.DOTALL)
_BLOCK: Final = re.compile(r"(?:[a-z_-]+[ ]*:[ ].*(?:\n|$)){2,}")
"""Several lines of YAML, each with a key."""
_OPTIONS: Final = frozenset({"type", "value", "weight", "required", "negate", "path", "threshold"})
"""Keys of a check. Without one, several lines may be sentences, each with a label."""
_PYTHONIC: Final = (("===", "=="), ("!==", "!="), ("&&", " and "), ("||", " or "), ("?.", "."))
"""Operators of JavaScript, in which promptfoo has expressions."""
_NOT: Final = re.compile(r"(?<!\w)!+(?=[\w(])")
"""JavaScript's `not`."""


def bare(text: str) -> str:
    """Return a text without the code fence, the backticks or the quotes around it."""
    fenced = _FENCE.fullmatch(text)
    if fenced:
        return fenced[1].strip()
    is_quoted = len(text) > 1 and text[0] in _QUOTES and text.count(text[0]) == 2 and text[-1] == text[0]
    return text[1:-1].strip() if is_quoted else text


def data_in(text: str) -> Json:
    """Return the mapping or the list that a text is in JSON or YAML; None for any other text."""
    is_block = _BLOCK.fullmatch(text) is not None
    if not is_block and not _DATA.fullmatch(text):
        return None
    try:
        found: Json = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    is_data = isinstance(found, dict | list) and not (is_block and _OPTIONS.isdisjoint(found))
    return found if is_data else None


def is_python(text: str) -> bool:
    """Whether a text is a function of a file, or Python code that calls or compares something."""
    return FUNCTION.fullmatch(text) is not None or any(map(_judges, _nodes(text)))


def judges_answer(text: str) -> bool:
    """Whether a text is code that calls or compares something, and reads the answer: `len(answer) > 100`.

    `answer is polite` and `sources in answer` are code by the letter, and are prose.
    """
    if _VALUE.search(text) is None or _WORDS.match(text) is not None:
        return False  # parsing takes 40 times as long
    for javascript, python in _PYTHONIC:
        text = text.replace(javascript, python)
    text = _NOT.sub(" not ", text).strip()
    lines = _wrapped(text).encode("utf-8", "replace").splitlines()
    return any(_reads_answer(node, lines) for node in _nodes(text))


def _nodes(text: str) -> Iterator[ast.AST]:
    """Yield all parts of Python code, which may be statements; nothing for any other text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(_wrapped(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def _wrapped(text: str) -> str:
    return f"def _():\n{textwrap.indent(text, ' ')}"


def _judges(node: ast.AST) -> bool:
    """Whether code calls or compares. `snippets in fences` and `version is 3.12` do by the letter, and are prose."""
    if not isinstance(node, ast.Compare):
        return isinstance(node, ast.Call)
    operands = (node.left, *node.comparators)
    names = [each.id for each in operands if isinstance(each, ast.Name)]
    numbers = sum(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in operands)
    return not _is_wordy(node) or len(names) + numbers <= len(node.comparators) or _VALUES.issuperset(names)


def _reads_answer(node: ast.AST, lines: list[bytes]) -> bool:
    """Whether a part of code is a call or a comparison with the answer that cannot be prose."""
    if not isinstance(node, ast.Call | ast.Compare):
        return False
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if _VALUES.isdisjoint(names):
        return False
    if isinstance(node, ast.Call):
        is_of_prose = isinstance(node.func, ast.Name) and node.func.id in _VALUES  # `answer(s)`
        end = node.func.end_col_offset or 0
        return not is_of_prose and lines[(node.func.end_lineno or 1) - 1][end : end + 1] == b"("  # `correct (answer)`
    if not _is_wordy(node):
        return True
    left, right = node.left, node.comparators[-1]
    if all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
        return isinstance(right, ast.Constant) and right.value is None
    is_display = isinstance(right, ast.List | ast.Tuple | ast.Set)
    return is_display or not isinstance(left, ast.Name | ast.Constant) or isinstance(getattr(left, "value", None), str)


def _is_wordy(node: ast.Compare) -> bool:
    """Whether a comparison has the operators of prose only: `in`, `not in`, `is`, `is not`."""
    return all(isinstance(each, ast.In | ast.NotIn | ast.Is | ast.IsNot) for each in node.ops)
