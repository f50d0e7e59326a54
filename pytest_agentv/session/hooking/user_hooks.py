"""Calls the hooks of users around their cases, and turns their exceptions into errors that pytest shows."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pluggy
import pytest

from pytest_agentv.engine.overrides import NO_HOOKS, CaseHooks, Decision
from pytest_agentv.errors import HookError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import JsonObject, own_copy
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.runtime.user_errors import user_traceback

_CASE: Final = "pytest_agentv_case"
_RESPONSE: Final = "pytest_agentv_response"
_ASSERT: Final = "pytest_agentv_assert"
_RESULT: Final = "pytest_agentv_result"
_SUMMARY: Final = "pytest_agentv_summary"

MASKER: Final = pytest.StashKey[Masker]()
"""The masker of the cases that run in this process."""

FOREIGN_FOLDERS: Final = tuple(str(Path(module.__file__ or "").parent) for module in (pluggy, pytest))


class UserHooks:
    """The hooks of a run, called through the node of each item. Hooks of a conftest apply only below its folder."""

    def __init__(self, config: pytest.Config) -> None:
        self.warnings: list[Problem] = []
        """Warnings of hooks that got results. The code that shows them empties the list."""
        self._hook: Any = config.hook

    def adjust(self, item: pytest.Item, case: EvalCase) -> EvalCase:
        """Return the case as the hooks change it. Raises `HookError`."""
        call = self._find(item, _CASE)
        if call is None:
            return case
        changed = _call(_CASE, lambda: call(case=own_copy(case)))
        if changed is None:
            return case
        if not isinstance(changed, EvalCase):
            raise _odd_value(_CASE, changed, "an EvalCase (case.replace(...)) or None")
        from pytest_agentv.session.hooking.changed_cases import changed_fault  # noqa: PLC0415 - few hooks change cases

        if fault := changed_fault(case, changed):
            raise HookError(f"{_CASE} returned a case with {fault}")
        return changed

    def of(self, item: pytest.Item) -> CaseHooks:
        """Return the hooks to call while the case of an item runs."""
        response, asserting, told = (self._find(item, name) for name in (_RESPONSE, _ASSERT, _RESULT))
        if response is None and asserting is None and told is None:
            return NO_HOOKS
        return CaseHooks(
            None if response is None else lambda case, given: _changed_response(response, case, given),
            None if asserting is None else lambda case, result: _decision(asserting, case, result),
            None if told is None else lambda case, result: self._tell(told, case, result),
        )

    def _find(self, item: pytest.Item, name: str) -> Callable[..., Any] | None:
        """Return a function that calls a hook; None if nobody implements it. Asks the whole run first."""
        if not getattr(self._hook, name).get_hookimpls():
            return None
        caller: Any = getattr(item.ihook, name)
        return caller if caller.get_hookimpls() else None

    def _tell(self, call: Callable[..., Any], case: EvalCase | None, result: EvalResult) -> None:
        try:
            _call(_RESULT, lambda: call(case=own_copy(case), result=own_copy(result)))
        except HookError as error:
            path = Path(case.path if case else result.eval_file or "")
            self.warnings.append(Problem(path, result.line, result.eval_id, str(error), level="warning"))


def tell_summary(config: pytest.Config, results: Sequence[EvalResult], verdict: JsonObject | None) -> list[str]:
    """Call the hook that gets all results of a run. Returns a masked line for the summary if it raised."""
    hook: Any = config.hook
    try:
        hook.pytest_agentv_summary(results=tuple(results), verdict=verdict)
    except BaseException as error:
        if is_interrupt(error):
            raise
        masker = config.stash.get(MASKER, None) or Masker.of_environment()
        return [shown(f"{_SUMMARY} raised {user_traceback(error, *FOREIGN_FOLDERS)}", masker)]
    return []


def _changed_response(call: Callable[..., Any], case: EvalCase, response: ProviderResponse) -> ProviderResponse:
    changed = _call(_RESPONSE, lambda: call(case=own_copy(case), response=own_copy(response)))
    if changed is None:
        return response
    if not isinstance(changed, ProviderResponse):
        raise _odd_value(_RESPONSE, changed, "a ProviderResponse (response.replace(...)) or None")
    from pytest_agentv.providers.response_faults import response_fault, with_tuples  # noqa: PLC0415 - for changed responses only

    if fault := response_fault(changed):
        raise HookError(f"{_RESPONSE} returned {fault}")
    return with_tuples(changed)


def _decision(call: Callable[..., Any], case: EvalCase, result: EvalResult) -> Decision | None:
    case, result = own_copy(case), own_copy(result)
    try:
        word = _call(_ASSERT, lambda: call(case=case, result=result), passing=(AssertionError, pytest.fail.Exception))
    except (AssertionError, pytest.fail.Exception) as error:
        return Decision(passed=False, reason=str(error).strip() or f"{_ASSERT} raised {type(error).__name__}")
    if word is None:
        return None
    if isinstance(word, str):
        return Decision(passed=False, reason=word.strip() or f"{_ASSERT} gave no reason")
    if isinstance(word, bool):
        return Decision(word, f"{_ASSERT} says that the case {'passes' if word else 'fails'}")
    raise _odd_value(_ASSERT, word, "True, False, a text that says why the case fails, or None")


def _call(name: str, call: Callable[[], Any], passing: tuple[type[BaseException], ...] = ()) -> Any:
    """Call a hook. Raises `HookError` for its exceptions, except `passing` ones."""
    try:
        return call()
    except passing:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise HookError(f"{name} raised {user_traceback(error, *FOREIGN_FOLDERS)}") from error


def is_interrupt(error: BaseException) -> bool:
    """Whether an error may be a Ctrl-C, which only the main thread gets. No other error of a hook ends the run."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _odd_value(name: str, value: object, expected: str) -> HookError:
    return HookError(f"{name} returned a value of type {type(value).__name__}: expected {expected}")
