"""Tests of a user, with types. An acceptance test runs them as `test_own.py`; `mypy` checks them."""

import pytest

from pytest_agentv import Agentv, EvalErrored, EvalFailed, PythonEvalResult, TargetCaller
from typed_project.own_conftest import Bound, Contains, Loud


def test_it_greets(agentv: Agentv) -> None:
    result: PythonEvalResult = agentv.run(
        "Ada", evaluators=[Contains(value="Hello"), {"name": "cheap", "type": "costs"}]
    )
    result.assert_passed()
    objects = [Loud(value="hello"), Loud(value="ada")]
    agentv.run("Ada", evaluators=objects).assert_passed()
    assert result.evaluator_results is not None
    assert [each.name for each in result.evaluator_results] == ["contains", "cheap"]


def test_it_is_asked(agentv_provider: TargetCaller) -> None:
    assert agentv_provider("Ada").cost_usd == 0.5


def test_what_fails(agentv: Agentv, names: list[str]) -> None:
    assert names == ["default", "echo", "jsonl"]
    with pytest.raises(EvalFailed):
        agentv.evaluate("Bye", evaluators=[Contains(value="Hello")]).assert_passed()


def test_what_breaks(agentv: Agentv) -> None:
    """The run has an error, which no test can hide."""
    with pytest.raises(EvalErrored, match="too short"):
        agentv.evaluate("Bye", evaluators=[Contains(value="Bye", length=Bound(least=9))])


def check_that_mistakes_are_found(agentv: Agentv) -> None:
    """`mypy` warns of each comment below that it has no use for."""
    agentv.run("Ada", evaluators=[7])  # type: ignore[list-item]
    agentv.run("Ada", treshold=0.5)  # type: ignore[call-arg]
    agentv.run("Ada").scores  # type: ignore[attr-defined] # noqa: B018
    Contains(value="Hello", valeu="")  # type: ignore[call-arg]
    from pytest_agentv import Evalutor  # type: ignore[attr-defined] # noqa: F401, PLC0415
