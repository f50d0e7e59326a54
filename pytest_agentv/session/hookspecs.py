"""The hooks that conftest files and other plugins may implement.

Every pytest run loads this file, so the types are imported for type checkers only. The hooks about cases apply to the
cases below the folder of their conftest, and the nearest conftest is asked first.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # Types are imported for type checkers only, so that they cost pytest runs no time.
    from concurrent.futures import Executor

    from pytest_agentv.evaluators.base import Evaluator
    from pytest_agentv.model.base import JsonObject
    from pytest_agentv.model.cases import EvalCase
    from pytest_agentv.model.results import EvalResult
    from pytest_agentv.providers.base import ProviderFactory, ProviderResponse
    from pytest_agentv.providers.kind import Provider


@pytest.hookspec
def pytest_agentv_providers() -> (  # type: ignore[empty-body]
    "Sequence[type[Provider]] | Mapping[str, type[Provider] | ProviderFactory]"
):
    """Return kinds of providers to add.

    A list holds classes. A mapping holds a class or a factory for each word after `provider:` in targets.yaml.
    """


@pytest.hookspec
def pytest_agentv_evaluators() -> "Sequence[type[Evaluator]] | Mapping[str, type[Evaluator]]":  # type: ignore[empty-body]
    """Return kinds of evaluators to add.

    A list holds classes. A mapping holds a class for each word after `type:` in an eval file.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_executor(config: pytest.Config) -> "Executor | None":
    """Return what runs the cases instead of this process, or None.

    Its workers see the project: under the same path, or they are started in a copy of its folder. The run shuts the
    executor down. If the executor breaks, the run ends. `--agentv-executor` overrides the hook.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_case(case: "EvalCase") -> "EvalCase | None":
    """Change a case before it runs.

    Return a changed copy (`case.replace(...)`) with the same `eval_id`, or None to leave the case as it is. An
    exception is an error of the case.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_response(case: "EvalCase", response: "ProviderResponse") -> "ProviderResponse | None":
    """See the answer of the target before it is judged.

    Return a changed copy (`response.replace(...)`), or None to leave it as it is. An exception is an error of the case.
    The hook runs in a thread of its own, several at a time.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_assert(case: "EvalCase", result: "EvalResult") -> bool | str | None:
    """Decide whether a judged case passes.

    True: it passes. False, a text or an AssertionError: it fails, and the text is the reason. None: the next hook
    decides, and at last the score. Any other exception is an error of the case. The hook is
    not called for cases that could not be judged. It runs in a thread of its own, several at a time.
    """


@pytest.hookspec
def pytest_agentv_result(case: "EvalCase | None", result: "EvalResult") -> None:
    """See a result when its line is written.

    `case` is None if the case could not be loaded. An exception is a warning. The hook runs in a thread of its own,
    several at a time.
    """


@pytest.hookspec
def pytest_agentv_summary(results: "Sequence[EvalResult]", verdict: "JsonObject | None") -> None:
    """See all results of the run at its end, in the process that owns the terminal.

    `verdict` has the keys of `<results>.verdict.json`; None: the run has neither repeats nor gates.

    An exception is a line in the summary.
    """
