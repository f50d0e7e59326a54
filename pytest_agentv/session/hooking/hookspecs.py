"""The hooks that conftest files and other plugins may implement.

Every pytest run loads this file, so the types are texts: `pytest_agentv` imports them when somebody asks for them. The
hooks about cases apply to the cases below the folder of their conftest, and the nearest conftest is asked first.
"""

from collections.abc import Mapping, Sequence

import pytest

import pytest_agentv as agentv  # by another name: pytest takes all names that begin with `pytest_` here for hooks


@pytest.hookspec
def pytest_agentv_providers() -> (  # type: ignore[empty-body]
    "Sequence[type[agentv.Provider]] | Mapping[str, type[agentv.Provider] | agentv.ProviderFactory]"
):
    """Return kinds of providers to add.

    A list holds classes. A mapping holds a class or a factory for each word after `provider:` in targets.yaml.
    """


@pytest.hookspec
def pytest_agentv_evaluators() -> (  # type: ignore[empty-body]
    "Sequence[type[agentv.Evaluator]] | Mapping[str, type[agentv.Evaluator] | agentv.EvaluatorFactory]"
):
    """Return kinds of evaluators to add.

    A list holds classes. A mapping holds a class or a factory for each word after `type:` in an eval file.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_case(case: "agentv.EvalCase") -> "agentv.EvalCase | None":
    """Change a case before it runs.

    Return a changed copy (`case.replace(...)`) with the same `eval_id`, or None to leave the case as it is. An
    exception is an error of the case.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_response(
    case: "agentv.EvalCase", response: "agentv.ProviderResponse"
) -> "agentv.ProviderResponse | None":
    """See the answer of the target before it is judged.

    Return a changed copy (`response.replace(...)`), or None to leave it as it is. An exception is an error of the case.
    The hook runs in a thread of its own, several at a time.
    """


@pytest.hookspec(firstresult=True)
def pytest_agentv_assert(case: "agentv.EvalCase", result: "agentv.EvalResult") -> bool | str | None:
    """Decide whether a judged case passes.

    True: it passes. False, a text or an AssertionError: it fails, and the text is the reason. None: the next hook
    decides, and at last the score. Any other exception is an error of the case. Cases that could not be judged are not
    asked about. The hook runs in a thread of its own, several at a time.
    """


@pytest.hookspec
def pytest_agentv_result(case: "agentv.EvalCase | None", result: "agentv.EvalResult") -> None:
    """See a result when its line is written.

    `case` is None if the case could not be loaded. An exception is a warning. The hook runs in a thread of its own,
    several at a time.
    """


@pytest.hookspec
def pytest_agentv_summary(results: "Sequence[agentv.EvalResult]") -> None:
    """See all results of the run at its end, in the process that owns the terminal.

    An exception is a line in the summary.
    """
