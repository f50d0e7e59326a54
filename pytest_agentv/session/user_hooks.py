"""The hooks of users and their conftest files around cases."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pluggy
import pytest

from pytest_agentv.engine.jobs import NO_HOOKS, CaseHooks, Decision
from pytest_agentv.errors import HookError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import JsonObject, is_amount, is_number, own_copy
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import merge_kinds
from pytest_agentv.model.options import MAX_REPEAT
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.reports.figures import shown
from pytest_agentv.runtime.user_code import user_traceback

# Calls the hooks of users around their cases, and turns their exceptions into errors that pytest shows.

_CASE: Final = "pytest_agentv_case"
_RESPONSE: Final = "pytest_agentv_response"
_ASSERT: Final = "pytest_agentv_assert"
_RESULT: Final = "pytest_agentv_result"

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
        _call("pytest_agentv_summary", lambda: hook.pytest_agentv_summary(results=tuple(results), verdict=verdict))
    except HookError as error:
        return [shown(str(error), config.stash.get(MASKER, None) or Masker.of_environment())]
    return []


def _changed_response(call: Callable[..., Any], case: EvalCase, response: ProviderResponse) -> ProviderResponse:
    changed = _call(_RESPONSE, lambda: call(case=own_copy(case), response=own_copy(response)))
    if changed is None:
        return response
    if not isinstance(changed, ProviderResponse):
        raise _odd_value(_RESPONSE, changed, "a ProviderResponse (response.replace(...)) or None")
    from pytest_agentv.providers.kind import WireError, checked  # noqa: PLC0415 - for changed responses only

    try:
        return checked(changed)
    except WireError as error:
        raise HookError(f"{_RESPONSE} returned {error}") from None


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


# Checks a case that a hook changed: files are checked when they are loaded.


_TYPES: Final = (
    (("required",), bool, "True or False"),
    (("dataset", "expected_outcome", "question", "reference_answer"), str, "a text"),
    (("conversation_id", "target", "judge", "group"), str | None, "a text, or None"),
)


def changed_fault(before: EvalCase, case: EvalCase) -> str | None:
    """Return what a changed case must not have, such as `threshold=2: expected a number from 0 to 1`; None: nothing."""
    from pytest_agentv.evaluators.base import Evaluator  # noqa: PLC0415 - costs pydantic

    if case.eval_id != before.eval_id:
        return f"eval_id={case.eval_id!r}: expected {before.eval_id!r}, since it names the case in the results"
    for name, value in (("threshold", case.threshold), ("min_pass_rate", case.min_pass_rate)):
        if value is not None and not (is_number(value) and 0 <= value <= 1):
            return f"{name}={value!r}: expected a number from 0 to 1, or None"
    if case.repeat is not None and not (type(case.repeat) is int and 1 <= case.repeat <= MAX_REPEAT):
        return f"repeat={case.repeat!r}: expected a whole number from 1 to {MAX_REPEAT}, or None"
    for names, types, expected in _TYPES:
        for name in names:
            if not isinstance(value := getattr(case, name), types):
                return f"{name}={value!r}: expected {expected}"
    evaluators: Any = case.evaluators
    if evaluators is None or evaluators == before.evaluators:
        return None
    if not isinstance(evaluators, tuple | list) or not evaluators:
        return f"evaluators={evaluators!r}: expected a tuple of at least one Evaluator, or None for the default judge"
    for index, each in enumerate(evaluators):
        if not isinstance(each, Evaluator):
            return f"evaluators[{index}]={each!r}: expected an Evaluator"
        if not is_amount(each.weight):
            return f"the weight {each.weight!r} of evaluator {each.label!r}: expected a number of 0 or more"
    return None


# The kinds of providers and evaluators that plugins and conftest files add.


def hooked_kinds(name: str, ask: Callable[[], Sequence[object]]) -> dict[str, Any]:
    """Return all kinds by name. The nearest conftest answers first, and wins. Raises `HookError`."""
    found = _call(name, ask)
    try:
        return merge_kinds(found)
    except ValueError as error:
        raise HookError(f"{name}: {error}", "config") from error


class FolderKinds:
    """The kinds of each folder. If two conftest files add the same name, the file above the folder counts.

    The first case of a folder calls the hooks, because all conftest files are loaded then.
    """

    def __init__(self, config: pytest.Config, hook: str) -> None:
        self._config = config
        self._hook = hook
        self._kinds: dict[tuple[str, ...], dict[str, Any]] = {}
        """By the plugins and conftest files that apply to a folder."""
        self._folders: dict[Path, dict[str, Any]] = {}

    def __call__(self, folder: Path) -> dict[str, Any]:
        """Return the kinds of a folder: the same object for folders below the same conftest files.

        Raises `HookError`.
        """
        if folder not in self._folders:
            session: Any = self._config.pluginmanager.get_plugin("session")
            near, everywhere = (
                getattr(hooks, self._hook) for hooks in (session.gethookproxy(folder), self._config.hook)
            )
            key = tuple(each.plugin_name for each in near.get_hookimpls())
            if key not in self._kinds:
                self._kinds[key] = hooked_kinds(self._hook, lambda: [*near(), *everywhere()])
            self._folders[folder] = self._kinds[key]
        return self._folders[folder]


# Tells which fixtures and hooks of conftest files are around an item. They belong to its turn.

FIXTURES: Final = "fixtures"
HOOKS: Final = "hooks"

_AROUND: Final = ("pytest_runtest_protocol", "pytest_runtest_setup")
"""Hooks that may skip an item, or change what its case sees."""
_ORIGINS: Final = pytest.StashKey[dict[Any, bool]]()
"""Whether a fixture comes from the project, by its definition."""
_HOOKS_AROUND: Final = pytest.StashKey[dict[pytest.Collector | None, str | None]]()
"""The text of `hook_around` for the items of each file. To look a collector up is cheaper than to find a folder."""


def is_free_to_run_ahead(item: pytest.Function) -> bool:
    """Whether no fixture that is set up for each item can change what the case sees. Those of plugins do not count."""
    own = _fixtures_of_conftests(item)
    return all(each is not None and each.scope == "session" and each.cached_result is not None for each in own)


def hook_around(item: pytest.Item) -> str | None:
    """Return `evals/conftest.py has the hook pytest_runtest_setup`, if a conftest has a hook around the item."""
    known = item.config.stash.setdefault(_HOOKS_AROUND, {})
    place = item.parent
    if place not in known:
        known[place] = None
        around = [(name, each) for name in _AROUND for each in getattr(item.ihook, name).get_hookimpls()]
        for name, each in reversed(around):
            if each.plugin_name.endswith("conftest.py"):  # registered under their paths
                known[place] = f"{locate(Path(each.plugin_name), None)} has the hook {name}"
            elif _is_written_in_a_conftest(each.function):
                known[place] = f"a conftest.py has the hook {name}"
    return known[place]


def held_by(item: pytest.Function) -> str | None:
    """Return the hook or the fixture of a conftest that keeps the case of an item in its turn; None: there is none."""
    if (hook := hook_around(item)) is not None:
        return hook
    own = (each for each in _fixtures_of_conftests(item) if each is not None and each.scope != "session")
    return next((f"a conftest.py has the fixture {each.argname} of {each.scope} scope" for each in own), None)


def bound_by(item: pytest.Item) -> str | None:
    """Return what binds the case of an item to its turn and to this process; None: it may be asked at any time."""
    if isinstance(item, pytest.Function) and _fixtures_of_conftests(item):
        return FIXTURES
    return HOOKS if hook_around(item) is not None else None


def fixtures_per_case(item: pytest.Function) -> list[str]:
    """Return the fixtures of conftest files that are set up anew for each item."""
    own = _fixtures_of_conftests(item)
    return [each.argname for each in own if each is not None and each.scope == "function"]


def _fixtures_of_conftests(item: pytest.Function) -> list[Any]:
    """Return the definitions of the fixtures of conftest files that an item is set up with; None for an unknown one."""
    definitions = item._fixtureinfo.name2fixturedefs
    names = (name for name in item.fixturenames if name != "request")
    found = (definitions[name][-1] if name in definitions else None for name in names)
    return [each for each in found if each is None or _is_of_the_project(each, item.config)]


def _is_of_the_project(definition: Any, config: pytest.Config) -> bool:
    """Whether a fixture comes from a conftest file, also if that imports it, or from below; False: from a plugin."""
    known = config.stash.setdefault(_ORIGINS, {})
    if definition not in known:
        module, plugins = str(getattr(definition.func, "__module__", "")), config.pluginmanager
        modules = {getattr(each, "__name__", type(each).__module__) for each in plugins.get_plugins()}
        installed = {getattr(plugin, "__name__", "") for plugin, _ in plugins.list_plugin_distinfo()}
        packages = {name.partition(".")[0] for name in ("_pytest", __name__, *installed)}
        is_plugin = module in modules or module.partition(".")[0] in packages
        known[definition] = _is_written_in_a_conftest(definition.func) or not is_plugin
    return known[definition]


def _is_written_in_a_conftest(function: Callable[..., Any]) -> bool:
    """Whether a function is from a conftest, which may register objects and fixtures of its own."""
    return str(getattr(function, "__module__", "")).rpartition(".")[2] == "conftest"
