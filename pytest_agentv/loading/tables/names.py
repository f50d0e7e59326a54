"""Names of tables: files by their suffixes, and functions."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.errors import AgentvError

CallFunction: TypeAlias = Callable[[str, Path], Iterable[object]]
"""Calls a function without arguments, by its name and the folder of the eval file. Returns its rows.

Raises `AgentvError`.
"""

SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".yaml", ".yml")
_FUNCTION: Final = re.compile(r"[^:*?\[\]{}]+\.py:\w+|[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names_a_table(name: str) -> bool:
    """Whether a text can only be the name of a table, by its suffix, or of a function."""
    return name.lower().endswith(SUFFIXES) or is_function(name)


def is_function(name: str) -> bool:
    """Whether a text is `file.py:function` or `package.module:function`."""
    return _FUNCTION.fullmatch(name) is not None


def no_functions(name: str, folder: Path) -> Iterable[object]:  # noqa: ARG001 - used where no project code may run
    """Raise `AgentvError`, because no function may be called here."""
    raise AgentvError(f"{name}: functions are not called here")
