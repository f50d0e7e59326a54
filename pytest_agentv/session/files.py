"""Eval files: the collectors of eval items."""

import types
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_agentv.errors import SourceError
from pytest_agentv.loading.problems import join_problems
from pytest_agentv.loading.suites import SuiteSource, read_suite
from pytest_agentv.session.hooks import participate
from pytest_agentv.session.items import EvalItem, function_with_fixtures
from pytest_agentv.session.names import unique_names
from pytest_agentv.session.outcomes import AgentvWarning, anchored_text, show_warnings


class EvalFile(pytest.Module):
    """An eval file. A `pytest.Module`, because module-scoped fixtures need one, with a module object of its own."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        return module

    def collect(self) -> Iterable[EvalItem]:
        suite = self._read_suite()
        function = function_with_fixtures(())
        shared = None
        for name, entry in zip(unique_names(entry.eval_id for entry in suite.entries), suite.entries, strict=True):
            item: EvalItem = EvalItem.from_parent(
                self, name=name, suite=suite, entry=entry, callobj=function, fixtureinfo=shared
            )
            shared = item._fixtureinfo  # finding the fixtures anew for each of 10,000 items doubles the time
            yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        """Show what is wrong with the file, also in the short summary."""
        if not isinstance(excinfo.value, self.CollectError):
            return super().repr_failure(excinfo)
        return anchored_text(excinfo, str(self.path), 1, str(excinfo.value).partition("\n")[0])

    def _read_suite(self) -> SuiteSource:
        try:
            session = participate(self.config)
            suite = read_suite(self.path)
            if suite.problems and session.options.strict:
                raise self.CollectError(join_problems(suite.problems))
            show_warnings(suite.problems)
        except (SourceError, AgentvWarning, pytest.UsageError) as error:
            raise self.CollectError(str(error)) from None
        return suite
