"""Hands all results of a run to the hook that wants them."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.runtime.user_errors import user_traceback
from pytest_agentv.session.hooking.user_hooks import FOREIGN_FOLDERS, is_interrupt

_SUMMARY: Final = "pytest_agentv_summary"


def tell_summary(config: pytest.Config, results: Sequence[EvalResult]) -> list[str]:
    """Call the hook; return what is to be said of it, which is nothing unless it raised."""
    hook: Any = config.hook
    try:
        hook.pytest_agentv_summary(results=tuple(results))
    except BaseException as error:
        if is_interrupt(error):
            raise
        return [f"{_SUMMARY} raised {user_traceback(error, *FOREIGN_FOLDERS)}"]
    return []
