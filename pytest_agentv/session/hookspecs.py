"""The hooks that conftest files and other plugins may implement.

Factories: `providers.base.ProviderFactory` and `evaluators.base.EvaluatorFactory`; this file is loaded by every pytest
run and does not import them.
"""

from collections.abc import Callable, Mapping

import pytest


@pytest.hookspec
def pytest_agentv_providers() -> Mapping[str, Callable[..., object]]:  # type: ignore[empty-body]
    """Return provider kinds to add: the word after `provider:` in targets.yaml, and the factory of its providers."""


@pytest.hookspec
def pytest_agentv_evaluators() -> Mapping[str, Callable[..., object]]:  # type: ignore[empty-body]
    """Return evaluator kinds to add: the word after `type:` in an eval file, and the factory of its evaluators."""
