"""The fixtures of the plugin: of evaluations written in Python, and to override.

Loaded in every pytest run; what they need is imported when they are used.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_agentv.session.platforms import obstacle


def _values() -> Any:
    """Import and return the module that makes the values; where evals cannot run, fail the test that asks for one."""
    if reason := obstacle():
        pytest.fail(reason, pytrace=False)
    from pytest_agentv.session.python import fixture_values  # noqa: PLC0415 - see above

    return fixture_values


@pytest.fixture(scope="session")
def agentv_options(pytestconfig: pytest.Config) -> Any:
    """The options of the run (`RunOptions`): command line, ini file and defaults put together."""
    return _values().options_of(pytestconfig)


@pytest.fixture(scope="session")
def agentv_targets(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """The targets by name (`TargetDefinition`), as written in the targets file that is found from where pytest runs."""
    targets: Mapping[str, Any] = _values().targets_of(pytestconfig)
    return targets


@pytest.fixture
def agentv_target(agentv_options: Any) -> str:
    """The name of the target of evaluations written in Python; may be overridden, and parametrized."""
    name: str = _values().target_of(agentv_options)
    return name


@pytest.fixture
def agentv_provider(request: pytest.FixtureRequest, agentv_target: str) -> Any:
    """A function that asks the target; overridden by a function or provider, that is what all cases below ask."""
    return _values().provider_of(request.node, agentv_target)


@pytest.fixture
def agentv_judge() -> Any:
    """None: the targets file names the judge; overridden by a function or provider, that judges all cases below."""
    return None


@pytest.fixture
def agentv(
    request: pytest.FixtureRequest, agentv_target: str, agentv_provider: Any, agentv_judge: Any
) -> Iterator[Any]:
    """Runs and judges evaluations written in Python: `agentv.run(prompt, ...)`, `agentv.evaluate(answer, ...)`."""
    evaluations = _values().agentv_of(request.node, agentv_target, agentv_provider, agentv_judge)
    yield evaluations
    evaluations.close()
