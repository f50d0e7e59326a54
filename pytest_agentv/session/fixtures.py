"""The fixtures of the plugin: for evaluations in Python, and those that users override.

Loaded in every pytest run; what they need is imported when they are used.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentv.model.options import RunOptions
from pytest_agentv.session.compat import obstacle, overridden_fixtures
from pytest_agentv.session.options import several_targets

if TYPE_CHECKING:  # Types are imported for type checkers only, so that they cost pytest runs no time.
    from pytest_agentv.session.items import TargetCaller
    from pytest_agentv.session.python_evals import Agentv
    from pytest_agentv.targets.definitions import TargetDefinition


def python_evals() -> Any:
    """Import and return the module that makes the values. If evals cannot run here, fail the test that requests one."""
    if reason := obstacle():
        pytest.fail(reason, pytrace=False)
    from pytest_agentv.session import python_evals as values  # noqa: PLC0415 - see above

    return values


@pytest.fixture(scope="session")
def agentv_options(pytestconfig: pytest.Config) -> RunOptions:
    """The options of the run: command line, ini file and defaults put together."""
    options: RunOptions = python_evals().options_of(pytestconfig)
    return options


@pytest.fixture(scope="session")
def agentv_targets(pytestconfig: pytest.Config) -> "Mapping[str, TargetDefinition]":
    """The targets by name, as written in the targets file that is found from the folder where pytest was started."""
    targets: Mapping[str, TargetDefinition] = python_evals().targets_of(pytestconfig)
    return targets


@pytest.fixture
def agentv_target(agentv_options: RunOptions) -> str:
    """The name of the target of evals written in Python. Override it or parametrize it to choose another one."""
    name: str = python_evals().target_of(agentv_options)
    return name


@pytest.fixture
def agentv_provider(request: pytest.FixtureRequest, agentv_target: str) -> "TargetCaller":
    """A function that asks the target. Override it with a function or provider, which all cases below then ask."""
    caller: TargetCaller = python_evals().provider_of(request.node, agentv_target)
    return caller


@pytest.fixture
def agentv_judge() -> Any:
    """None: the targets file names the judge. Override it with a function or provider that judges all cases below."""
    return None


@pytest.fixture
def agentv(
    request: pytest.FixtureRequest, agentv_target: str, agentv_provider: Any, agentv_judge: Any
) -> "Iterator[Agentv]":
    """Runs and judges evals written in Python: `agentv.run(prompt, ...)`, `agentv.evaluate(answer, ...)`."""
    runner: Agentv = python_evals().agentv_of(request.node, agentv_target, agentv_provider, agentv_judge)
    yield runner
    runner.close()


def parametrize_targets(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each of several targets, unless it or a fixture of its project chooses the target."""
    targets = several_targets(metafunc.config)
    if not targets or overridden_fixtures(metafunc.definition, ["agentv_target"]):
        return
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = any("agentv_target" in str(mark.args[:1] or mark.kwargs.get("argnames")) for mark in marks)
    if not chosen:
        metafunc.parametrize("agentv_target", targets)
