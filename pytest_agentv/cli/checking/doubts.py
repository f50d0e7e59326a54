"""Tells what is odd about cases that can be read, and what code of users raised while they were."""

from collections.abc import Iterator
from pathlib import Path

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.cases import AnyEvaluator, EvalCase
from pytest_agentv.runtime.user_errors import user_traceback


def doubts_of(case: EvalCase) -> Iterator[Problem]:
    """Yield what evaluators check in another way than their author may think, as a run warns of it."""
    for evaluator in case.evaluators or ():
        for each in evaluator.walk():
            for doubt in _doubts(each, case):
                message = f"evaluator {each.label!r}: {doubt}"
                yield Problem(Path(case.path), case.line, case.eval_id, message, level="warning")


def _doubts(evaluator: AnyEvaluator, case: EvalCase) -> list[str]:
    try:
        return [*evaluator.doubts(case)]
    except Exception as error:
        if evaluator.own_code is None:
            raise
        return [f"doubts() raised {user_traceback(error)}"]


def crash_of(error: Exception, path: Path, line: int | None) -> Problem:
    """Return that code of users broke a case, as a run says it."""
    return Problem(path, line, "", f"the case cannot be loaded: {user_traceback(error)}")
