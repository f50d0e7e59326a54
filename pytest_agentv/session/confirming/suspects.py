"""Asks the suspected cases of a run again, before the run is judged."""

from typing import Any

import pytest

from pytest_agentv.session.confirming.again import ask_again


def confirm_suspects(session: pytest.Session, section: Any) -> None:
    """Ask the suspected cases again. Their answers are added to the results file."""
    for answers, results in section.suspects().items():
        ask_again(session, results, answers)
