"""Finds the results of finished runs that an `xfail` mark turns around."""

from collections.abc import Iterable
from typing import Any, Final

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.results import EvalResult

STRICT_PASSES: Final = "Failed because they passed (strict `xfail`)"


def failed_as_expected(result: EvalResult | JsonObject) -> bool:
    """Whether a low score was expected. An error never is."""
    return _value(result, "status") == "fail" and isinstance(_value(result, "xfail"), str)


def expected_failures(results: Iterable[EvalResult | JsonObject]) -> frozenset[str]:
    """Return the node ids of the cases that failed as expected."""
    return frozenset(filter(None, (_node_id(each) for each in results if failed_as_expected(each))))


def unexpected_passes(results: Iterable[EvalResult | JsonObject]) -> frozenset[str]:
    """Return the node ids of items that failed because they passed: their mark is strict.

    A test may have several results. It failed as expected if one of them failed.
    """
    strict, others = set[str](), set[str]()
    for each in results:
        if _value(each, "xfail_strict") is True:
            (strict if _value(each, "status") == "pass" else others).add(_node_id(each))
    return frozenset(filter(None, strict - others))


def _node_id(result: EvalResult | JsonObject) -> str:
    node_id = _value(result, "node_id")
    return node_id if isinstance(node_id, str) else ""


def _value(result: EvalResult | JsonObject, name: str) -> Any:
    return getattr(result, name) if isinstance(result, EvalResult) else result.get(name)
