"""Loggers that targets make while pytest walks through all of them."""

import logging

import pytest

from pytest_agentv.session.masks import keep_loggers_steady


@pytest.fixture(autouse=True)
def loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "loggerDict", dict(logging.root.manager.loggerDict))


def test_a_new_logger_does_not_disturb_a_walk_through_all() -> None:
    keep_loggers_steady()
    keep_loggers_steady()
    walk = iter(logging.root.manager.loggerDict.values())
    next(walk)
    new = logging.getLogger("made.meanwhile")
    assert new not in list(walk)
    assert new in logging.root.manager.loggerDict.values()
    assert logging.getLogger("made.meanwhile") is new
