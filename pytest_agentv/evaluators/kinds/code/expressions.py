"""Expressions of Python: which names they read."""

import builtins
import types
from collections.abc import Iterator, Sequence
from functools import lru_cache

from pytest_agentv.evaluators.kinds.code.functions import name_hint


@lru_cache(maxsize=512)
def compiled(expression: str) -> types.CodeType:
    """Return the code of an expression. Raises `SyntaxError` and `ValueError`."""
    return compile(expression.strip(), "<python>", "eval")


def require_known(code: types.CodeType, names: Sequence[str]) -> None:
    """Raise `ValueError` for an unknown name, before an answer is paid for."""
    own = frozenset(_named(code, "STORE_NAME", "STORE_GLOBAL"))
    for name in _read(code):
        if name not in names and name not in own and not hasattr(builtins, name):
            hint = name_hint(name, names, f"names: {', '.join(names)}")
            raise ValueError(f"the name {name!r} is not known ({hint})")


def names_read(code: types.CodeType) -> frozenset[str]:
    """Return the names that an expression reads, without those of attributes."""
    return frozenset(_read(code))


def _read(code: types.CodeType) -> Iterator[str]:
    return _named(code, "LOAD_NAME", "LOAD_GLOBAL")


def _named(code: types.CodeType, *instructions: str) -> Iterator[str]:
    """Yield the names that some instructions have, in their order."""
    import dis  # noqa: PLC0415 - only for expressions

    found = (each for part in _codes(code) for each in dis.get_instructions(part))
    return (each.argval for each in found if each.opname in instructions)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of an expression, and that of the generators, comprehensions and lambdas within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)
