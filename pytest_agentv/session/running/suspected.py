"""Asks a case again at once that looks broken, while the fixtures of its item are there."""

from collections.abc import Callable

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.gating.suspicion import fresh_answers
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.eval_session import EvalSession
from pytest_agentv.session.running.preparing import PreparedCase


def begin_again(
    session: EvalSession, config: pytest.Config, result: EvalResult, prepare: Callable[[], PreparedCase]
) -> Begun | None:
    """Begin to ask a case anew whose result looks broken against the baseline; None: it does not, or nobody judges."""
    answers = (
        0 if result.status == "error" else fresh_answers(config, session.options, result, session.failures.maximum)
    )
    signed = session.cases.sign(prepare()) if answers else None
    if signed is None or isinstance(signed.job, EvalResult):
        return None
    return session.cases.begin_again(signed, result, answers)
