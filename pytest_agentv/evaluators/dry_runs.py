"""Tells, in a dry run, a check that is broken from one that only cannot read the answer of the mock."""

import re
import traceback
from typing import Final

from pytest_agentv.errors import KindError
from pytest_agentv.evaluators.scripts.script import ScriptFailedError
from pytest_agentv.runtime.user_errors import is_ours, leaves

_BROKEN: Final = (NameError, SyntaxError, ImportError, FileNotFoundError)
"""Errors that code raises whatever the answer is."""
_NOT_STARTED: Final = (126, 127)
"""The shell's exit codes for a program that is missing or cannot be started."""
_SAID: Final = re.compile(
    r"\b(?:Name|UnboundLocal|Reference|Syntax|Indentation|Tab|Import|ModuleNotFound|FileNotFound)Error\b"
    r"|can't open file|Cannot find module|No such file"
)
"""What scripts say of such errors."""


def is_of_mock(error: BaseException) -> bool:
    """Whether a check that works may fail with this error on the answer of a mock: it ran, and raised on the answer."""
    if isinstance(error, ScriptFailedError):
        return error.exit_code not in _NOT_STARTED and not _SAID.search(str(error))
    if isinstance(error, KindError):
        if error.kind != "crash":
            return False
        if error.__cause__ is None:
            return not any(is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[-1:])
        error = error.__cause__
    return all(isinstance(leaf, Exception) and not isinstance(leaf, _BROKEN) for leaf in leaves(error))
