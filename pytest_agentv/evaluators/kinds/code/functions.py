"""Finds a function in a file without running the file, for `agentv validate` and loading."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.loading.problems import did_you_mean

FUNCTION: Final = re.compile(r"[^\s:()\"']+\.py:[A-Za-z_]\w*|[^:()\"']+/[^:()\"']+\.py:[A-Za-z_]\w*")
"""`file.py:function`, but nothing that could be an expression."""


def function_fault(path: Path, name: str, known: Sequence[str]) -> str | None:
    """Return why a function of a file cannot judge: it is missing, or has an unknown parameter.

    Args:
        path: The file.
        name: The function.
        known: The parameters that it may have.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return f"{locate(path, line)}: {error.msg if isinstance(error, SyntaxError) else error}"
    names = list(_names(tree.body))
    if name not in names and "*" not in names:
        hint = did_you_mean(name, names)
        return f"{locate(path, None)} has no function {name!r}" + (f" ({hint})" if hint else "")
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return next((_fault(node, known) for node in reversed(found) if node.name == name), None)


def _names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements define."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
            yield from _names(inner)


def _fault(node: ast.FunctionDef | ast.AsyncFunctionDef, known: Sequence[str]) -> str | None:
    if node.decorator_list:  # it may be called differently
        return None
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    required = positional[: len(positional) - len(given.defaults)]
    required += [each for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    for each in required:
        if each.arg not in known:
            hint = name_hint(each.arg, known, f"parameters: {', '.join(known)}")
            return f"the function {node.name!r} wants {each.arg!r}, which it is not given ({hint})"
    return None


def name_hint(name: str, known: Sequence[str], otherwise: str) -> str:
    """Return the replacement for a name that code does not get."""
    from pytest_agentv.loading.foreign_keys import NAMES  # noqa: PLC0415 - only for mistakes

    return NAMES.get(name) or did_you_mean(name, known) or otherwise
