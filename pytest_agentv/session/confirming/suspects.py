"""Asks the suspected cases of a run again, before the run is judged."""

from typing import Any

import pytest

from pytest_agentv.session.confirming.again import ask_again


def confirm_suspects(session: pytest.Session, section: Any) -> None:
    """Ask the suspected cases again. Their answers are added to the results file, and to a JUnit file."""
    junit = session.config.pluginmanager.get_plugin("agentv-junit")
    for answers, results in section.suspects().items():
        asked = ask_again(session, results, answers)
        if junit is not None:
            junit.renew(asked)
