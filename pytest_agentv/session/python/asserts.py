"""Finds tests that cannot fail, because Python leaves their assertions out."""

import ast

import pytest

from pytest_agentv.errors import locate


def left_out(item: pytest.Item) -> str | None:
    """Return why a test cannot fail; None: it can.

    pytest runs the assertions of test files even if Python leaves them out. It does not with `--assert=plain`.
    """
    if __debug__ or item.config.getoption("assertmode") != "plain":
        return None
    try:
        statements = ast.walk(ast.parse(item.path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None
    line = next((statement.lineno for statement in statements if isinstance(statement, ast.Assert)), None)
    if line is None:
        return None
    return (
        f"{locate(item.path, line)}: Python leaves out each `assert` (-O or PYTHONOPTIMIZE, with --assert=plain), so "
        "this test would pass whatever the answer is. Leave out one of the two options, or use `.assert_passed()`"
    )
