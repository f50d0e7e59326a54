"""Gives each evaluation of a test an id of its own."""

import threading

import pytest

from pytest_agentv.models.base import Json
from pytest_agentv.session.running.items import EvalItem


class EvalIds:
    """The ids of the evaluations of one item, which may evaluate in several threads."""

    def __init__(self, item: pytest.Item) -> None:
        self._taken: set[str] = set()
        if isinstance(item, EvalItem):  # a fixture of the case evaluates: the case has a result of its own
            self._taken |= {item.name, item.entry.eval_id or item.name}
        self._choosing = threading.Lock()

    def take(self, given: Json) -> Json:
        """Return an id with a number if it is taken. The loader reports an id that is not a text."""
        name, copy = given, 1
        with self._choosing:
            while isinstance(name, str) and name in self._taken:
                copy += 1
                name = f"{given}-{copy}"
            if isinstance(name, str):
                self._taken.add(name)
        return name
