"""The values of `agentv_provider` and `agentv_judge`: our defaults, and those of users."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_agentv.engine.overrides import OWN_JUDGE, OWN_PROVIDER, Overrides
from pytest_agentv.errors import AgentvError
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.session.compat import fixture_functions, uses_own_fixture
from pytest_agentv.session.running.eval_session import EvalSession

if TYPE_CHECKING:
    from pytest_agentv.providers.python.own_calls import OwnCalls

OWN_FIXTURES: Final = (OWN_PROVIDER, OWN_JUDGE)
"""Fixtures that replace targets if they are overridden."""


_CALLS: Final = pytest.StashKey["OwnCalls"]()


class TargetCaller:
    """A function that asks a target and returns its `ProviderResponse`. Nothing is judged or recorded.

    Called by an object that stands in for a target, it asks this target, for the answer that the object is to give.
    """

    def __init__(self, open_session: Callable[[], EvalSession], file: Path, target: str, calls: "OwnCalls") -> None:
        """`calls` are those of the object that asks the target through this function, if there is one."""
        self._open_session = open_session
        self._file = file
        self._target = target
        self._calls = calls

    def __call__(self, prompt: str) -> ProviderResponse:
        """Ask the target and wait for its answer. Raises `AgentvError` when there is none."""
        __tracebackhide__ = True
        session, call = self._open_session(), self._calls.current(self._file.parent, self._target)
        if call is None:
            session.skip_unasked(self._file, self._target, has_own_target=False)
        if session.is_own_thread:
            raise RuntimeError(f"{OWN_PROVIDER} waits for its answer: call it from a function that is not async")
        try:
            if call is not None:
                return session.ask_for_call(call, prompt)
            return session.ask(self._file.parent, self._target, prompt)
        except AgentvError as error:
            raise error.with_traceback(None) from None

    def __repr__(self) -> str:
        return f"<agentv_provider: target {self._target!r}>"


def caller_of(item: pytest.Item, open_session: Callable[[], EvalSession], target: str) -> TargetCaller:
    """Make the value of our fixture for an item."""
    from pytest_agentv.providers.python.own_calls import OwnCalls  # noqa: PLC0415 - few cases need our fixture

    calls = item.stash[_CALLS] = OwnCalls()
    return TargetCaller(open_session, item.path, target, calls)


def overrides(item: pytest.Item, provider: object, judge: object) -> Overrides:
    """Return the objects of users that replace targets, made by an item's fixtures. Our own values replace nothing."""
    given = None if isinstance(provider, TargetCaller) else provider
    return Overrides(
        given,
        judge,
        provider_files=() if given is None else _files_of_fixture(item, OWN_PROVIDER),
        judge_files=() if judge is None else _files_of_fixture(item, OWN_JUDGE),
        calls=item.stash.get(_CALLS, None) if given is not None and asks_target(item) else None,
    )


def asks_target(item: pytest.Item) -> bool:
    """Whether the fixture that overrides `OWN_PROVIDER` requests it, and so can ask the target that it replaces."""
    return uses_own_fixture(item, OWN_PROVIDER)


def _files_of_fixture(item: pytest.Item, name: str) -> tuple[Path, ...]:
    from pytest_agentv.loading.code_files import source_files  # noqa: PLC0415 - only for fixtures of users

    return tuple(dict.fromkeys(file for function in fixture_functions(item, name) for file in source_files(function)))
