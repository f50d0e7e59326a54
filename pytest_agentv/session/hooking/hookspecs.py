"""The hooks that conftest files and other plugins may implement.

Kinds are classes: `evaluators.base.Evaluator`. Factories are the older form: `providers.base.ProviderFactory`,
`evaluators.own.EvaluatorFactory`. `case` is a `models.cases.EvalCase`, `result` a `models.results.EvalResult`,
`response` a `providers.base.ProviderResponse`. This file is loaded by every pytest run and does not import them. A
conftest's hooks about cases hold for the cases below its folder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest


@pytest.hookspec
def pytest_agentv_providers() -> Sequence[type] | Mapping[str, Callable[..., object]]:  # type: ignore[empty-body]
    """Return provider kinds to add: classes, or a mapping from the word after `provider:` to the factory of a kind."""


@pytest.hookspec
def pytest_agentv_evaluators() -> Sequence[type] | Mapping[str, Callable[..., object]]:  # type: ignore[empty-body]
    """Return evaluator kinds to add: classes, or a mapping from the word after `type:` to the factory of a kind."""


@pytest.hookspec(firstresult=True)
def pytest_agentv_case(case: Any) -> Any:
    """Return a changed copy of a case before it runs (`case.replace(...)`); None leaves it as it is."""


@pytest.hookspec(firstresult=True)
def pytest_agentv_response(case: Any, response: Any) -> Any:
    """See what a provider answered before it is judged; return a changed copy, or None."""


@pytest.hookspec(firstresult=True)
def pytest_agentv_assert(case: Any, result: Any) -> bool | str | None:
    """Decide whether a judged case passed: True; False, a reason or an AssertionError: failed; None: not my matter."""


@pytest.hookspec
def pytest_agentv_result(case: Any, result: Any) -> None:
    """See a result when its line is written; `case` is None if the case could not be loaded."""


@pytest.hookspec
def pytest_agentv_summary(results: Sequence[Any]) -> None:
    """See all results of the run at its end, in the process that owns the terminal."""
